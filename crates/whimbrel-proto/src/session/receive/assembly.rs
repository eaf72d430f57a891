//! Reassembly of bytes that arrive in any order, possibly more than once.

#[path = "../snapshot/assembly.rs"]
mod snapshot;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::far::Far;
use super::ranges::RangeSet;
use crate::session::config::MAX_RANGES;
use crate::{Cause, PeerMisbehaved};

/// A reassembly buffer. In-order data is appended, and a hole is filled with zeros until its bytes arrive. Data far
/// beyond everything received is kept aside, so that a single byte at the end of a long message does not cost its
/// length in zeros.
#[derive(Debug, Default)]
pub(in crate::session) struct Assembly {
    /// Offset of the buffer's first byte.
    base: u64,
    buf: BytesMut,
    /// Ranges received, as absolute offsets.
    have: RangeSet,
    /// Bytes in `have`.
    received: u64,
    far: Option<Box<Far>>,
}

/// How far the buffer may reach beyond twice the bytes received, bytes. This allows for a few late or lost packets.
const NEAR: u64 = 16 << 10;

/// Most bytes reserved ahead of what the sender has really sent. Pages not touched cost nothing.
const RESERVE: usize = 1 << 20;

/// Buffers of messages that the application has dropped, for reuse. Each entry is the empty tail of a buffer that was
/// given away. Once the rest is dropped, the tail reclaims the whole buffer.
#[derive(Debug, Default)]
pub(in crate::session) struct Spares {
    tails: VecDeque<(BytesMut, usize)>,
    /// Empty range sets that still have memory.
    ranges: Vec<RangeSet>,
    bytes: usize,
}

/// Most bytes kept, in use or not.
const SPARE_BYTES: usize = 4 << 20;
/// Most range sets kept.
const SPARE_RANGES: usize = 8;
/// Message lengths for which buffers are reused. Shorter messages are not worth it, and longer ones keep too much
/// memory.
const SPARE_SIZES: std::ops::RangeInclusive<usize> = 1024..=RESERVE;

impl Spares {
    /// Returns a buffer of at least `size` bytes.
    ///
    /// Messages are mostly read in order. The newest buffers are in use, and the first free one behind them is the
    /// likeliest to be in the processor's cache still. The search steps grow by half each time, so it
    /// ends within half as many more buffers as are in use.
    fn take(&mut self, size: usize) -> BytesMut {
        if !SPARE_SIZES.contains(&size) {
            return BytesMut::with_capacity(size);
        }
        let mut back = 1;
        while back < self.tails.len() {
            if let Some(free) = self.reclaim(self.tails.len() - back, size) {
                return self.lend(free);
            }
            back += back.div_ceil(2);
        }
        match self.reclaim(0, size) {
            Some(oldest) => self.lend(oldest),
            None => self.lend(BytesMut::with_capacity(size)),
        }
    }

    /// Removes and returns a buffer if its size fits and no part of it is in use.
    fn reclaim(&mut self, at: usize, size: usize) -> Option<BytesMut> {
        let (tail, capacity) = self.tails.get_mut(at)?;
        if !(size..=2 * size.max(32 << 10)).contains(capacity) || !tail.try_reclaim(*capacity) {
            return None;
        }
        let (free, capacity) = self.tails.remove(at)?;
        self.bytes -= capacity;
        Some(free)
    }

    fn lend(&mut self, mut buf: BytesMut) -> BytesMut {
        let capacity = buf.capacity();
        while self.bytes + capacity > SPARE_BYTES
            && let Some((_, oldest)) = self.tails.pop_front()
        {
            self.bytes -= oldest;
        }
        self.bytes += capacity;
        // The tail needs at least one byte of its own, or it would not belong to the buffer.
        let tail = buf.split_off(capacity - 1);
        self.tails.push_back((tail, capacity));
        buf
    }

