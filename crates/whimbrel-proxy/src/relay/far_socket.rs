//! A socket that sends a program's datagrams at the far end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::task::AbortHandle;

/// A socket of a program, with the task that receives. Dropping it ends that.
#[derive(Debug)]
pub(super) struct FarSocket {
    socket: Arc<UdpSocket>,
    receiving: AbortHandle,
}

impl Drop for FarSocket {
    fn drop(&mut self) {
        self.receiving.abort();
    }
}

impl FarSocket {
    /// Serves a socket. `receive` hands on what it receives.
    pub(super) fn serve<R>(
        socket: std::net::UdpSocket,
        receive: impl FnOnce(Arc<UdpSocket>) -> R,
    ) -> io::Result<Arc<Self>>
    where
        R: Future<Output = ()> + Send + 'static,
    {
        socket.set_nonblocking(true)?;
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        let receiving = tokio::spawn(receive(Arc::clone(&socket))).abort_handle();
        Ok(Arc::new(Self { socket, receiving }))
    }

    /// Receives no more, and returns the socket for somebody else.
    pub(super) fn leave(&self) -> io::Result<std::net::UdpSocket> {
        self.receiving.abort();
        self.file().map(std::net::UdpSocket::from)
    }

    /// Sends a datagram. A full buffer loses it, and so does a remote that is unreachable.
    pub(super) fn send(&self, payload: &[u8], to: SocketAddr) {
        SockRef::from(&*self.socket).send_to(payload, &to.into()).ok();
    }

    /// Returns what another process needs to have it.
    pub(super) fn file(&self) -> io::Result<OwnedFd> {
        self.socket.as_fd().try_clone_to_owned()
    }
}
