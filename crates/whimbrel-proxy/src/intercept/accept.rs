//! Accepting programs' connections.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// The pause after an error such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves each connection in a task of its own, for ever.
pub(super) async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream, SocketAddr) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        match listener.accept().await {
            Ok((tcp, from)) => drop(tokio::spawn(serve(tcp, from))),
            // The connection was reset before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // Connections wait in the backlog until files are closed.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
