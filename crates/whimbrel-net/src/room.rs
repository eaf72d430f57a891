//! Waiting for room in the send buffer of a socket.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

/// A second descriptor of a socket, by which its senders wait for room.
///
/// The system reports room each time that a datagram has left. If a socket were always watched for room, each datagram sent
/// would end somebody's wait for datagrams. So the socket itself is watched for datagrams only, and this descriptor while a
/// sender waits.
#[derive(Debug)]
pub(crate) struct Room {
    socket: UdpSocket,
    /// A descriptor can be watched once at a time, so senders wait in turn.
    turn: Mutex<()>,
}

impl Room {
    /// The room of this socket.
    pub(crate) fn of(socket: &UdpSocket) -> io::Result<Self> {
        Ok(Self { socket: socket.try_clone()?, turn: Mutex::new(()) })
    }

    /// Waits until there may be room. Cancel-safe.
    pub(crate) async fn wait(&self) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        #[allow(unsafe_code, reason = "the runtime cannot know whether a descriptor stays open")]
        // SAFETY: the descriptor is this socket's, which outlives the borrow.
        let watched = unsafe { AsyncFd::register_with_interest(self.socket.as_fd(), Interest::WRITABLE) }?;
        watched.writable().await.map(drop)
    }
}
