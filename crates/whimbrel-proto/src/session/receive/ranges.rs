//! Sets of numbers as sorted ranges.

use std::collections::VecDeque;

use crate::session::account::held::of_queue;

/// Largest capacity that is kept when the set becomes empty, in ranges.
const KEPT: usize = 64;

/// A set of numbers, held as sorted disjoint half-open ranges.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct RangeSet {
    ranges: VecDeque<(u64, u64)>,
}

impl RangeSet {
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns whether the set has no memory allocated.
    pub(in crate::session) fn is_bare(&self) -> bool {
        self.ranges.capacity() == 0
    }

    /// Removes everything. Returns whether the memory is worth keeping.
    pub(in crate::session) fn clear(&mut self) -> bool {
        const WORTH: std::ops::RangeInclusive<usize> = 1..=64;
        self.ranges.clear();
        WORTH.contains(&self.ranges.capacity())
    }

    /// Returns the memory held besides the struct itself, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        of_queue(self.ranges.capacity(), size_of::<(u64, u64)>())
    }

    /// Returns the number of ranges, which limits are checked against.
    pub(in crate::session) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the index of the first range that ends after `number`.
    fn at(&self, number: u64) -> usize {
        match self.ranges.back() {
            Some((_, end)) if *end <= number => self.ranges.len(),
            _ => self.ranges.partition_point(|(_, end)| *end <= number),
        }
    }

    /// Adds `start..end` and returns how many numbers are new.
    pub(in crate::session) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        // Ranges that touch are merged, so the search begins one below.
        let mut index = if start == 0 { 0 } else { self.at(start - 1) };
        let (mut low, mut high, mut known, mut merged) = (start, end, 0, 0);
        while let Some((from, to)) = self.ranges.get(index + merged).copied().filter(|(from, _)| *from <= end)
        {
            known += to.min(end).saturating_sub(from.max(start));
            low = low.min(from);
            high = high.max(to);
            merged += 1;
        }
        if merged == 0 {
            if self.ranges.capacity() == 0 {
                // Most sets never have a second range.
                self.ranges.reserve_exact(1);
            }
            self.ranges.insert(index, (low, high));
        } else {
            self.ranges[index] = (low, high);
            index += 1;
            self.ranges.drain(index..index + merged - 1);
        }
        end - start - known
    }

    /// Removes `start..end`.
    pub(in crate::session) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let mut index = self.at(start);
        if let Some((from, to)) = self.ranges.get(index).copied().filter(|(from, _)| *from < start) {
            self.ranges[index] = (from, start);
            index += 1;
            if to > end {
                self.ranges.insert(index, (end, to));
                return;
            }
        }
        let covered = self.ranges.range(index..).take_while(|(_, to)| *to <= end).count();
        self.ranges.drain(index..index + covered);
        if let Some((from, _)) = self.ranges.get_mut(index) {
            *from = end.max(*from);
        }
        if self.ranges.is_empty() && self.ranges.capacity() > KEPT {
            self.ranges = VecDeque::new();
        }
    }

    /// Returns the parts of `start..end` that are in the set.
    pub(in crate::session) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let touching = self.ranges.range(self.at(start)..).take_while(move |(from, _)| *from < end);
        touching.map(move |(from, to)| (start.max(*from), end.min(*to)))
    }

    /// Returns the first range.
    pub(in crate::session) fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_a_set(ops in proptest::collection::vec((any::<bool>(), 0u64..100, 0u64..20), 0..60)) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (insert, start, len) in ops {
                if insert {
                    let new = (start..start + len).filter(|number| model.insert(*number)).count();
                    prop_assert_eq!(set.insert(start, start + len), new as u64);
                } else {
                    set.remove(start, start + len);
                    model.retain(|number| !(start..start + len).contains(number));
                }
                let within: Vec<u64> = set.within(start, start + 9).flat_map(|(from, to)| from..to).collect();
                prop_assert_eq!(within, model.range(start..start + 9).copied().collect::<Vec<_>>());
                let runs = model.iter().filter(|number| **number == 0 || !model.contains(&(**number - 1))).count();
                prop_assert_eq!(set.len(), runs);
            }
        }
    }
}
