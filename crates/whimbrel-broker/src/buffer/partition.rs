//! A part of a channel's buffer.

use super::places::SlotId;
use super::policy::{Facts, Policy, Room};
use super::rate::Rate;
use super::settings::{PartitionSettings, Size};
use crate::Time;

/// A partition that follows the rate is never smaller than this.
const LEAST_FOLLOWING: u64 = 64;

/// A partition: how much it holds, and what gives way.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) settings: PartitionSettings,
    policy: Box<dyn Policy>,
    rate: Option<Rate>,
    pub(super) load: Room,
    /// Messages that were overwritten.
    pub(super) overwritten: u64,
}

impl Partition {
    pub(super) fn new(settings: PartitionSettings) -> Self {
        let policy = settings.policy.make();
        let rate = settings.size.follow.map(Rate::new);
        Self { settings, policy, rate, load: Room::default(), overwritten: 0 }
    }

    pub(super) fn take(&mut self, facts: &Facts, now: Time) {
        self.load.add(facts);
        self.policy.take(facts, now);
        if let Some(rate) = &mut self.rate {
            rate.note(now);
        }
    }

    /// A slot was emptied. `by_policy` if the policy said so.
    pub(super) fn release(&mut self, facts: &Facts, by_policy: bool) {
        self.load.remove(facts);
        if !by_policy {
            self.policy.release(facts);
        }
    }

    /// The next slot to overwrite, if the partition holds too much.
    pub(super) fn give_way(&mut self, now: Time) -> Option<SlotId> {
        let slot = self.policy.give_way(self.room(), now)?;
        self.overwritten += 1;
        Some(slot)
    }

    /// Returns the room of the partition at the present rate.
    pub(super) fn room(&self) -> Room {
        let Size { messages, bytes, .. } = self.settings.size;
        let messages = match &self.rate {
            Some(rate) => messages.min(rate.in_span().max(LEAST_FOLLOWING)),
            None => messages,
        };
        Room { messages, bytes }
    }
}