    /// Returns the bytes of all buffers, in use or not.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        self.bytes as u64
    }

    /// Drops all of them.
    pub(in crate::session) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Assembly {
    /// Creates an empty buffer that starts at offset `base`.
    pub(in crate::session) fn at(base: u64) -> Self {
        Self { base, ..Self::default() }
    }

    /// Returns whether nothing waits in the buffer.
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.have.is_empty()
    }

    /// Prepares for a message of `length` bytes, reusing a buffer if there is one.
    pub(in crate::session) fn prepare(&mut self, length: u64, spares: &mut Spares) {
        if self.buf.capacity() == 0 && length <= RESERVE as u64 {
            self.buf = spares.take(length as usize + 1);
        }
        if self.have.is_bare() {
            self.have = spares.ranges.pop().unwrap_or_default();
        }
    }

    /// Inserts `bytes` at `offset`. `expected` is how long the buffer will become, as far as known.
    pub(in crate::session) fn insert(
        &mut self,
        offset: u64,
        bytes: &[u8],
        expected: u64,
    ) -> Result<(), PeerMisbehaved> {
        let skip = self.base.saturating_sub(offset).min(bytes.len() as u64);
        let (offset, bytes) = (offset + skip, &bytes[skip as usize..]);
        if bytes.is_empty() {
            return Ok(());
        }
        self.received += self.have.insert(offset, offset + bytes.len() as u64);
        if self.have.len() > MAX_RANGES {
            return Err(PeerMisbehaved::new(Cause::LimitExceeded, "too many holes in one message"));
        }
        if offset - self.base > self.reach() {
            self.far.get_or_insert_default().insert(offset, bytes);
        } else {
            self.place((offset - self.base) as usize, bytes, expected);
            self.draw_in(expected);
        }
        Ok(())
    }

    /// Returns how far the buffer may reach.
    fn reach(&self) -> u64 {
        (2 * self.received + NEAR).max(self.buf.len() as u64)
    }

    /// Moves data that was kept aside into the buffer once it is within reach.
    #[inline]
    fn draw_in(&mut self, expected: u64) {
        while let Some(far) = &mut self.far {
            let Some(offset) = far.first() else {
                self.far = None;
                return;
            };
            if offset - self.base > self.reach() {
                return;
            }
            if let Some(bytes) = self.far.as_mut().and_then(|far| far.pop()) {
                self.place((offset - self.base) as usize, &bytes, expected);
            }
        }
    }

    fn place(&mut self, at: usize, bytes: &[u8], expected: u64) {
        let end = at + bytes.len();
        if end > self.buf.capacity() {
            let target = (self.buf.capacity() * 2).clamp(RESERVE, 1 << 40).min(expected as usize).max(end);
            self.buf.reserve(target - self.buf.len());
        }
        if at >= self.buf.len() {
            self.buf.resize(at, 0);
            self.buf.extend_from_slice(bytes);
        } else if end <= self.buf.len() {
            self.buf[at..end].copy_from_slice(bytes);
        } else {
            let known = self.buf.len() - at;
            self.buf[at..].copy_from_slice(&bytes[..known]);
            self.buf.extend_from_slice(&bytes[known..]);
        }
    }

    /// Returns the memory held besides the struct itself, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        self.buf.capacity() as u64 + self.have.memory() + self.far.as_ref().map_or(0, |far| far.memory())
    }

    /// Returns whether everything from the base to `length` is there.
    pub(in crate::session) fn is_whole(&self, length: u64) -> bool {
        self.have.first() == Some((self.base, length))
    }

    /// Returns the reassembled message.
    pub(in crate::session) fn into_bytes(mut self, spares: &mut Spares) -> Bytes {
        if self.have.clear() && spares.ranges.len() < SPARE_RANGES {
            spares.ranges.push(self.have);
        }
        self.buf.freeze()
    }

    /// Moves the base up to `offset` and drops everything below it.
    pub(in crate::session) fn advance(&mut self, offset: u64) {
        let drop = (offset.saturating_sub(self.base)).min(self.buf.len() as u64);
        if drop > 0 {
            drop_front(&mut self.buf, drop as usize);
        }
        self.have.remove(0, offset);
        self.base = self.base.max(offset);
        self.received = if self.have.is_empty() { 0 } else { self.received };
    }

    /// Removes and returns the contiguous bytes from the base, if there are any.
    pub(in crate::session) fn take(&mut self) -> Option<Bytes> {
        let (start, end) = self.have.first().filter(|(start, _)| *start == self.base)?;
        let bytes = self.buf.split_to((end - start) as usize).freeze();
        self.have.remove(start, end);
        self.received -= end - start;
        self.base = end;
        Some(bytes)
    }
}

