//! Senders whose messages were refused, until they are told that there is room.
use crate::session::numbers::StreamSlot;

/// The refusals that have not been followed by a `Writable` event.
#[derive(Debug, Default)]
pub(in crate::session) struct Refused {
    /// Whether a message was refused because the queue was full.
    full: bool,
    /// Streams whose messages were refused because the queue was full.
    slots: Vec<StreamSlot>,
    /// Whether a message was refused because too many await their confirmation.
    unconfirmed: bool,
}

impl Refused {
    /// Records that a stream's message was refused because the queue was full.
    pub(in crate::session) fn on_full(&mut self, slot: StreamSlot) {
        self.full = true;
        if !self.slots.contains(&slot) {
            self.slots.push(slot);
        }
    }

    /// Records that a message was refused because too many await their confirmation.
    pub(in crate::session) fn on_unconfirmed(&mut self) {
        self.unconfirmed = true;
    }

    /// Returns whether a sender waits for room in the queue.
    #[inline]
    pub(in crate::session) fn waits_for_room(&self) -> bool {
        self.full
    }

    pub(in crate::session) fn waits_for_confirmation(&self) -> bool {
        self.unconfirmed
    }

    /// Returns the streams that wait for room.
    pub(in crate::session) fn slots(&self) -> impl Iterator<Item = StreamSlot> {
        self.slots.iter().copied()
    }

    /// Forgets the refusals for a full queue, when the application is told of room.
    pub(in crate::session) fn on_room(&mut self) {
        self.full = false;
        self.slots.clear();
    }

    /// Forgets the refusals for unconfirmed messages, when the application is told of confirmations.
    pub(in crate::session) fn on_confirmed(&mut self) {
        self.unconfirmed = false;
    }
}
