//! Where small payloads are copied to, so that a held message holds its own bytes and not a receive buffer.

use bytes::{Bytes, BytesMut};

const FIRST_CHUNK: usize = 2048;
const LARGEST_CHUNK: usize = 32 << 10;
const CHUNKS: usize = 4;

/// A few chunks in turn; one is used again once everything cut from it was dropped. One arena serves one stream, so
/// that what holds a chunk is unread messages of that stream.
#[derive(Debug, Default)]
pub(super) struct Arena {
    chunks: [BytesMut; CHUNKS],
    current: usize,
    size: usize,
}

impl Arena {
    /// A copy of `bytes`.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if self.chunks[self.current].capacity() < bytes.len() {
            self.turn(bytes.len());
        }
        let chunk = &mut self.chunks[self.current];
        chunk.extend_from_slice(bytes);
        chunk.split().freeze()
    }

    fn turn(&mut self, need: usize) {
        for step in 1..=CHUNKS {
            let index = (self.current + step) % CHUNKS;
            if self.size >= need && self.chunks[index].try_reclaim(self.size) {
                self.current = index;
                return;
            }
        }
        self.size = (self.size * 2).clamp(FIRST_CHUNK, LARGEST_CHUNK).max(need);
        self.current = (self.current + 1) % CHUNKS;
        self.chunks[self.current] = BytesMut::with_capacity(self.size);
    }
}
