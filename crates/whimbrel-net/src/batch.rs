//! Memory for receiving, and the single datagrams in it.

use std::array;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll, ready};

use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta};

use crate::{BareSocket, UdpSocket};

/// A coalesced buffer is never larger than this.
const BUFFER: usize = 65_535;

/// Buffers for one receive call: up to [`BATCH_SIZE`] of 64 KiB, each with up to 64 datagrams of one sender.
///
/// The payloads lie in buffers that the next fill overwrites: open them in place, copy what is to stay.
pub struct RecvBatch {
    memory: Box<[u8]>,
    meta: [RecvMeta; BATCH_SIZE],
    filled: usize,
}

/// One received datagram.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The local address it was sent to, where the system says.
    pub to: Option<IpAddr>,
    /// Its ECN mark; `None` is Not-ECT.
    pub ecn: Option<EcnCodepoint>,
    /// What is in it, to be changed at will.
    pub payload: &'a mut [u8],
}

impl RecvBatch {
    /// Room for `buffers` coalesced buffers, 1 to [`BATCH_SIZE`], at 64 KiB each. More take fewer calls at high rates.
    pub fn new(buffers: usize) -> Self {
        let buffers = buffers.clamp(1, BATCH_SIZE);
        Self {
            memory: vec![0; buffers * BUFFER].into(),
            meta: array::from_fn(|_| RecvMeta::default()),
            filled: 0,
        }
    }

    /// Receives what has arrived, in place of what the batch held; returns how many buffers have been filled.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has; else the socket is beyond use.
    pub fn try_fill(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.fill(|bufs, meta| socket.try_recv(bufs, meta))
    }

    /// As [`try_fill`](Self::try_fill), on a [`BareSocket`].
    ///
    /// # Errors
    /// As [`try_fill`](Self::try_fill).
    pub fn try_fill_bare(&mut self, socket: &BareSocket) -> io::Result<usize> {
        self.fill(|bufs, meta| socket.try_recv(bufs, meta))
    }

    /// Receives what has arrived, or wakes the task of `cx` when something does. Only the last task to call it is
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

    /// Receives what has arrived, waiting for it. Cancel-safe: a cancelled call has received nothing.
    ///
    /// # Errors
    /// The socket is beyond use.
    pub async fn fill_from(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        loop {
            socket.readable().await?;
            match self.try_fill(socket) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                other => return other,
            }
        }
    }

    /// The datagrams received last, in the order of their arrival.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let buffers = self.memory.chunks_exact_mut(BUFFER).zip(&self.meta);
        buffers.take(self.filled).flat_map(|(buffer, meta)| {
            // An empty datagram is a datagram too.
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
