//! Senders whose messages were refused, until they are told that there is room.
use crate::session::numbers::StreamSlot;

/// See the module.
#[derive(Debug, Default)]
pub(in crate::session) struct Refused {
    /// The queue was full.
    full: bool,
    /// Streams whose messages were refused for that.
    slots: Vec<StreamSlot>,
    /// Too many messages await their confirmation.
    unconfirmed: bool,
}

impl Refused {
    /// A message of a stream was refused since the queue was full.
    pub(in crate::session) fn on_full(&mut self, slot: StreamSlot) {
        self.full = true;
        if !self.slots.contains(&slot) {
            self.slots.push(slot);
        }
    }

    /// One was refused since too many await their confirmation.
    pub(in crate::session) fn on_unconfirmed(&mut self) {
        self.unconfirmed = true;
    }

    /// Somebody waits for room in the queue.
    #[inline]
    pub(in crate::session) fn waits_for_room(&self) -> bool {
        self.full
    }

    pub(in crate::session) fn waits_for_confirmation(&self) -> bool {
        self.unconfirmed
    }

    /// Streams that wait for room.
    pub(in crate::session) fn slots(&self) -> impl Iterator<Item = StreamSlot> {
        self.slots.iter().copied()
    }

    /// There is room, and the application is told.
    pub(in crate::session) fn on_room(&mut self) {
        self.full = false;
        self.slots.clear();
    }

    /// There are confirmations, and the application is told.
    pub(in crate::session) fn on_confirmed(&mut self) {
        self.unconfirmed = false;
    }
}
