//! The least recently published message gives way.

use std::collections::BTreeMap;

use super::super::places::SlotId;
use super::overwriting::{Facts, Policy, Room};
use crate::Time;

/// The least recently published message gives way (the paper, section 5.2).
#[derive(Debug, Default)]
pub struct Lrp {
    by_order: BTreeMap<(u64, SlotId), Facts>,
    load: Room,
}

impl Lrp {
    /// How much there is.
    #[cfg(test)]
    pub(super) fn load(&self) -> Room {
        self.load
    }

    pub(super) fn add(&mut self, facts: &Facts) {
        self.by_order.insert((facts.order, facts.slot), *facts);
        self.load.add(facts);
    }

    /// Forgets the slot. Returns whether it was there.
    pub(super) fn forget(&mut self, facts: &Facts) -> bool {
        let found = self.by_order.remove(&(facts.order, facts.slot));
        if let Some(facts) = &found {
            self.load.remove(facts);
        }
        found.is_some()
    }

    /// The oldest message, which is forgotten, if not all fit into `room`.
    pub(super) fn oldest_beyond(&mut self, room: Room) -> Option<Facts> {
        if room.holds(self.load) {
            return None;
        }
        let (_, facts) = self.by_order.pop_first()?;
        self.load.remove(&facts);
        Some(facts)
    }
}

impl Policy for Lrp {
    fn take(&mut self, facts: &Facts, _: Time) {
        self.add(facts);
    }

    fn release(&mut self, facts: &Facts) {
        self.forget(facts);
    }

    fn give_way(&mut self, room: Room, _: Time) -> Option<SlotId> {
        self.oldest_beyond(room).map(|facts| facts.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{facts, room};
    use super::*;

    #[test]
    fn the_oldest_gives_way_whenever_it_came() {
        let mut policy = Lrp::default();
        for (slot, order) in [(0, 50), (1, 10), (2, 30)] {
            policy.take(&facts(slot, order, 5), Time::ZERO);
        }
        assert_eq!(policy.give_way(room(3), Time::ZERO), None);
        assert_eq!(policy.give_way(room(2), Time::ZERO), Some(SlotId(1)));
        policy.release(&facts(0, 50, 5));
        assert_eq!(policy.give_way(room(1), Time::ZERO), None);
        assert_eq!(policy.give_way(Room { messages: 5, bytes: 9 }, Time::ZERO), Some(SlotId(2)));
        assert_eq!((policy.load(), policy.give_way(room(0), Time::ZERO)), (Room::default(), None));
    }
}