fn drop_front(buf: &mut BytesMut, count: usize) {
    bytes::Buf::advance(buf, count);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the buffers used for 500 messages of `size` bytes, with `held` of them unread at a time.
    fn buffers(size: usize, held: usize) -> (Vec<usize>, Spares) {
        let (mut spares, mut unread, mut buffers) = (Spares::default(), VecDeque::new(), Vec::new());
        for number in 0..500u32 {
            let mut assembly = Assembly::default();
            assembly.prepare(size as u64, &mut spares);
            assembly.insert(0, &vec![number as u8; size], size as u64).unwrap();
            let message = assembly.into_bytes(&mut spares);
            buffers.push(message.as_ptr() as usize);
            unread.push_back((number as u8, message));
            if unread.len() > held {
                unread.pop_front();
            }
            assert!(unread.iter().all(|(byte, message)| message.iter().all(|b| b == byte)), "nobody else's");
        }
        (buffers, spares)
    }

    #[test]
    fn the_next_message_gets_the_buffer_that_was_free_last() {
        for held in [0, 1, 3, 10, 40] {
            let (buffers, _) = buffers(4096, held);
            let lately: std::collections::BTreeSet<_> = buffers[400..].iter().collect();
            assert!(lately.len() <= held + held.div_ceil(2) + 2, "{held}: {}", lately.len());
        }
    }

    #[test]
    fn a_part_far_beyond_all_others_takes_its_own_room_only() {
        const LENGTH: u64 = 16 << 20;
        let mut assembly = Assembly::default();
        assembly.insert(LENGTH - 1, b"x", LENGTH).unwrap();
        assert!(assembly.memory() < 1024, "{}", assembly.memory());
        assembly.insert(LENGTH / 2, &[7; 1000], LENGTH).unwrap();
        assembly.insert(LENGTH / 2 + 1000, &[8; 1000], LENGTH).unwrap();
        assert!(assembly.memory() < 6000, "{}", assembly.memory());
    }

    proptest! {
        #[test]
        fn parts_in_any_order_make_the_whole(
            length in 1usize..200_000,
            cuts in proptest::collection::vec((any::<prop::sample::Index>(), 1usize..30_000), 0..60),
        ) {
            let whole: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut assembly = Assembly::default();
            let parts = cuts.into_iter().map(|(at, len)| (at.index(length), len)).collect::<Vec<_>>();
            // At last the whole message follows, in parts and in order.
            let rest = (0..length).step_by(1200).map(|at| (at, 1200));
            for (at, len) in parts.into_iter().chain(rest) {
                prop_assert!(!assembly.is_whole(length as u64) || assembly.have.len() == 1);
                let end = (at + len).min(length);
                assembly.insert(at as u64, &whole[at..end], length as u64).unwrap();
                prop_assert_eq!(assembly.received, assembly.have.within(0, u64::MAX).map(|(from, to)| to - from).sum::<u64>());
            }
            prop_assert!(assembly.is_whole(length as u64) && assembly.far.is_none());
            prop_assert_eq!(&assembly.into_bytes(&mut Spares::default())[..], &whole[..]);
        }

        #[test]
        fn what_is_contiguous_can_be_taken_at_any_time(
            parts in proptest::collection::vec((0usize..100_000, 1usize..20_000), 1..60),
        ) {
            let whole: Vec<u8> = (0..120_000).map(|at| (at % 251) as u8).collect();
            let (mut assembly, mut taken) = (Assembly::default(), Vec::new());
            for (at, len) in parts {
                assembly.insert(at as u64, &whole[at..at + len], u64::MAX).unwrap();
                if let Some(bytes) = assembly.take() {
                    taken.extend_from_slice(&bytes);
                }
                prop_assert_eq!(&taken[..], &whole[..taken.len()]);
                let next = taken.len() as u64;
                prop_assert!(assembly.have.within(next, next + 1).next().is_none());
            }
        }
    }

    #[test]
    fn no_more_than_so_much_is_kept() {
        let (_, spares) = buffers(100_000, 200);
        assert!(spares.bytes <= SPARE_BYTES, "{}", spares.bytes);
        assert_eq!(spares.bytes, spares.tails.iter().map(|(_, capacity)| capacity).sum::<usize>());
    }
}
