//! The server of the control socket.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Answer, LONGEST_REQUEST, Request};
use crate::command::{Asked, Command, StoppedBy};
use crate::error::ServiceError;
use crate::service::Subject;

/// The maximum number of clients at a time. Further ones wait.
const CLIENTS: usize = 16;
/// How long a client may be silent before it is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bound control socket. Dropping it removes its file.
pub(crate) struct ControlServer {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl ControlServer {
    pub(crate) async fn bind(
        path: PathBuf,
        subject: Arc<Subject>,
        commands: mpsc::Sender<Command>,
    ) -> Result<Self, ServiceError> {
        let failed = |error| ServiceError::Control { path: path.clone(), error };
        if UnixStream::connect(&path).await.is_ok() {
            return Err(ServiceError::ControlInUse(path));
        }
        let listener = bind_private(&path).map_err(failed)?;
        let task = tokio::spawn(accept(listener, subject, commands));
        Ok(Self { path, task })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.task.abort();
        // The file may be gone already.
        std::fs::remove_file(&self.path).ok();
    }
}

/// Binds a socket that no other user can connect to at any time: it gets its final name only once its mode is set.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        // A killed process has left this socket behind.
        Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => return Err(io::Error::other("a file of that name is no socket, and is left alone")),
        Err(_) => {}
    }
    let draft = path.with_extension(format!("new-{}", std::process::id()));
    let listener = UnixListener::bind(&draft)?;
    let named = std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o600))
        .and_then(|()| std::fs::rename(&draft, path));
    if named.is_err() {
        std::fs::remove_file(&draft).ok();
    }
    named.map(|()| listener)
}

async fn accept(listener: UnixListener, subject: Arc<Subject>, commands: mpsc::Sender<Command>) {
    let room = Arc::new(Semaphore::new(CLIENTS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((client, _)) = listener.accept().await else {
            // The process may be out of file descriptors, for example.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (subject, commands) = (Arc::clone(&subject), commands.clone());
        tokio::spawn(async move {
            // Errors are ignored: the client may have disconnected.
            serve(client, &subject, &commands).await.ok();
            drop(permit);
        });
    }
}

async fn serve(client: UnixStream, subject: &Subject, commands: &mpsc::Sender<Command>) -> io::Result<()> {
    let (read, mut write) = client.into_split();
    let mut lines = BufReader::new(read);
    loop {
        let asked = tokio::time::timeout(PATIENCE, next_line(&mut lines)).await;
        let Ok(Some(line)) = asked.unwrap_or(Ok(None)) else { return Ok(()) };
        let answer = match serde_json::from_slice(&line) {
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
            Ok(Request::Status) => status(subject),
            Ok(Request::Reload) => reload(commands).await,
            Err(error) => {
                Answer::Error(format!("no request: {error}; write for example {{\"request\":\"status\"}}"))
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

fn status(subject: &Subject) -> Answer {
    match serde_json::to_value(subject.status()) {
        Ok(status) => Answer::Ok(status),
        Err(error) => Answer::Error(error.to_string()),
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

async fn say(write: &mut OwnedWriteHalf, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    write.write_all(&line).await
}
