//! The client of the control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::{Answer, Request};

/// How long a service may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

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
    #[error("the service on {0:?} did not answer: it may be ending, or of another version")]
    NoAnswer(PathBuf),
    /// The service refused the request, for this reason.
    #[error("{0}")]
    Refused(String),
}

/// Sends a request to a service over its control socket, and returns the answer.
///
/// # Errors
/// No service listens, it does not answer, or it refuses the request.
pub async fn ask(path: &Path, request: Request) -> Result<serde_json::Value, AskError> {
    let stream = UnixStream::connect(path).await.map_err(|error| unreachable(path, error))?;
    let answered = tokio::time::timeout(PATIENCE, exchange(stream, request)).await;
    match answered.ok().and_then(Result::ok) {
        Some(Answer::Ok(value)) => Ok(value),
        Some(Answer::Error(why)) => Err(AskError::Refused(why)),
        None => Err(AskError::NoAnswer(path.to_owned())),
    }
}

fn unreachable(path: &Path, error: io::Error) -> AskError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => AskError::Forbidden(path.to_owned()),
        _ => AskError::Nobody { path: path.to_owned(), error },
    }
}

async fn exchange(stream: UnixStream, request: Request) -> io::Result<Answer> {
    let (read, mut write) = stream.into_split();
    let mut line = serde_json::to_vec(&request)?;
    line.push(b'\n');
    write.write_all(&line).await?;
    let mut answer = String::new();
    BufReader::new(read).read_line(&mut answer).await?;
    Ok(serde_json::from_str(&answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_another_user_is_said_to_be_one() {
        let why = |kind: io::ErrorKind| unreachable(Path::new("/run/perf.sock"), kind.into()).to_string();
        assert!(why(io::ErrorKind::PermissionDenied).contains("run as that user"));
        assert!(why(io::ErrorKind::ConnectionRefused).contains("start it with this control socket"));
    }
}
