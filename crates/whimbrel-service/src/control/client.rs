//! The client of the control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::server::own_user;
use super::{Answer, Request};

/// How long a service may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest answer, bytes. A status has some 500 bytes for each session and half as much for each path beyond the
/// first, and a service may have a hundred thousand sessions.
const LONGEST_ANSWER: u64 = 256 << 20;

/// An error from asking a service.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No service listens on the socket.
    #[error("no service answers on {path:?} ({error}): start it with this control socket, or name another")]
    Nobody {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The socket belongs to another user.
    #[error("permission denied on the control socket {0:?}: it belongs to another user, so run as that user")]
    Forbidden(PathBuf),
    /// The service closed the connection, did not answer in time, or gave an answer that makes no sense.
    #[error(
        "the service on {0:?} did not answer: it may be stopping, or run another version, so try again, or use the `whimbrel` of its version"
    )]
    NoAnswer(PathBuf),
    /// The answer is longer than any service's.
    #[error(
        "the process on {path:?} answered with more than {longest} bytes: it is not a whimbrel service, so name another socket"
    )]
    TooLong {
        /// The path of the socket.
        path: PathBuf,
        /// The most bytes of an answer.
        longest: u64,
    },
    /// The service refused the request, for this reason.
    #[error("{0}")]
    Refused(String),
}

/// Sends a request to a service over its control socket, and returns the answer.
///
/// # Errors
/// No service listens, it does not answer or answers without end, or it refuses the request.
pub async fn ask(path: &Path, request: Request) -> Result<serde_json::Value, AskError> {
    ask_within(path, request, LONGEST_ANSWER).await
}

/// Asks a service over its control socket to hand itself over to this process. What comes over the connection then is
/// defined by the service; it is closed if the service cannot do that.
///
/// # Errors
/// No service listens, or it is another user's.
pub async fn take_over(path: &Path) -> Result<UnixStream, AskError> {
    let mut stream = UnixStream::connect(path).await.map_err(|error| unreachable(path, error))?;
    // What another user hands over could be anything, and this process may have more rights.
    let owner = stream.peer_cred().map_err(|error| unreachable(path, error))?.uid();
    if !own_user().is_ok_and(|own| own == owner) {
        return Err(AskError::Forbidden(path.to_owned()));
    }
    let mut line = serde_json::to_vec(&Request::HandOver).map_err(|_| AskError::NoAnswer(path.to_owned()))?;
    line.push(b'\n');
    stream.write_all(&line).await.map_err(|_| AskError::NoAnswer(path.to_owned()))?;
    Ok(stream)
}

async fn ask_within(path: &Path, request: Request, longest: u64) -> Result<serde_json::Value, AskError> {
    let stream = UnixStream::connect(path).await.map_err(|error| unreachable(path, error))?;
    let answered = tokio::time::timeout(PATIENCE, exchange(stream, request, longest)).await;
    let no_answer = || AskError::NoAnswer(path.to_owned());
    let Ok(Ok(line)) = answered else { return Err(no_answer()) };
    if line.len() as u64 > longest {
        return Err(AskError::TooLong { path: path.to_owned(), longest });
    }
    match serde_json::from_slice(&line) {
        Ok(Answer::Ok(value)) => Ok(value),
        Ok(Answer::Error(why)) => Err(AskError::Refused(why)),
        Err(_) => Err(no_answer()),
    }
}

fn unreachable(path: &Path, error: io::Error) -> AskError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => AskError::Forbidden(path.to_owned()),
        _ => AskError::Nobody { path: path.to_owned(), error },
    }
}

/// Returns the line of the answer, or its first `longest + 1` bytes.
async fn exchange(stream: UnixStream, request: Request, longest: u64) -> io::Result<Vec<u8>> {
    let (read, mut write) = stream.into_split();
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    write.write_all(&line).await?;
    let mut answer = Vec::new();
    BufReader::new(read).take(longest + 1).read_until(b'\n', &mut answer).await?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn an_answer_without_end_is_an_error_and_a_long_one_is_read() {
        let path = std::env::temp_dir().join(format!("whimbrel-control-endless-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let letters = "a".repeat(1 << 20);
        let long = format!("{{\"ok\":\"{letters}\"}}\n");
        let longest = long.len() as u64;
        let service = tokio::spawn(async move {
            let (mut client, _) = listener.accept().await.unwrap();
            client.write_all(long.as_bytes()).await.unwrap();
            let (mut client, _) = listener.accept().await.unwrap();
            // It is not read to its end, since there is none.
            while client.write_all(letters.as_bytes()).await.is_ok() {}
        });
        let answer = ask_within(&path, Request::Status, longest).await.unwrap();
        assert_eq!(answer.as_str().unwrap().len(), 1 << 20);
        let error = ask_within(&path, Request::Status, longest).await.unwrap_err();
        service.await.unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(error, AskError::TooLong { longest: named, .. } if named == longest), "{error}");
        assert!(error.to_string().contains("it is not a whimbrel service"), "{error}");
    }

    #[test]
    fn a_socket_of_another_user_is_said_to_be_one() {
        let why = |kind: io::ErrorKind| unreachable(Path::new("/run/perf.sock"), kind.into()).to_string();
        assert!(why(io::ErrorKind::PermissionDenied).contains("run as that user"));
        assert!(why(io::ErrorKind::ConnectionRefused).contains("start it with this control socket"));
    }
}
