//! Receiving into pooled buffers that the datagrams own: without a copy and, once the pool is warm, without an
//! allocation.

use std::array;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta};

use crate::UdpSocket;

/// The size of a buffer, the most that a coalesced receive can fill.
const BUFFER: usize = 65_535;
/// Buffers kept in addition to those of one call, for datagrams that applications hold for a while.
const SPARE: usize = 24;

/// Buffers for receiving: those of one call, and some whose datagrams are still in use.
pub struct RecvPool {
    ready: Vec<Buffer>,
    /// Buffers whose datagrams were given out. The oldest is the likeliest to be free again.
    used: VecDeque<Buffer>,
    meta: [RecvMeta; BATCH_SIZE],
    filled: usize,
}

impl std::fmt::Debug for RecvPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (ready, used) = (self.ready.len(), self.used.len());
        f.debug_struct("RecvPool").field("ready", &ready).field("used", &used).finish_non_exhaustive()
    }
}

/// One received datagram, with its bytes.
#[derive(Debug)]
pub struct OwnedDatagram {
    /// The sender's address.
    pub from: SocketAddr,
    /// The local address that it was sent to, if the system reports it.
    pub to: Option<IpAddr>,
    /// Its ECN mark; `None` is Not-ECT.
    pub ecn: Option<EcnCodepoint>,
    /// The payload, which may be modified.
    pub bytes: BytesMut,
}

/// A buffer of [`BUFFER`] bytes, all initialised when it was created.
struct Buffer {
    bytes: BytesMut,
    start: usize,
}

impl Buffer {
    fn new() -> Self {
        let bytes = BytesMut::zeroed(BUFFER);
        Self { start: bytes.as_ptr() as usize, bytes }
    }

    /// Splits off the first `length` bytes.
    fn take(&mut self, length: usize) -> BytesMut {
        self.bytes.split_to(length)
    }

    /// Restores the whole buffer if no part of it is held any more. Returns whether it did.
    fn reclaim(&mut self) -> bool {
        self.bytes.clear();
        if !self.bytes.try_reclaim(BUFFER) || self.bytes.as_ptr() as usize != self.start {
            return false;
        }
        // SAFETY: this is the allocation of `new` from its start, of at least BUFFER bytes. All of them were
        // initialised there, and have only been written to since.
        #[allow(
            unsafe_code,
            reason = "zeroing 64 KiB for each call would cost as much as opening its packets"
        )]
        unsafe {
            self.bytes.set_len(BUFFER);
        }
        true
    }
}

impl RecvPool {
    /// Creates a pool for `buffers` coalesced buffers a call, 1 to [`BATCH_SIZE`], of 64 KiB each. While datagrams
    /// are held, it allocates more.
    pub fn new(buffers: usize) -> Self {
        Self {
            ready: (0..buffers.clamp(1, BATCH_SIZE)).map(|_| Buffer::new()).collect(),
            used: VecDeque::new(),
            meta: array::from_fn(|_| RecvMeta::default()),
            filled: 0,
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

    /// Receives what has arrived. Returns how many buffers were filled.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived; otherwise the socket is unusable.
    pub fn try_fill(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let count = self.ready.len();
        let mut buffers = self.ready.iter_mut();
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] = array::from_fn(|_| {
            IoSliceMut::new(buffers.next().map_or(&mut [][..], |buffer| &mut buffer.bytes[..]))
        });
        self.filled = 0;
        self.filled = socket.try_recv_all(&mut slices[..count], &mut self.meta[..count])?;
        Ok(self.filled)
    }

    /// Returns whether the last call filled every buffer, so that more may have arrived.
    pub fn is_full(&self) -> bool {
        self.filled == self.ready.len()
    }

    /// Passes on the datagrams of the last fill, in order of arrival.
    pub fn drain(&mut self, mut each: impl FnMut(OwnedDatagram)) {
        for index in 0..self.filled {
            let meta = self.meta[index];
            let (length, stride) = (meta.len.min(BUFFER), meta.stride.clamp(1, BUFFER));
            let give = |bytes| OwnedDatagram { from: meta.addr, to: meta.dst_ip, ecn: meta.ecn, bytes };
            match self.take(index, length) {
                Some(mut whole) => loop {
                    each(give(whole.split_to(stride.min(whole.len()))));
                    if whole.is_empty() {
                        break;
                    }
                },
                // All buffers are held by earlier datagrams, so this one gets a copy of its own size.
                None if length == 0 => each(give(BytesMut::new())),
                None => {
                    for datagram in self.ready[index].bytes[..length].chunks(stride) {
                        each(give(BytesMut::from(datagram)));
                    }
                }
            }
        }
        self.filled = 0;
    }

    /// The bytes received into a buffer, as part of it, if another buffer is free for the next call.
    fn take(&mut self, index: usize, length: usize) -> Option<BytesMut> {
        let fresh = self.reclaim()?;
        let mut buffer = std::mem::replace(&mut self.ready[index], fresh);
        let whole = buffer.take(length);
        self.used.push_back(buffer);
        Some(whole)
    }

    /// A free buffer: one given out earlier, or a new one while there are fewer than [`SPARE`].
    fn reclaim(&mut self) -> Option<Buffer> {
        for _ in 0..self.used.len().min(4) {
            let mut oldest = self.used.pop_front()?;
            if oldest.reclaim() {
                return Some(oldest);
            }
            self.used.push_back(oldest);
        }
        (self.used.len() < SPARE).then(Buffer::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_its_datagrams_are_gone() {
        let mut buffer = Buffer::new();
        let start = buffer.start;
        let first = buffer.take(100);
        let second = buffer.take(50);
        drop(first);
        assert!(!buffer.reclaim(), "a part is held");
        drop(second.freeze());
        assert!(buffer.reclaim());
        assert_eq!((buffer.bytes.len(), buffer.bytes.as_ptr() as usize), (BUFFER, start));
    }

    /// Holding a datagram of each call holds whole buffers up to a limit, and single datagrams beyond it.
    #[test]
    fn what_is_held_is_bounded_by_what_was_received() {
        let mut pool = RecvPool::new(1);
        let mut held = Vec::new();
        for call in 0..200u8 {
            pool.ready[0].bytes[..12_000].fill(call);
            (pool.meta[0].len, pool.meta[0].stride) = (12_000, 1_200);
            pool.filled = 1;
            let mut count = 0;
            pool.drain(|datagram| {
                count += 1;
                if count == 5 {
                    held.push(datagram.bytes);
                }
            });
            assert_eq!(count, 10);
        }
        for (call, bytes) in held.iter().enumerate() {
            assert_eq!((bytes.len(), bytes[0], bytes[1_199]), (1_200, call as u8, call as u8));
        }
        assert!(pool.used.len() <= SPARE);
        let inside = |bytes: &BytesMut| {
            let at = bytes.as_ptr() as usize;
            pool.used.iter().any(|buffer| (buffer.start..buffer.start + BUFFER).contains(&at))
        };
        assert_eq!(held.iter().filter(|bytes| inside(bytes)).count(), SPARE);
    }

    #[test]
    fn a_buffer_used_whole_comes_back_too() {
        let mut buffer = Buffer::new();
        drop(buffer.take(BUFFER));
        assert!(buffer.reclaim());
    }
}
