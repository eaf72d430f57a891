//! Cursors over packet bytes: a reader that cannot overrun, and a writer that knows how much room is left.

use std::ops::Range;

use bytes::Bytes;

use super::Malformed;
use super::varint::{VARINT_MAX, varint_len};

/// Reads a packet from front to back. Payload slices share the packet's buffer.
#[derive(Debug)]
pub struct Reader {
    bytes: Bytes,
    at: usize,
}

impl Reader {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    /// Creates a reader of a part of `bytes`, up to its end.
    pub(crate) fn within(mut bytes: Bytes, part: Range<usize>) -> Self {
        bytes.truncate(part.end);
        Self { at: part.start.min(bytes.len()), bytes }
    }

    /// Returns the length of the whole packet in bytes, read or not. A slice of the packet keeps this much memory alive.
    #[inline]
    pub fn whole(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes not read yet.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns whether everything was read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Returns the unread bytes, without advancing.
    #[inline]
    pub fn peek(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or(Malformed("block: truncated"))?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads the next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let array = *self.peek().first_chunk::<N>().ok_or(Malformed("block: truncated"))?;
        self.at += N;
        Ok(array)
    }

    /// Reads a 32-bit integer.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a 64-bit integer.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a variable-length integer.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let rest = &self.bytes[self.at..];
        let first = *rest.first().ok_or(Malformed("integer: truncated"))?;
        let length = 1usize << (first >> 6);
        if rest.len() < length {
            return Err(Malformed("integer: truncated"));
        }
        let mut value = u64::from(first & 0x3f);
        for byte in &rest[1..length] {
            value = value << 8 | u64::from(*byte);
        }
        self.at += length;
        Ok(value)
    }

    /// Reads the next `length` bytes, sharing the buffer.
    #[inline]
    pub fn bytes(&mut self, length: u64) -> Result<Bytes, Malformed> {
        let length = usize::try_from(length).ok().filter(|length| *length <= self.remaining());
        let length = length.ok_or(Malformed("length: beyond the packet"))?;
        let bytes = self.bytes.slice(self.at..self.at + length);
        self.at += length;
        Ok(bytes)
    }

    /// Skips `length` bytes.
    #[inline]
    pub fn skip(&mut self, length: u64) -> Result<(), Malformed> {
        let length = usize::try_from(length).ok().filter(|length| *length <= self.remaining());
        self.at += length.ok_or(Malformed("length: beyond the packet"))?;
        Ok(())
    }

    /// Reads everything left, sharing the buffer.
    #[inline]
    pub fn rest(&mut self) -> Bytes {
        let bytes = self.bytes.slice(self.at..);
        self.at = self.bytes.len();
        bytes
    }
}

/// Appends to a packet under construction, up to a limit. Callers must check [`Writer::remaining`] first: a debug
/// assertion catches writes beyond the limit.
#[derive(Debug)]
pub struct Writer<'a> {
    buf: &'a mut Vec<u8>,
    limit: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer that appends to `buf` until its whole length is `limit`.
    pub fn new(buf: &'a mut Vec<u8>, limit: usize) -> Self {
        Self { buf, limit }
    }

    /// Returns the room left, in bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.limit.saturating_sub(self.buf.len())
    }

    /// Returns the length of the underlying buffer: a mark for [`Writer::truncate`] and [`Writer::patch`].
    #[inline]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Returns whether the underlying buffer is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// Removes what was written since `mark`.
    #[inline]
    pub fn truncate(&mut self, mark: usize) {
        self.buf.truncate(mark);
    }

    /// Writes one byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    /// Writes a 32-bit integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes a 64-bit integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes a variable-length integer; `value` is at most [`VARINT_MAX`].
    #[inline]
    pub fn varint(&mut self, value: u64) {
        debug_assert!(value <= VARINT_MAX, "not encodable: {value}");
        match varint_len(value) {
            1 => self.u8(value as u8),
            2 => self.bytes(&(value as u16 | 0x4000).to_be_bytes()),
            4 => self.bytes(&(value as u32 | 0x8000_0000).to_be_bytes()),
            _ => self.bytes(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
        }
    }

    /// Writes bytes as they are.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.remaining(), "written beyond the packet");
        self.buf.extend_from_slice(bytes);
    }

    /// Overwrites a byte written before.
    #[inline]
    pub fn patch(&mut self, at: usize, value: u8) {
        self.buf[at] = value;
    }

    /// Overwrites two bytes at `at` with a two-byte variable-length integer; `value` is below 16,384.
    #[inline]
    pub fn patch_varint2(&mut self, at: usize, value: usize) {
        debug_assert!(value < 0x4000, "not a two-byte integer: {value}");
        self.buf[at..at + 2].copy_from_slice(&(value as u16 | 0x4000).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_round_trip(value in prop_oneof![0..=VARINT_MAX, 0..0x1_0000u64, Just(0x3fff_ffffu64)]) {
            let mut buf = Vec::new();
            Writer::new(&mut buf, 8).varint(value);
            prop_assert_eq!(buf.len(), varint_len(value));
            let mut reader = Reader::new(buf.into());
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_length_beyond_the_packet_is_refused() {
        let mut reader = Reader::new(Bytes::from_static(b"abc"));
        assert!(reader.bytes(u64::MAX).is_err());
        assert!(reader.bytes(4).is_err());
        assert_eq!(reader.bytes(3).unwrap(), Bytes::from_static(b"abc"));
    }
}
