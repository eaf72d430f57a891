//! Any message gives way.

use std::collections::BTreeMap;

use super::super::places::SlotId;
use super::overwriting::{Facts, Policy, Room};
use crate::Time;

/// A random message gives way, but not the one that came last (the paper, section 7.3).
#[derive(Debug)]
pub struct Ran {
    taken: Vec<Facts>,
    places: BTreeMap<SlotId, usize>,
    load: Room,
    dice: u64,
}

impl Ran {
    /// Begins with the random numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { taken: Vec::new(), places: BTreeMap::new(), load: Room::default(), dice: seed }
    }

    /// The next number below `below` (SplitMix64).
    fn roll(&mut self, below: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.dice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ (mixed >> 31)) * below as u128) >> 64) as usize
    }

    fn remove(&mut self, place: usize) -> SlotId {
        let facts = self.taken.swap_remove(place);
        self.places.remove(&facts.slot);
        if let Some(moved) = self.taken.get(place) {
            self.places.insert(moved.slot, place);
        }
        self.load.remove(&facts);
        facts.slot
    }
}

impl Policy for Ran {
    fn take(&mut self, facts: &Facts, _: Time) {
        self.places.insert(facts.slot, self.taken.len());
        self.taken.push(*facts);
        self.load.add(facts);
    }

    fn release(&mut self, facts: &Facts) {
        if let Some(place) = self.places.get(&facts.slot).copied() {
            self.remove(place);
        }
    }

    fn give_way(&mut self, room: Room, _: Time) -> Option<SlotId> {
        if room.holds(self.load) || self.taken.is_empty() {
            return None;
        }
        let place = self.roll(self.taken.len().saturating_sub(1).max(1));
        Some(self.remove(place))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{facts, room};
    use super::*;

    #[test]
    fn all_give_way_alike_but_not_the_last() {
        let mut gone = [0; 8];
        for seed in 0..7_000 {
            let mut policy = Ran::new(seed);
            (0..8).for_each(|slot| policy.take(&facts(slot, slot.into(), 5), Time::ZERO));
            let SlotId(slot) = policy.give_way(room(7), Time::ZERO).unwrap();
            assert_eq!(policy.give_way(room(7), Time::ZERO), None);
            gone[slot as usize] += 1;
        }
        assert_eq!(gone[7], 0);
        assert!(gone[..7].iter().all(|count| (850..1_150).contains(count)), "{gone:?}");
    }

    #[test]
    fn released_slots_do_not_give_way() {
        let mut policy = Ran::new(1);
        (0..8).for_each(|slot| policy.take(&facts(slot, slot.into(), 5), Time::ZERO));
        [0, 3, 7].iter().for_each(|slot| policy.release(&facts(*slot, 0, 5)));
        let mut rest: Vec<u32> =
            std::iter::from_fn(|| policy.give_way(room(0), Time::ZERO)).map(|slot| slot.0).collect();
        rest.sort_unstable();
        assert_eq!((rest, policy.load), (vec![1, 2, 4, 5, 6], Room::default()));
    }
}
