//! Where small payloads are copied to, so that a held message holds its own bytes and not a receive buffer, and so that messages
//! that will share a run are gathered as it has them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

const FIRST_CHUNK: usize = 2048;
const LARGEST_CHUNK: usize = 32 << 10;
/// Chunks kept for use again: as much as a reader may be behind without new ones being allocated for each batch.
const MOST_CHUNKS: usize = 256;
/// What the arenas of one session keep together, bytes: chunks that all were read of stay with the arena, and there may be many arenas.
const MOST_BYTES: u64 = (MOST_CHUNKS * LARGEST_CHUNK) as u64;

/// What the arenas of a session keep, in use and not.
#[derive(Debug, Default)]
pub(in crate::session) struct Arenas {
    bytes: u64,
}

impl Arenas {
    #[inline]
    pub(in crate::session) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An arena is no more.
    pub(in crate::session) fn forget(&mut self, arena: &Arena) {
        self.bytes -= arena.kept();
    }
}

/// Chunks in turn; one is used again once everything cut from it was dropped. One arena serves one stream, so that what holds a
/// chunk is unread messages of that stream.
#[derive(Debug, Default)]
pub(in crate::session) struct Arena {
    current: BytesMut,
    /// Filled before, the oldest first, which is the likeliest to be free.
    filled: VecDeque<BytesMut>,
    size: usize,
}

impl Arena {
    /// There is room for `bytes` more behind what was appended.
    #[inline]
    pub(in crate::session) fn has_room(&self, bytes: usize) -> bool {
        self.current.capacity() - self.current.len() >= bytes
    }

    /// Finds room for `bytes`; what was appended must have been taken.
    #[inline]
    pub(in crate::session) fn make_room(&mut self, bytes: usize) {
        if !self.has_room(bytes) {
            self.turn(bytes);
        }
    }

    /// Adds `bytes`, for which there is room.
    #[inline]
    pub(in crate::session) fn append(&mut self, bytes: &[u8]) {
        self.current.extend_from_slice(bytes);
    }

    /// What was appended.
    #[inline]
    pub(in crate::session) fn take(&mut self) -> Bytes {
        self.current.split().freeze()
    }

    /// A copy of `bytes`, in an arena that shares what may be kept with others.
    #[inline]
    pub(in crate::session) fn copy(&mut self, bytes: &[u8], all: &mut Arenas) -> Bytes {
        if !self.has_room(bytes.len()) {
            self.turn_among(bytes.len(), all);
        }
        self.append(bytes);
        self.take()
    }

    fn turn_among(&mut self, need: usize, all: &mut Arenas) {
        all.bytes -= self.kept();
        self.turn(need);
        while all.bytes + self.kept() > MOST_BYTES && self.filled.pop_front().is_some() {}
        all.bytes += self.kept();
    }

    /// Bytes of its chunks. They may have been smaller at first.
    fn kept(&self) -> u64 {
        let chunks = self.filled.len() + usize::from(self.size > 0);
        (chunks * self.size) as u64
    }

    fn turn(&mut self, need: usize) {
        let full = std::mem::take(&mut self.current);
        if self.size > 0 && self.filled.len() < MOST_CHUNKS {
            self.filled.push_back(full);
        }
        if let Some(mut oldest) = self.filled.pop_front() {
            if self.size >= need && oldest.try_reclaim(self.size) {
                self.current = oldest;
                return;
            }
            // Smaller than is wanted by now: let it go. In use: its turn comes again. (Its unused end could be had in either case.)
            let beyond_end = oldest.capacity() + 1;
            if !oldest.try_reclaim(beyond_end) {
                self.filled.push_front(oldest);
            }
        }
        self.size = (self.size * 2).clamp(FIRST_CHUNK, LARGEST_CHUNK).max(need);
        self.current = BytesMut::with_capacity(self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_when_their_messages_are_gone() {
        let (mut arena, mut all) = (Arena::default(), Arenas::default());
        let held: Vec<Bytes> = (0..4000u32).map(|i| arena.copy(&i.to_be_bytes(), &mut all)).collect();
        for (i, bytes) in held.iter().enumerate() {
            assert_eq!(bytes[..], (i as u32).to_be_bytes());
        }
        drop(held);
        let chunks = arena.filled.len();
        for i in 0..100_000u32 {
            arena.copy(&i.to_be_bytes(), &mut all);
        }
        assert!(arena.filled.len() <= chunks + 1, "{} of {chunks}", arena.filled.len());
        all.forget(&arena);
        assert_eq!(all.bytes(), 0);
    }

    #[test]
    fn many_arenas_keep_no_more_than_one() {
        let (mut arenas, mut all): (Vec<Arena>, _) =
            ((0..100).map(|_| Arena::default()).collect(), Arenas::default());
        for arena in &mut arenas {
            drop((0..50_000).map(|_| arena.copy(&[7; 100], &mut all)).collect::<Vec<_>>());
        }
        let kept: u64 = arenas.iter().map(Arena::kept).sum();
        assert_eq!(kept, all.bytes());
        assert!(kept <= MOST_BYTES + 100 * LARGEST_CHUNK as u64, "{kept}");
    }
}
