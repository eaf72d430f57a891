//! The payload: a sequence number, the time of sending, and zeros.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The length of number and time in bytes; shorter messages carry neither.
pub(super) const STAMP: usize = 16;

/// The number and time in a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The message's number; the source counts from 0.
    pub(super) number: u64,
    /// The source's CLOCK_MONOTONIC in nanoseconds.
    pub(super) sent_ns: u64,
}

impl Stamp {
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let (number, rest) = payload.split_first_chunk()?;
        let (sent, _) = rest.split_first_chunk()?;
        Some(Self { number: u64::from_le_bytes(*number), sent_ns: u64::from_le_bytes(*sent) })
    }

    fn write(self, payload: &mut [u8]) {
        if let Some(place) = payload.get_mut(..STAMP) {
            place[..8].copy_from_slice(&self.number.to_le_bytes());
            place[8..].copy_from_slice(&self.sent_ns.to_le_bytes());
        }
    }
}

/// Payloads of at least this size are recycled once the transport has released them; smaller ones are cut from a
/// chunk.
const RECYCLED: usize = 4096;
/// The size of the chunks from which small payloads are cut.
const CHUNK: usize = 1 << 16;
/// The most bytes of recycled payloads kept.
const POOL: usize = 16 << 20;

/// Makes payloads without an allocation for each.
pub(super) struct Payloads {
    number: u64,
    chunk: BytesMut,
    pool: VecDeque<Bytes>,
}

impl Payloads {
    pub(super) fn new() -> Self {
        Self { number: 0, chunk: BytesMut::new(), pool: VecDeque::new() }
    }

    /// The number of payloads made so far.
    pub(super) fn made(&self) -> u64 {
        self.number
    }

    /// Makes the next payload, with the sending time `sent_ns`.
    pub(super) fn next(&mut self, size: usize, sent_ns: u64) -> Bytes {
        let stamp = Stamp { number: self.number, sent_ns };
        self.number += 1;
        if size >= RECYCLED { self.recycled(size, stamp) } else { self.cut(size, stamp) }
    }

    fn cut(&mut self, size: usize, stamp: Stamp) -> Bytes {
        if self.chunk.len() < size {
            self.chunk = BytesMut::zeroed(CHUNK);
        }
        let mut payload = self.chunk.split_to(size);
        stamp.write(&mut payload);
        payload.freeze()
    }

    fn recycled(&mut self, size: usize, stamp: Stamp) -> Bytes {
        let mut payload = match self.free(size) {
            Some(payload) => payload,
            None => BytesMut::zeroed(size),
        };
        stamp.write(&mut payload);
        let payload = payload.freeze();
        if (self.pool.len() + 1) * size <= POOL {
            self.pool.push_back(payload.clone());
        }
        payload
    }

    /// The oldest payload, if nothing else holds it any more.
    fn free(&mut self, size: usize) -> Option<BytesMut> {
        if !self.pool.front()?.is_unique() {
            return None;
        }
        let free = self.pool.pop_front()?.try_into_mut().ok()?;
        (free.len() == size).then_some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_numbered_stamped_and_reused() {
        let mut payloads = Payloads::new();
        for size in [16, 50, 4096, 65_536] {
            let before = payloads.made();
            let payload = payloads.next(size, 77);
            assert_eq!(payload.len(), size);
            assert_eq!(Stamp::read(&payload), Some(Stamp { number: before, sent_ns: 77 }));
        }
        assert_eq!(Stamp::read(&payloads.next(15, 1)), None);
        let mut payloads = Payloads::new();
        let address = payloads.next(8192, 1).as_ptr();
        let held = payloads.next(8192, 1);
        assert_eq!(held.as_ptr(), address);
        assert_ne!(payloads.next(8192, 1).as_ptr(), address);
    }
}
