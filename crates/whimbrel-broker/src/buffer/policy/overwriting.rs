//! The trait of all policies, and what they are told.

use std::fmt;

use super::super::places::SlotId;
use crate::Time;

/// The facts of a message that a policy may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The message's slot.
    pub slot: SlotId,
    /// Orders messages by when they were published. A lower number is older.
    pub order: u64,
    /// The importance, 1 to 10.
    pub index: u8,
    /// The length of the encoded message, bytes.
    pub bytes: u64,
}

/// The amount that a partition has room for, or holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Messages.
    pub messages: u64,
    /// Bytes of encoded messages.
    pub bytes: u64,
}

impl Room {
    /// Whether `load` fits.
    pub fn holds(&self, load: Self) -> bool {
        load.messages <= self.messages && load.bytes <= self.bytes
    }

    /// Returns this percentage of it.
    #[must_use]
    pub fn percent(&self, percent: u8) -> Self {
        let part = |whole: u64| (u128::from(whole) * u128::from(percent) / 100) as u64;
        Self { messages: part(self.messages), bytes: part(self.bytes) }
    }

    /// Returns the room left beside `other`.
    #[must_use]
    pub fn without(&self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    pub(in crate::buffer) fn add(&mut self, facts: &Facts) {
        self.messages += 1;
        self.bytes += facts.bytes;
    }

    pub(in crate::buffer) fn remove(&mut self, facts: &Facts) {
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(facts.bytes);
    }
}

/// Decides which messages of a partition give way. It keeps its own order of them.
pub trait Policy: fmt::Debug + Send + Sync {
    /// A message was put into a slot.
    fn take(&mut self, facts: &Facts, now: Time);

    /// A slot was emptied for another reason than [`Policy::give_way`].
    fn release(&mut self, facts: &Facts);

    /// The next slot to be overwritten, so that the partition fits into `room`. The policy has forgotten it then. `None` if all fit.
    fn give_way(&mut self, room: Room, now: Time) -> Option<SlotId>;
}
