//! The newest held message of each key.

use std::collections::BTreeMap;

use bytes::Bytes;
use whimbrel_pubsub::message::Message;

use super::newer::Newness;
use super::places::SlotId;

/// The newest held message of each topic and key.
#[derive(Debug, Default)]
pub(super) struct Newest {
    slots: BTreeMap<(Bytes, Bytes), (SlotId, Newness)>,
}

impl Newest {
    pub(super) fn offer(&mut self, message: &Message, slot: SlotId, newness: Newness) {
        let Some(key) = message.key() else { return };
        let place = self.slots.entry((message.topic_bytes(), key)).or_insert((slot, newness));
        if newness.is_newer_than(&place.1) {
            *place = (slot, newness);
        }
    }

    pub(super) fn of(&self, message: &Message) -> Option<SlotId> {
        Some(self.slots.get(&(message.topic_bytes(), message.key()?))?.0)
    }

    pub(super) fn remove(&mut self, message: &Message, slot: SlotId) {
        let Some(key) = message.key() else { return };
        let place = (message.topic_bytes(), key);
        if self.slots.get(&place).is_some_and(|(newest, _)| *newest == slot) {
            self.slots.remove(&place);
        }
    }
}
