//! Whole messages that wait behind a gap.

#[path = "snapshot/waiting.rs"]
mod snapshot;

use std::collections::{BTreeMap, VecDeque};

use super::message::Message;
use crate::Time;

/// A whole message that waits for its turn.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) message: Message,
    /// One more than the latest reliable number before it.
    pub(super) latest_reliable: u64,
    pub(super) since: Time,
}

/// Nearly all that waits came in order behind a hole and is appended to a queue; what fills holes without being next
/// goes into a map, so that no order of arrival costs more than a logarithm.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    queue: VecDeque<Held>,
    map: BTreeMap<u64, Held>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.map.is_empty()
    }

    pub(super) fn insert(&mut self, held: Held) {
        if self.queue.back().is_none_or(|last| last.message.id < held.message.id) {
            self.queue.push_back(held);
        } else {
            self.map.insert(held.message.id, held);
        }
    }

    /// The one with the lowest number.
    pub(super) fn first(&self) -> Option<&Held> {
        match (self.queue.front(), self.map.first_key_value()) {
            (Some(front), Some((number, held))) => {
                Some(if *number < front.message.id { held } else { front })
            }
            (Some(front), None) => Some(front),
            (None, entry) => entry.map(|(_, held)| held),
        }
    }

    /// Takes the one with the lowest number, if that is below `floor`.
    pub(super) fn pop_below(&mut self, floor: u64) -> Option<Message> {
        let first = self.first()?.message.id;
        if first >= floor {
            return None;
        }
        match self.map.remove(&first) {
            Some(held) => Some(held.message),
            None => self.queue.pop_front().map(|held| held.message),
        }
    }
}
