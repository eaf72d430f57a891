//! The places that hold messages.

use whimbrel_pubsub::message::{Message, Stamp};

use super::picks::Reach;
use super::places::{LogIndex, SlotId};
use super::policy::Facts;
use crate::Time;

/// A message that is held, and what the broker knows of it.
#[derive(Debug)]
pub struct Slot {
    pub(super) message: Message,
    pub(super) stamp: Stamp,
    pub(super) log: LogIndex,
    pub(super) arrival: u64,
    /// When it was published, by this broker's monotonic clock.
    pub(super) published: Time,
    /// When its own lifetime ends.
    pub(super) wanted_until: Option<Time>,
    /// When the partition's bound on age ends.
    pub(super) held_until: Option<Time>,
    pub(super) facts: Facts,
    /// Whether the rule of its partition picks it. The last partition takes what no rule picks, and other brokers may have other rules.
    pub(super) is_by_rule: bool,
}

impl Slot {
    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Its name.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// Whether a subscription that reaches so much of each partition selects it.
    #[inline]
    pub(crate) fn reached(&self, reach: &[Reach]) -> Reach {
        let place = usize::from(self.stamp.partition.0);
        reach.get(place).filter(|_| self.is_by_rule).copied().unwrap_or(Reach::Part)
    }

    /// Its place in the order of arrival.
    pub fn arrival(&self) -> u64 {
        self.arrival
    }

    /// Returns the time since it was published.
    pub fn age(&self, now: Time) -> std::time::Duration {
        now.since(self.published)
    }

    /// Whether its lifetime has ended.
    pub fn is_expired(&self, now: Time) -> bool {
        self.wanted_until.is_some_and(|end| end <= now)
    }

    /// Whether its lifetime ends at all.
    pub(crate) fn has_lifetime(&self) -> bool {
        self.wanted_until.is_some()
    }

    /// When the slot is emptied whatever the policy says.
    pub(super) fn ends(&self) -> Option<Time> {
        self.wanted_until.into_iter().chain(self.held_until).min()
    }
}

/// All slots of a channel.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
}

impl Slots {
    /// The slot that the next message gets.
    pub(super) fn next(&self) -> SlotId {
        SlotId(self.free.last().copied().unwrap_or(self.slots.len() as u32))
    }

    pub(super) fn insert(&mut self, slot: Slot) -> SlotId {
        let id = self.next();
        match self.free.pop() {
            Some(free) => self.slots[free as usize] = Some(slot),
            None => self.slots.push(Some(slot)),
        }
        id
    }

    pub(super) fn remove(&mut self, id: SlotId) -> Option<Slot> {
        let slot = self.slots.get_mut(id.0 as usize)?.take()?;
        self.free.push(id.0);
        Some(slot)
    }

    #[inline]
    pub(super) fn find(&self, id: SlotId) -> Option<&Slot> {
        self.slots.get(id.0 as usize)?.as_ref()
    }
}
