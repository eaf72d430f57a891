//! Bytes that arrive in any order, once or more, put in order.

use bytes::{Bytes, BytesMut};

use super::config::MAX_RANGES;
use super::ranges::RangeSet;
use crate::{Cause, PeerMisbehaved};

/// In-order data is appended; a hole is filled with zeros until its bytes come. Memory grows with the highest
/// offset seen, which credit was charged for.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Offset of the buffer's first byte.
    base: u64,
    buf: BytesMut,
    /// What has come, absolute.
    have: RangeSet,
}

/// Reserve no more than this ahead of what a sender has really sent.
const RESERVE: usize = 64 << 10;

impl Assembly {
    /// Starts at `base`.
    pub(super) fn at(base: u64) -> Self {
        Self { base, ..Self::default() }
    }

    /// Nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.have.is_empty()
    }

    /// Takes `bytes` at `offset`; `expected` is how long the buffer will become, as far as known.
    pub(super) fn insert(&mut self, offset: u64, bytes: &[u8], expected: u64) -> Result<(), PeerMisbehaved> {
        let skip = self.base.saturating_sub(offset).min(bytes.len() as u64);
        let (offset, bytes) = (offset + skip, &bytes[skip as usize..]);
        if bytes.is_empty() {
            return Ok(());
        }
        let at = (offset - self.base) as usize;
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
        self.have.insert(offset, offset + bytes.len() as u64);
        if self.have.len() > MAX_RANGES {
            return Err(PeerMisbehaved::new(Cause::LimitExceeded, "too many holes in one message"));
        }
        Ok(())
    }

    /// Everything from the base to `length` is there.
    pub(super) fn is_whole(&self, length: u64) -> bool {
        self.have.first() == Some((self.base, length))
    }

    /// The message.
    pub(super) fn into_bytes(self) -> Bytes {
        self.buf.freeze()
    }

    /// Moves the base up to `offset`, dropping what is below.
    pub(super) fn advance(&mut self, offset: u64) {
        let drop = (offset.saturating_sub(self.base)).min(self.buf.len() as u64);
        if drop > 0 {
            drop_front(&mut self.buf, drop as usize);
        }
        self.have.remove(0, offset);
        self.base = self.base.max(offset);
    }

    /// Takes what is contiguous from the base, if anything.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let (start, end) = self.have.first().filter(|(start, _)| *start == self.base)?;
        let bytes = self.buf.split_to((end - start) as usize).freeze();
        self.have.remove(start, end);
        self.base = end;
        Some(bytes)
    }
}

fn drop_front(buf: &mut BytesMut, count: usize) {
    bytes::Buf::advance(buf, count);
}
