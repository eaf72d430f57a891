//! The payload: a sequence number, the time it was sent, zeros.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Bytes of the number and the time; shorter messages carry neither.
pub(super) const STAMP: usize = 16;

/// What a payload says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Counts the source's messages from 0.
    pub(super) number: u64,
    /// CLOCK_MONOTONIC of the source, nanoseconds.
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

/// Payloads of this size and more are recycled once the transport has let go of them; smaller ones are cut from a chunk.
const RECYCLED: usize = 4096;
/// What small payloads are cut from.
const CHUNK: usize = 1 << 16;
/// Recycled payloads kept, bytes.
const POOL: usize = 16 << 20;

/// Makes payloads without allocating one each.
pub(super) struct Payloads {
    number: u64,
    chunk: BytesMut,
    pool: VecDeque<Bytes>,
}

impl Payloads {
    pub(super) fn new() -> Self {
        Self { number: 0, chunk: BytesMut::new(), pool: VecDeque::new() }
    }

    /// Messages made so far.
    pub(super) fn made(&self) -> u64 {
        self.number
    }

    /// The next payload, as sent at `sent_ns`.
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

    /// The oldest payload, if nobody else holds it any more.
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
