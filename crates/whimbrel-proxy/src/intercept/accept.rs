//! Accepting programs' connections.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::relay::Over;

/// The most connections that have not yet said where they go. No limit on flows counts them.
const MOST_ASKED: usize = 1_024;
/// The pause after an error such as too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// A program's connection that was just accepted.
pub(super) struct Accepted {
    pub(super) tcp: TcpStream,
    pub(super) from: SocketAddr,
    /// Its place among those that have not yet said where they go.
    pub(super) place: OwnedSemaphorePermit,
}

/// The places of connections that have not yet said where they go.
#[derive(Clone, Debug)]
pub(super) struct Places(Arc<Semaphore>);

impl Places {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MOST_ASKED)))
    }

    /// Returns whether there is a connection that has not yet said where it goes.
    pub(super) fn are_taken(&self) -> bool {
        self.0.available_permits() < MOST_ASKED
    }
}

/// Serves each connection in a task of its own, for ever.
pub(super) async fn accept<F>(
    listener: TcpListener,
    places: Places,
    over: Over,
    serve: impl Fn(Accepted) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let accepted = listener.accept().await;
        // Further connections wait in the backlog. The semaphore is never closed.
        let Ok(place) = Arc::clone(&places.0).acquire_owned().await else { return };
        match accepted {
            Ok((tcp, from)) => over.spawn(serve(Accepted { tcp, from, place })),
            // The connection was reset before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // Connections wait in the backlog until files are closed.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
