//! Messages of other brokers that came here, and that the log has not got.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::{Origin, Stamp};

use crate::Time;

/// The most origins of which something is owed. What of a further one does not fit is lost to the log.
const MOST_ORIGINS: usize = 512;
/// The most ranges of an origin. Beyond, the lowest is lost to the log.
const MOST_RANGES: usize = 1_024;
/// How often another broker is asked for what the buffer holds no more (5 s).
const FETCH_EVERY: Duration = Duration::from_secs(5);

/// Messages that are owed to the log: when they came, too much waited for the disk already.
#[derive(Debug, Default)]
pub(super) struct Owed(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    ranges: BTreeMap<Origin, Ranges>,
    /// When another broker was asked, and how often.
    asked: Option<Time>,
    turn: usize,
}

impl Owed {
    /// A message came for which there is no room.
    pub(super) fn note(&self, stamp: &Stamp) {
        let mut inner = self.inner();
        if inner.ranges.len() >= MOST_ORIGINS && !inner.ranges.contains_key(&stamp.origin) {
            return;
        }
        let ranges = inner.ranges.entry(stamp.origin).or_default();
        ranges.insert(one(stamp));
        ranges.keep_highest(MOST_RANGES);
    }

    /// The log has got a message, or will.
    pub(super) fn settle(&self, stamp: &Stamp) {
        let mut inner = self.inner();
        let Some(ranges) = inner.ranges.get_mut(&stamp.origin) else { return };
        if ranges.contains(stamp.sequence) {
            let settled = Ranges::of(one(stamp));
            *ranges = ranges.iter().flat_map(|range| settled.gaps(range)).collect();
        }
        if ranges.is_empty() {
            inner.ranges.remove(&stamp.origin);
        }
    }

    pub(super) fn has(&self, stamp: &Stamp) -> bool {
        self.inner().ranges.get(&stamp.origin).is_some_and(|ranges| ranges.contains(stamp.sequence))
    }

    /// Whether nothing is owed.
    pub(super) fn is_empty(&self) -> bool {
        self.inner().ranges.is_empty()
    }

    /// The number of messages.
    pub(super) fn count(&self) -> u64 {
        self.inner().ranges.values().map(Ranges::count).fold(0, u64::saturating_add)
    }

    /// The messages of each origin.
    pub(super) fn all(&self) -> Vec<(Origin, Ranges)> {
        self.inner().ranges.iter().map(|(origin, ranges)| (*origin, ranges.clone())).collect()
    }

    /// Whether it is time to ask another broker. Returns how often that was so before.
    pub(super) fn ask(&self, now: Time) -> Option<usize> {
        let mut inner = self.inner();
        if inner.ranges.is_empty() || inner.asked.is_some_and(|asked| now.since(asked) < FETCH_EVERY) {
            return None;
        }
        inner.asked = Some(now);
        inner.turn = inner.turn.wrapping_add(1);
        Some(inner.turn - 1)
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        *self.inner() = Inner::default();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn one(stamp: &Stamp) -> Range {
    Range { first: stamp.sequence, last: stamp.sequence }
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::message::{BrokerId, Hlc, PartitionId};

    use super::*;

    fn stamp(epoch: u64, sequence: u64) -> Stamp {
        let origin = Origin { broker: BrokerId(1), epoch };
        Stamp { origin, sequence, partition: PartitionId(0), ordinal: sequence, published: Hlc(1) }
    }

    #[test]
    fn what_is_owed_is_bounded_and_is_asked_for_now_and_then() {
        let owed = Owed::default();
        assert_eq!(owed.ask(Time::ZERO), None, "nothing is owed");
        for epoch in 0..MOST_ORIGINS as u64 + 9 {
            owed.note(&stamp(epoch, 1));
        }
        (0..2 * MOST_RANGES as u64).for_each(|at| owed.note(&stamp(0, 2 * at + 1)));
        assert_eq!(owed.count(), (MOST_ORIGINS - 1 + MOST_RANGES) as u64);
        assert!(owed.has(&stamp(0, 4 * MOST_RANGES as u64 - 1)) && !owed.has(&stamp(0, 1)));
        assert_eq!((owed.ask(Time::ZERO), owed.ask(Time::ZERO)), (Some(0), None));
        assert_eq!(owed.ask(Time::ZERO + FETCH_EVERY), Some(1));
        for (origin, ranges) in owed.all() {
            for range in ranges.iter() {
                (range.first..=range.last)
                    .for_each(|sequence| owed.settle(&Stamp { origin, ..stamp(0, sequence) }));
            }
        }
        assert!(owed.is_empty());
    }
}
