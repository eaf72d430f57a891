//! A UDP socket without a runtime.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{RecvMeta, Transmit};

use crate::SocketOptions;
use crate::io::Io;

/// A non-blocking UDP socket for a thread that waits by itself, with `poll` or `epoll` on its descriptor. It sends
/// and receives like [`UdpSocket`](crate::UdpSocket).
#[derive(Debug)]
pub struct BareSocket {
    socket: UdpSocket,
    io: Io,
}

impl BareSocket {
    /// Opens a socket on `addr`.
    ///
    /// # Errors
    /// See [`SocketOptions::open`].
    pub fn bind(addr: SocketAddr, options: &SocketOptions) -> io::Result<Self> {
        Self::from_std(options.open(addr)?)
    }

    /// Takes over an open socket.
    ///
    /// # Errors
    /// The system refuses an option that all supported systems have.
    pub fn from_std(socket: UdpSocket) -> io::Result<Self> {
        let io = Io::new((&socket).into(), socket.local_addr()?)?;
        Ok(Self { socket, io })
    }

    /// Returns the address that the socket is bound to.
    ///
    /// # Errors
    /// The system no longer knows the socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends like [`UdpSocket::try_send`](crate::UdpSocket::try_send).
    ///
    /// # Errors
    /// See there.
    pub fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<usize> {
        self.io.send(|| (&self.socket).into(), transmit)
    }

    /// Receives like [`UdpSocket::try_recv`](crate::UdpSocket::try_recv).
    ///
    /// # Errors
    /// See there.
    pub fn try_recv(&self, bufs: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        self.io.recv(|| (&self.socket).into(), bufs, meta)
    }
}

impl AsFd for BareSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
