//! A UDP socket on the tokio runtime.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use quinn_udp::{RecvMeta, Transmit};
use socket2::SockRef;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::SocketOptions;
use crate::io::Io;
use crate::room::Room;

/// A UDP socket on the tokio runtime, made for many datagrams per call. All its methods take `&self`. Methods with
/// `poll_` in their name wake only the last task that called them.
#[derive(Debug)]
pub struct UdpSocket {
    /// Watched for datagrams alone. See [`Room`].
    socket: AsyncFd<std::net::UdpSocket>,
    room: Room,
    io: Io,
}

impl UdpSocket {
    /// Opens a socket on `addr` with the default [`SocketOptions`]. `[::]` accepts IPv4 too.
    ///
    /// # Errors
    /// The address is in use, not one of this machine, or not permitted.
    ///
    /// # Panics
    /// If called outside a tokio runtime with I/O enabled.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        Self::bind_with(addr, &SocketOptions::default())
    }

    /// Opens a socket on `addr`.
    ///
    /// # Errors
    /// See [`bind`](Self::bind).
    ///
    /// # Panics
    /// See [`bind`](Self::bind).
    pub fn bind_with(addr: SocketAddr, options: &SocketOptions) -> io::Result<Self> {
        Self::from_std(options.open(addr)?)
    }

    /// Takes over an open socket, whatever its blocking mode.
    ///
    /// # Errors
    /// The system refuses an option that all supported systems have, or there are too many open files.
    ///
    /// # Panics
    /// See [`bind`](Self::bind).
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        let io = Io::new((&socket).into(), socket.local_addr()?)?;
        let room = Room::of(&socket)?;
        #[allow(unsafe_code, reason = "the runtime cannot know whether a descriptor stays open")]
        // SAFETY: the socket owns its descriptor and is owned here, and is never replaced.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(Self { socket, room, io })
    }

    /// Opens `count` more sockets on the same address (`SO_REUSEPORT`). The kernel then spreads incoming datagrams over
    /// all of them: those from one address and port always come to the same socket.
    ///
    /// Another program of the same user can then bind the address too, but only if it asks for that.
    ///
    /// # Errors
    /// `Unsupported`: the system is not Linux, where datagrams would not be spread. Otherwise the system refuses one
    /// more socket.
    ///
    /// # Panics
    /// See [`bind`](Self::bind).
    pub fn open_beside(&self, count: usize) -> io::Result<Vec<Self>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        #[cfg(target_os = "linux")]
        {
            let bound = SockRef::from(self.socket.get_ref());
            // The socket was bound alone, so that an address in use was noticed.
            bound.set_reuse_port(true)?;
            let address = self.local_addr()?;
            let options = SocketOptions {
                dual_stack: address.is_ipv4() || !bound.only_v6()?,
                ..SocketOptions::default()
            };
            (0..count).map(|_| Self::from_std(options.open_beside(address)?)).collect()
        }
        #[cfg(not(target_os = "linux"))]
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(test)]
    pub(crate) fn descriptor(&self) -> i32 {
        std::os::fd::AsRawFd::as_raw_fd(self.socket.get_ref())
    }

    /// The address that the socket is bound to.
    ///
    /// # Errors
    /// The system no longer knows the socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get_ref().local_addr()
    }

    /// Sets the mark of what the socket sends (`SO_MARK`), for the system's firewall and routing rules.
    ///
    /// # Errors
    /// `Unsupported`: the system is not Linux. `PermissionDenied`: the process lacks CAP_NET_ADMIN.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        return SockRef::from(self.socket.get_ref()).set_mark(mark);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = mark;
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    /// The most datagrams that one system call sends. It is 1 where segmentation offload is missing or has failed, so
    /// it may fall to 1 at any time.
    pub fn max_gso_segments(&self) -> usize {
        self.io.max_gso_segments()
    }

    /// The most datagrams that arrive in one buffer; 1 where the system does not coalesce.
    pub fn gro_segments(&self) -> usize {
        self.io.gro_segments()
    }

    /// Returns whether the network may fragment datagrams. If so, the path's MTU cannot be discovered.
    pub fn may_fragment(&self) -> bool {
        self.io.may_fragment()
    }

    /// The kernel memory granted for receiving, in bytes. Linux reports twice what was requested.
    ///
    /// # Errors
    /// The system no longer knows the socket.
    pub fn recv_buffer(&self) -> io::Result<usize> {
        SockRef::from(self.socket.get_ref()).recv_buffer_size()
    }

    /// The kernel memory granted for sending, in bytes. Linux reports twice what was requested.
    ///
    /// # Errors
    /// The system no longer knows the socket.
    pub fn send_buffer(&self) -> io::Result<usize> {
        SockRef::from(self.socket.get_ref()).send_buffer_size()
    }

    /// Sends `transmit.contents` to `transmit.destination`, cut into datagrams of `segment_size` (one datagram if
    /// `None`; the last may be shorter). There may be any number of them; as few system calls are made as the system
    /// allows.
    ///
    /// Returns how many bytes the kernel accepted: all, or a whole number of segments if it ran out of room.
    ///
    /// # Errors
    /// Errors are returned only if nothing was accepted. `WouldBlock`: wait for [`writable`](Self::writable).
    /// `EMSGSIZE`: larger than the local MTU. Others (no route, source address gone, forbidden by a firewall, out of
    /// memory) concern this datagram: treat it as lost.
    pub fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<usize> {
        self.io.send(|| self.socket.get_ref().into(), transmit)
    }

    /// Sends all of `transmit`, waiting for room. Not cancel-safe: part of it may have been sent.
    ///
    /// # Errors
    /// See [`try_send`](Self::try_send), without `WouldBlock`.
    pub async fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut rest = transmit.clone();
        loop {
            match self.try_send(&rest) {
                Ok(sent) if sent == rest.contents.len() => return Ok(()),
                Ok(sent) => rest.contents = &rest.contents[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Receives what has arrived into `bufs`, with details of each in `meta`. Returns how many buffers were filled.
    /// If the system has coalesced datagrams, a buffer holds several, [`RecvMeta::stride`] bytes apart, and needs 64
    /// KiB. A datagram larger than its buffer is cut. [`RecvBatch`](crate::RecvBatch) does the bookkeeping.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived; otherwise the socket is unusable.
    pub fn try_recv(&self, bufs: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]) -> io::Result<usize> {
        self.socket.try_io(Interest::READABLE, |socket| self.io.recv(|| socket.into(), bufs, meta))
    }

    /// Receives like [`try_recv`](Self::try_recv). If fewer than `bufs` were filled, the socket is empty, and the
    /// next wait sleeps until something new arrives. That saves a call that would only return `WouldBlock`. Datagrams
    /// that arrive meanwhile are a new event and are not missed, because only the readiness seen before the call is
    /// cleared.
    pub(crate) fn try_recv_all(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> io::Result<usize> {
        let mut last = None;
        let received = self.socket.try_io(Interest::READABLE, |socket| {
            let count = self.io.recv(|| socket.into(), bufs, meta)?;
            if count < bufs.len() {
                last = Some(count);
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(count)
        });
        last.map_or(received, Ok)
    }

    /// Receives like [`try_recv`](Self::try_recv), but wakes the task of `cx` when something arrives.
    pub fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.poll_readable(cx))?;
            match self.try_recv(bufs, meta) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                other => return Poll::Ready(other),
            }
        }
    }

    /// Becomes ready when something may have arrived.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_read_ready(cx).map_ok(drop)
    }

    /// Waits until something may have arrived. Cancel-safe.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await.map(drop)
    }

    /// Waits until there may be room to send. Several senders wait in turn. Cancel-safe.
    ///
    /// # Errors
    /// The runtime is shutting down, or the system is out of memory.
    pub async fn writable(&self) -> io::Result<()> {
        self.room.wait().await
    }
}
