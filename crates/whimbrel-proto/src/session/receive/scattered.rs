//! Sets of numbers as ranges, of which a peer may make thousands in any order.

use std::collections::BTreeMap;

use crate::session::account::held::of_map;

/// As [`RangeSet`](crate::session::receive::ranges::RangeSet), but a range more or less costs the same wherever it is: the sorted queue of that one moves
/// thousands aside for a number between two. What has few ranges, or grows at its end, is faster there.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Scattered {
    /// By their starts, their ends.
    ranges: BTreeMap<u64, u64>,
}

impl Scattered {
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges: what limits look at.
    pub(in crate::session) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// What it takes beside its own size, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        Self::memory_of(self.len())
    }

    /// The same of so many ranges.
    #[inline]
    pub(in crate::session) const fn memory_of(ranges: usize) -> u64 {
        of_map(ranges, size_of::<u64>())
    }

    /// The first range.
    pub(in crate::session) fn first(&self) -> Option<(u64, u64)> {
        self.ranges.first_key_value().map(|(from, to)| (*from, *to))
    }

    /// The last range that starts below `number`.
    fn before(&self, number: u64) -> Option<(u64, u64)> {
        self.ranges.range(..number).next_back().map(|(from, to)| (*from, *to))
    }

    pub(in crate::session) fn contains(&self, number: u64) -> bool {
        self.before(number + 1).is_some_and(|(_, to)| to > number)
    }

    /// Adds `start..end`.
    pub(in crate::session) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let (mut low, mut high) = (start, end);
        // Touching ranges merge: from the last one back to the first.
        while let Some((from, to)) = self.before(end + 1).filter(|(_, to)| *to >= start) {
            if from <= start && to >= end {
                return;
            }
            self.ranges.remove(&from);
            (low, high) = (low.min(from), high.max(to));
        }
        self.ranges.insert(low, high);
    }

    /// Takes `start..end` out.
    pub(in crate::session) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        while let Some((from, to)) = self.before(end).filter(|(_, to)| *to > start) {
            self.ranges.remove(&from);
            if to > end {
                self.ranges.insert(end, to);
            }
            if from < start {
                self.ranges.insert(from, start);
            }
        }
    }

    /// What it has of `start..end`.
    pub(in crate::session) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let low = self.before(start).filter(|(_, to)| *to > start).map_or(start, |(from, _)| from);
        self.ranges.range(low..end.max(low)).map(move |(from, to)| (start.max(*from), end.min(*to)))
    }

    /// Whether it has `start`, and up to where in `start..end` that does not change.
    pub(in crate::session) fn stretch(&self, start: u64, end: u64) -> (bool, u64) {
        match self.within(start, end).next() {
            Some((from, to)) if from <= start => (true, to),
            Some((from, _)) => (false, from),
            None => (false, end),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set(ops in proptest::collection::vec((any::<bool>(), 0u64..100, 0u64..20), 0..60)) {
            let (mut set, mut model) = (Scattered::default(), BTreeSet::new());
            for (insert, start, count) in ops {
                let end = start + count;
                if insert {
                    set.insert(start, end);
                    model.extend(start..end);
                } else {
                    set.remove(start, end);
                    model.retain(|number| !(start..end).contains(number));
                }
                for number in 0..130 {
                    prop_assert_eq!(set.contains(number), model.contains(&number));
                    let (has, until) = set.stretch(number, 130);
                    prop_assert!((number..until).all(|number| model.contains(&number) == has));
                    prop_assert!(until == 130 || model.contains(&until) != has);
                }
                let within: Vec<u64> = set.within(start, start + 9).flat_map(|(from, to)| from..to).collect();
                prop_assert_eq!(within, model.range(start..start + 9).copied().collect::<Vec<_>>());
                let runs = model.iter().filter(|number| **number == 0 || !model.contains(&(**number - 1))).count();
                prop_assert_eq!((set.len(), set.is_empty()), (runs, runs == 0));
                prop_assert_eq!(set.first().map(|(from, _)| from), model.first().copied());
            }
        }
    }
}
