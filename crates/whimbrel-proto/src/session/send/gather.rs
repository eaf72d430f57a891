//! Gathering small messages at the end of a lane into a bundle as they are queued.

use super::arena::Arena;
use super::send_item::SendItem;

/// Longest message that is gathered, bytes. Its length field takes at most two bytes.
pub(in crate::session) const LONGEST_GATHERED: usize = 0x3fff;
/// Most bytes that the length field takes.
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

    /// Returns whether the message may join those gathered.
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

    /// Returns the gathered messages as a bundle, if there are any.
    #[inline]
    pub(in crate::session) fn close(&mut self) -> Option<SendItem> {
        if self.count == 0 {
            return None;
        }
        let (count, length) = (std::mem::take(&mut self.count), std::mem::take(&mut self.length));
        Some(SendItem::bundle(self.arena.take(), count, length, self.flags, self.priority))
    }

    /// Frees the memory if nothing is gathered.
    pub(in crate::session) fn shrink(&mut self) {
        if self.is_empty() {
            self.arena = Arena::default();
        }
    }
}
