//! The messages that the log of a channel has.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::Origin;

/// The most origins that are remembered. What is stored of others counts as not stored.
const MOST_ORIGINS: usize = 65_536;
/// The most ranges of an origin. Beyond, the lowest is forgotten, and counts as not stored.
pub(super) const MOST_RANGES: usize = 4_096;

/// The messages of each origin that were stored here. Those that went since this run began are still among them.
#[derive(Debug, Default)]
pub(super) struct Stored(Mutex<BTreeMap<Origin, Ranges>>);

impl Stored {
    /// Notes what a log holds that is opened.
    pub(super) fn begin(&self, held: &BTreeMap<Origin, Ranges>) {
        let mut stored = self.lock();
        for (origin, ranges) in held {
            ranges.iter().for_each(|range| note(&mut stored, *origin, range));
        }
    }

    /// Notes messages that were stored.
    pub(super) fn note(&self, names: &[(Origin, u64)]) {
        let mut stored = self.lock();
        let follows = |a: &(Origin, u64), b: &(Origin, u64)| a.0 == b.0 && a.1 + 1 == b.1;
        for run in names.chunk_by(follows) {
            if let (Some((origin, first)), Some((_, last))) = (run.first(), run.last()) {
                note(&mut stored, *origin, Range { first: *first, last: *last });
            }
        }
    }

    /// Whether a message was stored.
    pub(super) fn has(&self, origin: Origin, sequence: u64) -> bool {
        self.lock().get(&origin).is_some_and(|ranges| ranges.contains(sequence))
    }

    /// Returns the ranges of an origin that were stored and are not among `told`, at most `most`.
    pub(super) fn beyond(&self, origin: Origin, told: &Ranges, most: usize) -> Vec<Range> {
        let stored = self.lock();
        let all = stored.get(&origin).into_iter().flat_map(Ranges::iter);
        all.flat_map(|range| told.gaps(range)).take(most).collect()
    }

    /// Returns the parts of `ranges` of an origin that were stored, at most `most`.
    pub(super) fn among(&self, origin: Origin, ranges: &[Range], most: usize) -> Vec<Range> {
        let stored = self.lock();
        let Some(stored) = stored.get(&origin) else { return Vec::new() };
        ranges.iter().flat_map(|range| stored.within(*range)).take(most).collect()
    }

    /// Returns what was stored and is not held any more.
    pub(super) fn removed(&self, held: &BTreeMap<Origin, Ranges>) -> BTreeMap<Origin, Ranges> {
        let none = Ranges::default();
        let removed = |(origin, stored): (&Origin, &Ranges)| {
            let held = held.get(origin).unwrap_or(&none);
            (*origin, stored.iter().flat_map(|range| held.gaps(range)).collect::<Ranges>())
        };
        self.lock().iter().map(removed).filter(|(_, removed)| !removed.is_empty()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Origin, Ranges>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(stored: &mut BTreeMap<Origin, Ranges>, origin: Origin, range: Range) {
    if stored.len() >= MOST_ORIGINS && !stored.contains_key(&origin) {
        return;
    }
    let ranges = stored.entry(origin).or_default();
    ranges.insert(range);
    ranges.keep_highest(MOST_RANGES);
}

#[cfg(test)]
mod tests {
    use whimbrel_pubsub::message::BrokerId;

    use super::*;

    #[test]
    fn what_was_refused_is_not_among_what_was_removed() {
        let origin = Origin { broker: BrokerId(1), epoch: 7 };
        let range = |first, last| Range { first, last };
        let stored = Stored::default();
        // The disk refused 3.
        stored.note(&[(origin, 1), (origin, 2), (origin, 4), (origin, 5)]);
        assert!(stored.has(origin, 2) && !stored.has(origin, 3));
        let held = BTreeMap::from([(origin, Ranges::of(range(5, 5)))]);
        let removed = stored.removed(&held);
        assert_eq!(removed[&origin].iter().collect::<Vec<_>>(), [range(1, 2), range(4, 4)]);
        assert_eq!(stored.beyond(origin, &Ranges::of(range(1, 1)), 9), [range(2, 2), range(4, 5)]);
        assert_eq!(stored.among(origin, &[range(2, 4)], 9), [range(2, 2), range(4, 4)]);
    }
}
