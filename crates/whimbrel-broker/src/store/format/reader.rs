//! Integers from the front of some bytes.

use whimbrel_pubsub::message::{BrokerId, Origin};

/// Reads from the front of some bytes. Every method answers `None` at their end.
#[derive(Clone, Debug)]
pub(in crate::store) struct Cursor<'a>(pub(in crate::store) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(in crate::store) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(in crate::store) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(in crate::store) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    pub(in crate::store) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Bytes behind their length, which is at most `most`.
    pub(in crate::store) fn bytes(&mut self, most: usize) -> Option<&'a [u8]> {
        let length = self.u32()? as usize;
        if length > most { None } else { self.take(length) }
    }

    pub(in crate::store) fn text(&mut self, most: usize) -> Option<String> {
        String::from_utf8(self.bytes(most)?.to_vec()).ok()
    }

    pub(in crate::store) fn origin(&mut self) -> Option<Origin> {
        Some(Origin { broker: BrokerId(self.u64()?), epoch: self.u64()? })
    }

    pub(in crate::store) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends integers as [`Cursor`] reads them.
pub(in crate::store) trait Put {
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_bytes(&mut self, bytes: &[u8]);
    fn put_origin(&mut self, origin: Origin);
}

impl Put for Vec<u8> {
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }

    fn put_origin(&mut self, origin: Origin) {
        self.put_u64(origin.broker.0);
        self.put_u64(origin.epoch);
    }
}
