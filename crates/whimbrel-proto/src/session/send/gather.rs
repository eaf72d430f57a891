//! Small messages that wait at the end of a lane, gathered into a bundle as they come.

use super::arena::Arena;
use super::send_item::SendItem;

/// Longest message that is gathered: its length takes two bytes at most.
pub(in crate::session) const LONGEST_GATHERED: usize = 0x3fff;
/// Most that the length takes.
const PREFIX: usize = 2;

#[derive(Debug, Default)]
pub(in crate::session) struct Gathering {
    arena: Arena,
    count: u32,
    length: u32,
    flags: u8,
    priority: u8,
}

impl Gathering {
    #[inline]
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The message may join what was gathered.
    #[inline]
    pub(in crate::session) fn takes(&self, flags: u8, priority: u8, payload: &[u8]) -> bool {
        let need = payload.len() + PREFIX;
        self.count == 0 || (self.flags == flags && self.priority == priority && self.arena.has_room(need))
    }

    /// Adds a copy of a message that may join.
    #[inline]
    pub(in crate::session) fn add(&mut self, flags: u8, priority: u8, payload: &[u8]) {
        if self.count == 0 {
            self.arena.make_room(payload.len() + PREFIX);
            (self.flags, self.priority) = (flags, priority);
        }
        match payload.len() {
            short @ ..0x40 => self.arena.append(&[short as u8]),
            long => self.arena.append(&[0x40 | (long >> 8) as u8, long as u8]),
        }
        self.arena.append(payload);
        self.count += 1;
        self.length += payload.len() as u32;
    }

    /// What was gathered, if anything.
    #[inline]
    pub(in crate::session) fn close(&mut self) -> Option<SendItem> {
        if self.count == 0 {
            return None;
        }
        let (count, length) = (std::mem::take(&mut self.count), std::mem::take(&mut self.length));
        Some(SendItem::bundle(self.arena.take(), count, length, self.flags, self.priority))
    }

    /// Gives back the memory, if nothing is in it.
    pub(in crate::session) fn shrink(&mut self) {
        if self.is_empty() {
            self.arena = Arena::default();
        }
    }
}
