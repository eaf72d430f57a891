//! A file read from front to back, in large pieces.

use std::io;

use crate::store::disk::{Handle, read_full};

/// The bytes that are read at once, unless one record needs more (256 KiB).
const PIECE: usize = 256 << 10;

/// Reads a part of a file through a buffer.
#[derive(Debug)]
pub(super) struct Window<'a> {
    handle: &'a dyn Handle,
    /// Where the part ends.
    end: u64,
    piece: Vec<u8>,
    /// Where the piece begins.
    from: u64,
    size: usize,
}

impl<'a> Window<'a> {
    /// Reads up to `end`, in pieces of the usual size or of `wanted` bytes, if that is less.
    pub(super) fn new(handle: &'a dyn Handle, end: u64, wanted: usize) -> Self {
        Self { handle, end, piece: Vec::new(), from: 0, size: wanted.clamp(4_096, PIECE) }
    }

    /// Where the part ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The bytes at `offset`; `None` beyond the end.
    pub(super) fn at(&mut self, offset: u64, length: usize) -> io::Result<Option<&[u8]>> {
        let until = offset + length as u64;
        if until > self.end {
            return Ok(None);
        }
        if offset < self.from || until > self.from + self.piece.len() as u64 {
            let size = self.size.max(length).min((self.end - offset) as usize);
            self.piece.resize(size, 0);
            let filled = read_full(self.handle, &mut self.piece, offset)?;
            self.piece.truncate(filled);
            self.from = offset;
        }
        let from = (offset - self.from) as usize;
        Ok(self.piece.get(from..from + length))
    }
}
