//! Whole messages that wait behind a gap.

#[path = "../snapshot/waiting.rs"]
pub(in crate::session) mod snapshot;

use std::collections::BTreeMap;

use super::inbox::Unread;
use crate::Time;
use crate::expected::Expected;
use crate::session::account::held::{of_map, of_queue};
use crate::session::send::queue::Queue;

/// A whole message, or a run, that waits for its turn.
#[derive(Debug)]
pub(in crate::session) struct Parked {
    pub(in crate::session) unread: Unread,
    /// One more than the latest reliable number before it.
    pub(in crate::session) latest_reliable: u64,
    pub(in crate::session) since: Time,
}

impl Parked {
    /// Returns the first number.
    #[inline]
    pub(in crate::session) fn number(&self) -> u64 {
        self.unread.first().id
    }
}

/// Whole messages waiting behind a gap. Nearly all arrived in order behind a hole and are appended to a queue. Others
/// go into a map, so that no order of arrival costs more than a logarithm.
#[derive(Debug, Default)]
pub(in crate::session) struct HeldBack {
    queue: Queue<Parked>,
    map: BTreeMap<u64, Parked>,
    /// Bytes of the payloads.
    bytes: u64,
}

impl HeldBack {
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.map.is_empty()
    }

    /// Returns the memory held besides the struct itself, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        let entry = size_of::<Parked>();
        of_queue(self.queue.len(), entry) + of_map(self.map.len(), entry) + self.bytes
    }

    pub(in crate::session) fn insert(&mut self, parked: Parked) {
        self.bytes += parked.unread.memory();
        let number = parked.number();
        if self.queue.back().is_none_or(|last| last.number() < number) {
            self.queue.push_back(parked);
        } else {
            self.map.insert(number, parked);
        }
    }

    /// Returns the entry with the lowest number.
    pub(in crate::session) fn first(&self) -> Option<&Parked> {
        match (self.queue.front(), self.map.first_key_value()) {
            (Some(front), Some((number, parked))) => {
                Some(if *number < front.number() { parked } else { front })
            }
            (Some(front), None) => Some(front),
            (None, entry) => entry.map(|(_, parked)| parked),
        }
    }

    /// Removes and returns the entry with the lowest number, if that is below `floor`. A run is either wholly below or
    /// not at all.
    pub(in crate::session) fn pop_below(&mut self, floor: u64) -> Option<Unread> {
        let first = self.first()?.number();
        if first >= floor {
            return None;
        }
        let popped =
            self.map.remove(&first).or_else(|| self.queue.pop_front()).expected("the first entry")?;
        self.bytes -= popped.unread.memory();
        Some(popped.unread)
    }
}
