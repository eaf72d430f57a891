//! Memory for receiving, and access to single datagrams in it.

use std::array;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta};

use crate::{BareSocket, UdpSocket};

/// The size of a buffer, the most that a coalesced receive can fill.
const BUFFER: usize = 65_535;

/// Buffers for one receive call: up to [`BATCH_SIZE`] of 64 KiB, each with up to 64 datagrams of one sender.
///
/// The payloads lie in buffers that the next fill overwrites. Open them in place, and copy what must be kept.
pub struct RecvBatch {
    memory: Box<[u8]>,
    meta: [RecvMeta; BATCH_SIZE],
    filled: usize,
}

/// One received datagram.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// The sender's address.
    pub from: SocketAddr,
    /// The local address that it was sent to, if the system reports it.
    pub to: Option<IpAddr>,
    /// Its ECN mark; `None` is Not-ECT.
    pub ecn: Option<EcnCodepoint>,
    /// The payload, which may be modified.
    pub payload: &'a mut [u8],
}

impl RecvBatch {
    /// Creates a batch of `buffers` coalesced buffers, 1 to [`BATCH_SIZE`], of 64 KiB each. With more buffers, high
    /// rates need fewer calls.
    pub fn new(buffers: usize) -> Self {
        let buffers = buffers.clamp(1, BATCH_SIZE);
        Self {
            memory: vec![0; buffers * BUFFER].into(),
            meta: array::from_fn(|_| RecvMeta::default()),
            filled: 0,
        }
    }

    /// Receives what has arrived, replacing the batch's contents. Returns how many buffers were filled.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived; otherwise the socket is unusable.
    pub fn try_fill(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.fill(|bufs, meta| socket.try_recv(bufs, meta))
    }

    /// Works like [`try_fill`](Self::try_fill), on a [`BareSocket`].
    ///
    /// # Errors
    /// See [`try_fill`](Self::try_fill).
    pub fn try_fill_bare(&mut self, socket: &BareSocket) -> io::Result<usize> {
        self.fill(|bufs, meta| socket.try_recv(bufs, meta))
    }

    /// Receives what has arrived, or wakes the task of `cx` when something arrives. Only the last task to call it is
    /// woken.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, socket: &UdpSocket) -> Poll<io::Result<usize>> {
        loop {
            ready!(socket.poll_readable(cx))?;
            match self.try_fill(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                other => return Poll::Ready(other),
            }
        }
    }

    /// Waits for datagrams and receives them. Cancel-safe: a cancelled call has received nothing.
    ///
    /// # Errors
    /// The socket is unusable.
    pub async fn fill_from(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        loop {
            socket.readable().await?;
            match self.try_fill(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                other => return other,
            }
        }
    }

    /// Returns the datagrams of the last fill, in order of arrival.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let buffers = self.memory.chunks_exact_mut(BUFFER).zip(&self.meta);
        buffers.take(self.filled).flat_map(|(buffer, meta)| {
            // An empty datagram counts, too.
            let empty = (meta.len == 0).then_some(&mut [][..]);
            let payloads = buffer[..meta.len].chunks_mut(meta.stride.max(1)).chain(empty);
            payloads.map(|payload| Datagram { from: meta.addr, to: meta.dst_ip, ecn: meta.ecn, payload })
        })
    }

    fn fill(
        &mut self,
        recv: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.filled = 0;
        let buffers = self.memory.len() / BUFFER;
        let mut chunks = self.memory.chunks_exact_mut(BUFFER);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        self.filled = recv(&mut slices[..buffers], &mut self.meta[..buffers])?;
        Ok(self.filled)
    }
}

impl fmt::Debug for RecvBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBatch").field("filled", &self.filled).finish_non_exhaustive()
    }
}
