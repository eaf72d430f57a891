//! Sets of numbers as ranges, for cases where a peer may create thousands in any order.

use std::collections::BTreeMap;

use crate::session::account::held::of_map;

/// A set like [`RangeSet`](crate::session::receive::ranges::RangeSet), in which adding or removing a range costs the
/// same everywhere. The sorted queue of that set moves thousands of entries for a number in the middle. It is faster
/// for few ranges, or ranges that grow at the end.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Scattered {
    /// Ends of the ranges by their starts.
    ranges: BTreeMap<u64, u64>,
}

impl Scattered {
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of ranges, which limits are checked against.
    pub(in crate::session) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the memory held besides the struct itself, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        Self::memory_of(self.len())
    }

    /// Returns the memory that this many ranges take, bytes.
    #[inline]
    pub(in crate::session) const fn memory_of(ranges: usize) -> u64 {
        of_map(ranges, size_of::<u64>())
    }

    /// Returns the first range.
    pub(in crate::session) fn first(&self) -> Option<(u64, u64)> {
        self.ranges.first_key_value().map(|(from, to)| (*from, *to))
    }

    /// Returns the last range that starts below `number`.
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
        // Ranges that touch are merged, from the last back to the first.
        while let Some((from, to)) = self.before(end + 1).filter(|(_, to)| *to >= start) {
            if from <= start && to >= end {
                return;
            }
            self.ranges.remove(&from);
            (low, high) = (low.min(from), high.max(to));
        }
        self.ranges.insert(low, high);
    }

    /// Removes `start..end`.
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

    /// Returns the parts of `start..end` that are in the set.
    pub(in crate::session) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let low = self.before(start).filter(|(_, to)| *to > start).map_or(start, |(from, _)| from);
        self.ranges.range(low..end.max(low)).map(move |(from, to)| (start.max(*from), end.min(*to)))
    }

    /// Returns whether the set has `start`, and up to where in `start..end` that stays the same.
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
