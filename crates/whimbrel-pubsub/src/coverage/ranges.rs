//! Sets of sequences as sorted ranges.

/// Sequences from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    /// The first.
    pub first: u64,
    /// The last; not less than the first.
    pub last: u64,
}

impl Range {
    /// `first` to `last`; `None` if that is empty.
    pub fn new(first: u64, last: u64) -> Option<Self> {
        (first <= last).then_some(Self { first, last })
    }

    /// Returns the number of sequences.
    pub fn count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// Returns the part that both have.
    pub fn and(&self, other: Self) -> Option<Self> {
        Self::new(self.first.max(other.first), self.last.min(other.last))
    }
}

/// A set of sequences, held as sorted ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    ranges: Vec<Range>,
}

impl Ranges {
    /// Returns the set of one range.
    pub fn of(range: Range) -> Self {
        Self { ranges: vec![range] }
    }

    /// Returns whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of ranges.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the number of sequences.
    pub fn count(&self) -> u64 {
        self.ranges.iter().fold(0, |sum, range| sum.saturating_add(range.count()))
    }

    /// Returns the ranges in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range> + ExactSizeIterator + '_ {
        self.ranges.iter().copied()
    }

    /// Returns the highest sequence; 0 if there is none.
    #[inline]
    pub fn highest(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.last)
    }

    /// The place of the first range that ends at `sequence` or later.
    fn place(&self, sequence: u64) -> usize {
        match self.ranges.last() {
            // Most look-ups are at the end.
            Some(range) if range.last < sequence => self.ranges.len(),
            Some(range) if range.first <= sequence => self.ranges.len() - 1,
            _ => self.ranges.partition_point(|range| range.last < sequence),
        }
    }

    /// The range that has `sequence`.
    pub fn range_of(&self, sequence: u64) -> Option<Range> {
        self.ranges.get(self.place(sequence)).copied().filter(|range| range.first <= sequence)
    }

    /// Returns whether `sequence` is in the set.
    pub fn contains(&self, sequence: u64) -> bool {
        self.range_of(sequence).is_some()
    }

    /// Returns whether all of `range` is in the set.
    pub fn covers(&self, range: Range) -> bool {
        self.range_of(range.first).is_some_and(|found| found.last >= range.last)
    }

    /// Returns the highest sequence of the set that is below `sequence`; 0 if there is none.
    pub fn below(&self, sequence: u64) -> u64 {
        let at = self.place(sequence);
        match self.ranges.get(at) {
            Some(range) if range.first < sequence => sequence - 1,
            _ => at.checked_sub(1).map_or(0, |at| self.ranges[at].last),
        }
    }

    /// Adds `range`.
    pub fn insert(&mut self, range: Range) {
        let from = self.place(range.first.saturating_sub(1));
        let Some(found) =
            self.ranges.get_mut(from).filter(|found| found.first <= range.last.saturating_add(1))
        else {
            self.ranges.insert(from, range);
            return;
        };
        found.first = found.first.min(range.first);
        if found.last >= range.last {
            return;
        }
        found.last = range.last;
        let until = range.last.saturating_add(1);
        let to = from + 1 + self.ranges[from + 1..].partition_point(|next| next.first <= until);
        if to > from + 1 {
            self.ranges[from].last = self.ranges[to - 1].last.max(range.last);
            self.ranges.drain(from + 1..to);
        }
    }

    /// Adds the sequence behind the highest, which is below `u64::MAX`.
    #[inline]
    pub fn append(&mut self) {
        match self.ranges.last_mut() {
            Some(range) => range.last += 1,
            None => self.ranges.push(Range { first: 1, last: 1 }),
        }
    }

    /// Adds the sequences behind the highest up to `last`, which is below `u64::MAX`.
    #[inline]
    pub fn append_until(&mut self, last: u64) {
        match self.ranges.last_mut() {
            Some(range) => range.last = range.last.max(last),
            None => self.ranges.extend(Range::new(1, last)),
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|range| self.insert(range));
    }

    /// Returns the parts of `within` that are not in the set, in ascending order.
    pub fn gaps(&self, within: Range) -> impl Iterator<Item = Range> + '_ {
        let mut next = within.first;
        let mut at = self.place(within.first);
        let mut done = false;
        std::iter::from_fn(move || {
            while !done {
                let range = self.ranges.get(at).filter(|range| range.first <= within.last);
                at += 1;
                let gap = match range {
                    Some(range) => {
                        let gap =
                            Range::new(next, range.first.wrapping_sub(1)).filter(|_| range.first > next);
                        done = range.last >= within.last;
                        next = range.last.saturating_add(1);
                        gap
                    }
                    None => {
                        done = true;
                        Range::new(next, within.last)
                    }
                };
                if gap.is_some() {
                    return gap;
                }
            }
            None
        })
    }

    /// Returns the parts of `within` that are in the set, in ascending order.
    pub fn within(&self, within: Range) -> impl Iterator<Item = Range> + '_ {
        let from = self.place(within.first);
        self.ranges[from..].iter().map_while(move |range| range.and(within))
    }

    /// Forgets the lowest ranges until there are at most `most`.
    pub fn keep_highest(&mut self, most: usize) {
        if self.ranges.len() > most {
            self.ranges.drain(..self.ranges.len() - most);
        }
    }

    /// Closes the gap between the two lowest ranges. Returns it; `None` if there is no such gap.
    pub fn close_oldest_gap(&mut self) -> Option<Range> {
        let (low, high) = (*self.ranges.first()?, *self.ranges.get(1)?);
        self.ranges.remove(0);
        self.ranges[0].first = low.first;
        Range::new(low.last + 1, high.first - 1)
    }
}

