//! The server of the control socket.

use std::fs::{File, TryLockError};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Answer, LONGEST_REQUEST, Request};
use crate::command::{Asked, Command, StoppedBy};
use crate::error::ServiceError;
use crate::subject::Subject;

/// The maximum number of clients at a time. Further ones wait.
const CLIENTS: usize = 16;
/// How long a client may be silent before it is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long another service may take to make its socket in the same folder, and how often it is looked at.
const LOCKING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);
/// The mode of the socket's file.
const PRIVATE: u32 = 0o600;
/// The user that may do everything.
const ROOT: u32 = 0;
/// How many clients may wait to be accepted.
#[cfg(target_os = "linux")]
const BACKLOG: i32 = 128;

/// A bound control socket. Dropping it removes its file, unless another process has replaced that.
pub(crate) struct ControlServer {
    path: PathBuf,
    file: FileId,
    /// While the socket is open, no other file has its `FileId`.
    _listener: Arc<UnixListener>,
    task: JoinHandle<()>,
}

impl ControlServer {
    pub(crate) async fn bind(
        path: PathBuf,
        subject: Arc<Subject>,
        commands: mpsc::Sender<Command>,
    ) -> Result<Self, ServiceError> {
        let failed = |error| ServiceError::Control { path: path.clone(), error };
        // Of services that start at once on one path, only one finds it free.
        let _lock = lock_folder(&path).await;
        if UnixStream::connect(&path).await.is_ok() {
            return Err(ServiceError::ControlInUse(path));
        }
        let own = own_user().map_err(failed)?;
        let (listener, file) = bind_private(&path).map_err(failed)?;
        let listener = Arc::new(listener);
        let task = tokio::spawn(accept(Arc::clone(&listener), own, subject, commands));
        Ok(Self { path, file, _listener: listener, task })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.task.abort();
        // If somebody has removed the file, another service may have made one of its own.
        if FileId::of(&self.path).is_ok_and(|found| found == self.file) {
            // The file may be gone already.
            std::fs::remove_file(&self.path).ok();
        }
    }
}

/// The device and the inode number of a file, which tell it from another one that has its name later.
#[derive(PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        let found = std::fs::symlink_metadata(path)?;
        Ok(Self(found.dev(), found.ino()))
    }
}

/// Locks the folder of a socket, for as long as what is returned lives. None: it cannot be locked, or somebody has locked it
/// for very long, who is not waited for.
async fn lock_folder(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder).ok()?;
    let deadline = Instant::now() + LOCKING;
    while let Err(TryLockError::WouldBlock) = folder.try_lock() {
        if Instant::now() > deadline {
            return None;
        }
        tokio::time::sleep(LOOK).await;
    }
    Some(folder)
}

/// Binds a socket that no other user can connect to at any time: it gets its final name only once its mode is set.
fn bind_private(path: &Path) -> io::Result<(UnixListener, FileId)> {
    match std::fs::symlink_metadata(path) {
        // A killed process has left this socket behind.
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("a file of that name is not a socket and is left alone")),
        Err(_) => {}
    }
    let draft = path.with_extension(format!("new-{}", std::process::id()));
    let listener = bind_shut(&draft)?;
    let named = std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(PRIVATE))
        .and_then(|()| FileId::of(&draft))
        .and_then(|file| std::fs::rename(&draft, path).map(|()| file));
    if named.is_err() {
        std::fs::remove_file(&draft).ok();
    }
    named.map(|file| (listener, file))
}

/// Binds a socket whose file has its mode from the beginning. Others see its name in the folder at once, and whoever
/// connects before a later change of the mode stays connected.
#[cfg(target_os = "linux")]
fn bind_shut(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // On Linux the file that `bind` makes has the mode of the socket, less the umask. Elsewhere sockets have no mode.
    let socket = File::from(OwnedFd::from(socket));
    socket.set_permissions(std::fs::Permissions::from_mode(PRIVATE))?;
    let socket = Socket::from(OwnedFd::from(socket));
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let listening = socket.listen(BACKLOG);
    if listening.is_err() {
        std::fs::remove_file(path).ok();
    }
    listening.and_then(|()| UnixListener::from_std(OwnedFd::from(socket).into()))
}

#[cfg(not(target_os = "linux"))]
fn bind_shut(path: &Path) -> io::Result<UnixListener> {
    UnixListener::bind(path)
}

/// Returns the user that this process acts as.
pub(super) fn own_user() -> io::Result<u32> {
    Ok(UnixStream::pair()?.0.peer_cred()?.uid())
}

/// Returns whether the control socket of a service that acts as `own` serves `user`. The file's mode says the same,
/// but somebody may change it, and not every system heeds it.
fn may_ask(user: u32, own: u32) -> bool {
    user == own || user == ROOT
}

