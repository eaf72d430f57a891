//! Important messages are kept longer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::places::SlotId;
use super::lrp::Lrp;
use super::overwriting::{Facts, Policy, Room};
use crate::Time;

/// The paper's policy with priorities (section 7.3). One part of the partition, by default 80 %, holds recent messages. The least
/// recently published of them moves to the other part if that has room, a message of lower index, or one whose lifetime there has
/// ended. That one gives way then.
#[derive(Debug)]
pub struct Pwp {
    recent_percent: u8,
    lifetime: Duration,
    recent: Lrp,
    important: BTreeMap<SlotId, Kept>,
    /// The least important first, and of these the oldest.
    by_worth: BTreeSet<(u8, u64, SlotId)>,
    by_entry: BTreeSet<(Time, SlotId)>,
    load: Room,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    facts: Facts,
    entered: Time,
}

impl Pwp {
    /// `recent_percent` of the partition holds recent messages. Among the important ones a message has its place for `lifetime`.
    pub fn new(recent_percent: u8, lifetime: Duration) -> Self {
        Self {
            recent_percent: recent_percent.min(100),
            lifetime,
            recent: Lrp::default(),
            important: BTreeMap::new(),
            by_worth: BTreeSet::new(),
            by_entry: BTreeSet::new(),
            load: Room::default(),
        }
    }

    fn keep(&mut self, facts: Facts, now: Time) {
        self.important.insert(facts.slot, Kept { facts, entered: now });
        self.by_worth.insert((facts.index, facts.order, facts.slot));
        self.by_entry.insert((now, facts.slot));
        self.load.add(&facts);
    }

    fn drop_kept(&mut self, slot: SlotId) {
        if let Some(Kept { facts, entered }) = self.important.remove(&slot) {
            self.by_worth.remove(&(facts.index, facts.order, slot));
            self.by_entry.remove(&(entered, slot));
            self.load.remove(&facts);
        }
    }

    /// The slot that a message of this index may take over.
    fn weakest(&self, index: u8, now: Time) -> Option<SlotId> {
        let overdue = self.by_entry.first().filter(|(entered, _)| *entered + self.lifetime <= now);
        let lower = self.by_worth.first().filter(|(worth, _, _)| *worth < index);
        overdue.map(|(_, slot)| *slot).or_else(|| lower.map(|(_, _, slot)| *slot))
    }

    /// Finds a place for a message that is no longer recent. Returns the slot that gives way for it.
    fn move_on(&mut self, facts: Facts, room: Room, now: Time) -> Option<SlotId> {
        let mut with = self.load;
        with.add(&facts);
        if room.holds(with) {
            self.keep(facts, now);
            return None;
        }
        let Some(weakest) = self.weakest(facts.index, now) else { return Some(facts.slot) };
        self.drop_kept(weakest);
        self.keep(facts, now);
        Some(weakest)
    }
}

impl Policy for Pwp {
    fn take(&mut self, facts: &Facts, _: Time) {
        self.recent.add(facts);
    }

    fn release(&mut self, facts: &Facts) {
        if !self.recent.forget(facts) {
            self.drop_kept(facts.slot);
        }
    }

    fn give_way(&mut self, room: Room, now: Time) -> Option<SlotId> {
        let recent = room.percent(self.recent_percent);
        let important = room.without(recent);
        while let Some(facts) = self.recent.oldest_beyond(recent) {
            if let Some(slot) = self.move_on(facts, important, now) {
                return Some(slot);
            }
        }
        if important.holds(self.load) {
            return None;
        }
        let (_, _, slot) = *self.by_worth.first()?;
        self.drop_kept(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{facts, room};
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::at(Duration::from_secs(seconds))
    }

    /// Feeds messages with these indices, one a second, into a partition of 10. Returns the slots that gave way.
    fn feed(policy: &mut Pwp, from: u32, indices: &[u8]) -> Vec<u32> {
        let mut gone = Vec::new();
        for (slot, index) in (from..).zip(indices) {
            policy.take(&facts(slot, slot.into(), *index), at(slot.into()));
            while let Some(SlotId(slot)) = policy.give_way(room(10), at(slot.into())) {
                gone.push(slot);
            }
        }
        gone
    }

    #[test]
    fn the_important_outlive_the_recent() {
        let mut policy = Pwp::new(80, Duration::from_secs(48));
        // The first two leave the recent part, which has eight places, for the important part, which has two.
        assert_eq!(feed(&mut policy, 0, &[9, 3, 1, 4, 3, 5, 5, 5, 5, 5]), [0; 0]);
        // 2 (index 1) finds nobody weaker; 3 (index 4) takes the place of 1 (index 3); 4 (index 3) finds nobody weaker.
        assert_eq!(feed(&mut policy, 10, &[5, 5, 5]), [2, 1, 4]);
    }

    #[test]
    fn a_place_is_lost_after_its_lifetime() {
        let mut policy = Pwp::new(80, Duration::from_secs(3));
        assert_eq!(feed(&mut policy, 0, &[9, 9, 1, 1, 1, 1, 1, 1, 1, 1]), [0; 0]);
        // 0 entered at 8 s, so at 11 s it has no place any more; 2 came at 10 s and found nobody weaker.
        assert_eq!(feed(&mut policy, 10, &[1, 1]), [2, 0]);
    }

    #[test]
    fn what_is_released_leaves_no_trace_and_bytes_count() {
        let mut policy = Pwp::new(80, Duration::from_secs(48));
        feed(&mut policy, 0, &[9, 3, 1, 4, 3, 5, 5, 5, 5, 5]);
        (0..10).for_each(|slot| {
            policy.release(&facts(slot, slot.into(), [9, 3, 1, 4, 3, 5, 5, 5, 5, 5][slot as usize]))
        });
        assert_eq!((policy.recent.load(), policy.load), (Room::default(), Room::default()));
        assert!(policy.by_worth.is_empty() && policy.by_entry.is_empty());
        (0..10).for_each(|slot| policy.take(&facts(slot, slot.into(), 5), at(0)));
        let room = Room { messages: u64::MAX, bytes: 50 };
        let gone = std::iter::from_fn(|| policy.give_way(room, at(0))).count();
        assert_eq!(gone, 5, "40 bytes hold four recent ones, 10 one important one");
    }
}