impl FromIterator<Range> for Ranges {
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> Self {
        let mut set = Self::default();
        ranges.into_iter().for_each(|range| set.insert(range));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn range() -> impl Strategy<Value = Range> {
        (1_u64..60, 0_u64..8).prop_map(|(first, more)| Range { first, last: first + more })
    }

    fn all(ranges: impl Iterator<Item = Range>) -> Vec<u64> {
        ranges.flat_map(|range| range.first..=range.last).collect()
    }

    proptest! {
        #[test]
        fn a_set_is_like_one_of_numbers(ranges in proptest::collection::vec(range(), 0..20), within in range()) {
            let set: Ranges = ranges.iter().copied().collect();
            let model: BTreeSet<u64> = all(ranges.into_iter()).into_iter().collect();
            prop_assert_eq!(all(set.iter()), model.iter().copied().collect::<Vec<_>>());
            prop_assert!(set.ranges.windows(2).all(|pair| pair[0].last + 1 < pair[1].first));
            prop_assert_eq!(set.count(), model.len() as u64);
            for number in 0..80 {
                prop_assert_eq!(set.contains(number), model.contains(&number));
                prop_assert_eq!(set.below(number), model.range(..number).next_back().copied().unwrap_or(0));
            }
            let inside = within.first..=within.last;
            let gaps: Vec<u64> = inside.clone().filter(|number| !model.contains(number)).collect();
            prop_assert_eq!(&all(set.gaps(within)), &gaps);
            prop_assert_eq!(set.covers(within), gaps.is_empty());
            prop_assert_eq!(all(set.within(within)), model.range(inside).copied().collect::<Vec<_>>());
        }

        #[test]
        fn closing_gaps_ends_in_one_range(ranges in proptest::collection::vec(range(), 1..20)) {
            let mut set: Ranges = ranges.into_iter().collect();
            let (before, mut closed) = (set.clone(), 0);
            while let Some(gap) = set.close_oldest_gap() {
                prop_assert!(before.gaps(gap).eq([gap]));
                closed += gap.count();
            }
            prop_assert_eq!((set.len(), set.count()), (1, before.count() + closed));
        }
    }

    #[test]
    fn the_largest_numbers_overflow_nothing() {
        let whole = Range { first: 0, last: u64::MAX };
        let mut set = Ranges::of(Range { first: u64::MAX, last: u64::MAX });
        assert_eq!(all_gaps(&set, whole), [Range { first: 0, last: u64::MAX - 1 }]);
        set.insert(Range { first: 0, last: 0 });
        set.insert(whole);
        assert_eq!((set.len(), set.count()), (1, u64::MAX));
        assert_eq!(all_gaps(&set, whole), []);
    }

    fn all_gaps(set: &Ranges, within: Range) -> Vec<Range> {
        set.gaps(within).collect()
    }
}