async fn accept(
    listener: Arc<UnixListener>,
    own: u32,
    subject: Arc<Subject>,
    commands: mpsc::Sender<Command>,
) {
    let room = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            // The process may be out of file descriptors, for example.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if !client.peer_cred().is_ok_and(|client| may_ask(client.uid(), own)) {
            refuse(&client);
            continue;
        }
        let (subject, commands) = (Arc::clone(&subject), commands.clone());
        tokio::spawn(async move {
            // Errors are ignored: the client may have disconnected.
            serve(client, &subject, &commands).await.ok();
            drop(permit);
        });
    }
}

async fn serve(
    client: UnixStream,
    subject: &Arc<Subject>,
    commands: &mpsc::Sender<Command>,
) -> io::Result<()> {
    let (read, mut write) = client.into_split();
    let mut lines = BufReader::new(read);
    loop {
        let asked = tokio::time::timeout(PATIENCE, next_line(&mut lines)).await;
        let Ok(Some(line)) = asked.unwrap_or(Ok(None)) else { return Ok(()) };
        let answer = match serde_json::from_slice(&line) {
            Ok(Request::HandOver) => {
                // The client waits for the service, so nothing of it was read too far.
                if let Ok(stream) = lines.into_inner().reunite(write) {
                    commands.send(Command::HandOver(stream)).await.ok();
                }
                return Ok(());
            }
            Ok(Request::Stop) => match commands.reserve().await {
                Ok(stop) => {
                    // The process may end as soon as it is told to, so the client is answered first.
                    let answered = say(&mut write, &Answer::Ok("stopping".into())).await;
                    stop.send(Command::Stop(StoppedBy::Request));
                    answered?;
                    continue;
                }
                Err(_) => Answer::Error("the service is ending".to_owned()),
            },
            Ok(Request::Status) => status(Arc::clone(subject)).await,
            Ok(Request::Reload) => reload(commands).await,
            Err(error) => {
                Answer::Error(format!("not a request: {error}; write for example {{\"request\":\"status\"}}"))
            }
        };
        say(&mut write, &answer).await?;
    }
}

/// Reads the next request line. Returns None at the end, and if a line is too long.
async fn next_line(lines: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = (&mut *lines).take(LONGEST_REQUEST).read_until(b'\n', &mut line).await?;
    Ok((read > 0 && line.ends_with(b"\n")).then_some(line))
}

/// Everything that the service has is visited, so it keeps off the threads that drive sessions.
async fn status(subject: Arc<Subject>) -> Answer {
    match tokio::task::spawn_blocking(move || serde_json::to_value(subject.status())).await {
        Ok(Ok(status)) => Answer::Ok(status),
        Ok(Err(error)) => Answer::Error(error.to_string()),
        Err(_) => Answer::Error("the service is ending".to_owned()),
    }
}

async fn reload(commands: &mpsc::Sender<Command>) -> Answer {
    let (tell, told) = oneshot::channel();
    if commands.send(Command::Reload(Asked::by(tell))).await.is_err() {
        return Answer::Error("the service is ending".to_owned());
    }
    match told.await {
        Ok(Ok(said)) => Answer::Ok(said.into()),
        Ok(Err(why)) => Answer::Error(why),
        Err(_) => Answer::Error("this service has nothing to reload".to_owned()),
    }
}

/// Tells a client of another user why it is not served, if it still listens. Nothing waits for such a client.
fn refuse(client: &UnixStream) {
    let answer =
        Answer::Error("only the user who runs the service, and root, may use this socket".to_owned());
    if let Ok(line) = line(&answer) {
        client.try_write(&line).ok();
    }
}

async fn say(write: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    write.write_all(&line(answer)?).await
}

fn line(answer: &Answer) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_socket_is_private_from_the_moment_it_has_a_name() {
        let path = std::env::temp_dir().join(format!("whimbrel-control-mode-{}", std::process::id()));
        let _listener = bind_shut(&path).unwrap();
        // The umask takes away what is not for the owner, and usually leaves others something.
        let mode = std::fs::symlink_metadata(&path).unwrap().mode() & 0o777;
        std::fs::remove_file(&path).unwrap();
        assert_eq!(format!("{mode:o}"), "600");
    }

    #[tokio::test]
    async fn its_own_user_and_root_may_ask() {
        let own = own_user().unwrap();
        let path = std::env::temp_dir().join(format!("whimbrel-control-own-{}", std::process::id()));
        let _listener = bind_private(&path).unwrap();
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().uid(), own);
        std::fs::remove_file(&path).unwrap();
        assert!(may_ask(own, own) && may_ask(ROOT, own) && may_ask(1000, 1000) && may_ask(ROOT, 1000));
        assert!(!may_ask(1001, 1000) && !may_ask(1000, ROOT));
    }
}
