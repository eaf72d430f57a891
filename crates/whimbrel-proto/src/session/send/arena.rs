//! An arena for small payloads. A held message then holds its own bytes instead of a receive buffer, and messages that
//! will share a run are gathered in one place.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

const FIRST_CHUNK: usize = 2048;
const LARGEST_CHUNK: usize = 32 << 10;
/// Most chunks kept for reuse. A reader may be this far behind without new chunks being allocated for each batch.
const MOST_CHUNKS: usize = 256;
/// Most bytes the arenas of one session keep together. An arena keeps its chunks after they were read, and there may be
/// many arenas.
const MOST_BYTES: u64 = (MOST_CHUNKS * LARGEST_CHUNK) as u64;

/// The memory kept by all arenas of a session, in use or not.
#[derive(Debug, Default)]
pub(in crate::session) struct Arenas {
    bytes: u64,
    /// The number of messages yet that are copied to memory of their own, because memory is short.
    pub(in crate::session) closed_for: usize,
}

impl Arenas {
    #[inline]
    pub(in crate::session) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Opens no chunk for the next `messages`. Freeing what a session can spare costs as much as it has streams, and a
    /// chunk for the next message would make it necessary again.
    pub(in crate::session) fn close_for(&mut self, messages: usize) {
        self.closed_for = messages;
    }

    /// Removes an arena that is being dropped from the sum.
    pub(in crate::session) fn forget(&mut self, arena: &Arena) {
        self.bytes -= arena.kept();
    }
}

/// Chunks used in turn. A chunk is reused once everything cut from it was dropped. Each arena serves one stream, so
/// only unread messages of that stream hold its chunks.
#[derive(Debug, Default)]
pub(in crate::session) struct Arena {
    current: BytesMut,
    /// Chunks filled before, oldest first. The oldest is the likeliest to be free.
    filled: VecDeque<BytesMut>,
    size: usize,
}

impl Arena {
    /// Returns whether there is room for `bytes` more behind what was appended.
    #[inline]
    pub(in crate::session) fn has_room(&self, bytes: usize) -> bool {
        self.current.capacity() - self.current.len() >= bytes
    }

    /// Makes room for `bytes`. What was appended before must have been taken.
    #[inline]
    pub(in crate::session) fn make_room(&mut self, bytes: usize) {
        if !self.has_room(bytes) {
            self.turn(bytes);
        }
    }

    /// Appends `bytes`. There must be room for them.
    #[inline]
    pub(in crate::session) fn append(&mut self, bytes: &[u8]) {
        self.current.extend_from_slice(bytes);
    }

    /// Returns everything that was appended.
    #[inline]
    pub(in crate::session) fn take(&mut self) -> Bytes {
        self.current.split().freeze()
    }

    /// Returns a copy of `bytes`, for an arena that shares a memory limit with others.
    #[inline]
    pub(in crate::session) fn copy(&mut self, bytes: &[u8], all: &mut Arenas) -> Bytes {
        if !self.has_room(bytes.len()) {
            if all.closed_for > 0 {
                all.closed_for -= 1;
                return Bytes::copy_from_slice(bytes);
            }
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

    /// Returns the bytes of its chunks. This is an upper bound, since earlier chunks may be smaller.
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
            // A chunk that is too small by now is dropped. A chunk still in use goes back, and its turn comes again.
            // (Its unused end can be reclaimed in both cases.)
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
