//! Sets of numbers, which record the seeds that are done.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers, stored as ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds numbers. Some of them may be in the set already.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        let Range { mut start, mut end } = range;
        if start >= end {
            return;
        }
        let touching = self.0.range(..=end).filter(|(_, last)| **last >= start);
        let touching: Vec<(u64, u64)> = touching.map(|(first, last)| (*first, *last)).collect();
        for (first, last) in touching {
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
    }

    /// Returns the numbers of `range` that are not in the set, in ranges of at most `most` numbers.
    pub(crate) fn missing(&self, range: Range<u64>, most: u64) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        let there = self.0.iter().map(|(first, last)| (*first, *last));
        for (first, last) in there.chain([(range.end, range.end)]) {
            let end = first.min(range.end);
            while at < end {
                let piece = at..end.min(at + most);
                at = piece.end;
                missing.push(piece);
            }
            at = at.max(last);
        }
        missing
    }

    /// Returns the ranges in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(first, last)| *first..*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_are_one() {
        let mut ranges = Ranges::default();
        for range in [10..20, 30..40, 20..25, 5..5, 24..31, 50..60] {
            ranges.insert(range);
        }
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [10..40, 50..60]);
    }

    #[test]
    fn what_is_missing_comes_in_pieces() {
        let mut ranges = Ranges::default();
        ranges.insert(10..20);
        ranges.insert(24..26);
        assert_eq!(ranges.missing(5..30, 4), [5..9, 9..10, 20..24, 26..30]);
        assert_eq!(ranges.missing(12..18, 4), []);
        assert_eq!(ranges.missing(100..101, 4), std::iter::once(100..101).collect::<Vec<_>>());
    }
}
