//! Sets of numbers as sorted ranges, and a window of bits.

use std::collections::VecDeque;

use super::held::of_queue;

/// Entries for which there is room even where there are none.
const KEPT: usize = 64;

/// A set of numbers, held as sorted disjoint half-open ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet {
    ranges: VecDeque<(u64, u64)>,
}

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// It has no memory.
    pub(super) fn is_bare(&self) -> bool {
        self.ranges.capacity() == 0
    }

    /// Forgets everything; true if the memory is worth keeping.
    pub(super) fn clear(&mut self) -> bool {
        const WORTH: std::ops::RangeInclusive<usize> = 1..=64;
        self.ranges.clear();
        WORTH.contains(&self.ranges.capacity())
    }

    /// What it takes beside its own size, bytes.
    #[inline]
    pub(super) fn memory(&self) -> u64 {
        of_queue(self.ranges.capacity(), size_of::<(u64, u64)>())
    }

    /// How many ranges: what limits look at.
    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Index of the first range that ends after `number`.
    fn at(&self, number: u64) -> usize {
        match self.ranges.back() {
            Some((_, end)) if *end <= number => self.ranges.len(),
            _ => self.ranges.partition_point(|(_, end)| *end <= number),
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.ranges.get(self.at(number)).is_some_and(|(start, _)| *start <= number)
    }

    /// Adds `start..end`; returns how many numbers are new.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> u64 {
        if start >= end {
            return 0;
        }
        // Touching ranges merge, so look one below.
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
                // Most sets never have a second.
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

    /// Takes `start..end` out.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
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

    /// What it has of `start..end`.
    pub(super) fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
        let touching = self.ranges.range(self.at(start)..).take_while(move |(from, _)| *from < end);
        touching.map(move |(from, to)| (start.max(*from), end.min(*to)))
    }

    /// Whether it has `start`, and up to where in `start..end` that does not change.
    pub(super) fn stretch(&self, start: u64, end: u64) -> (bool, u64) {
        match self.ranges.get(self.at(start)) {
            Some((from, to)) if *from <= start => (true, end.min(*to)),
            Some((from, _)) => (false, end.min(*from)),
            None => (false, end),
        }
    }

    /// The first range.
    pub(super) fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }
}

/// Which numbers at or above a floor are finished; one bit each, the floor being the lowest that is not.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    floor: u64,
    /// Bits from `floor - floor % 64` on.
    words: VecDeque<u64>,
}

impl Window {
    #[inline]
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Nothing above the floor is finished.
    #[inline]
    pub(super) fn is_flush(&self) -> bool {
        self.words.is_empty()
    }

    fn word(&self, number: u64) -> usize {
        (number / 64 - self.floor / 64) as usize
    }

    #[inline]
    pub(super) fn contains(&self, number: u64) -> bool {
        number < self.floor
            || self.words.get(self.word(number)).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Marks a number at or above the floor without moving the floor. The caller limits how far above.
    pub(super) fn mark(&mut self, number: u64) {
        let word = self.word(number);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (number % 64);
    }

    /// Marks `from..to`, not below the floor. The caller limits how far above.
    pub(super) fn mark_all(&mut self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let end = to.min((at / 64 + 1) * 64);
            self.mark(at);
            let word = self.word(at);
            self.words[word] |= u64::MAX >> (64 - (end - at)) << (at % 64);
            at = end;
        }
    }

    /// The first stretch of `from..to` that is not finished.
    pub(super) fn next_open(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let start = self.seek(from.max(self.floor), to, false);
        (start < to).then(|| (start, self.seek(start, to, true)))
    }

    /// The first number of `from..to`, not below the floor, that is marked, or not; `to` if there is none.
    fn seek(&self, from: u64, to: u64, marked: bool) -> u64 {
        let mut at = from;
        while at < to {
            let word = self.words.get(self.word(at)).copied().unwrap_or(0);
            let wanted = if marked { word } else { !word } >> (at % 64);
            if wanted != 0 {
                return to.min(at + u64::from(wanted.trailing_zeros()));
            }
            at = (at / 64 + 1) * 64;
        }
        to
    }

    /// Raises the floor over what is marked.
    pub(super) fn settle(&mut self) {
        if self.contains(self.floor) {
            self.raise(self.seek(self.floor, u64::MAX, false));
        }
    }

    /// Raises the floor to `floor`, whatever is marked below.
    pub(super) fn raise(&mut self, floor: u64) {
        let words = (floor / 64 - self.floor / 64) as usize;
        self.words.drain(..words.min(self.words.len()));
        self.floor = floor;
        if self.words.len() == 1 && self.words[0] >> (floor % 64) == 0 {
            self.words.clear();
        }
        if self.words.capacity() > KEPT && self.words.len() < self.words.capacity() / 8 {
            self.words.shrink_to(self.words.capacity() / 4);
        }
    }

    /// What it takes beside its own size, bytes.
    #[inline]
    pub(super) fn memory(&self) -> u64 {
        of_queue(self.words.capacity(), size_of::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

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
                for number in 0..130 {
                    prop_assert_eq!(set.contains(number), model.contains(&number));
                    let (has, until) = set.stretch(number, 130);
                    prop_assert!((number..until).all(|number| model.contains(&number) == has));
                    prop_assert!(until == 130 || model.contains(&until) != has);
                }
                let within: Vec<u64> = set.within(start, start + 9).flat_map(|(from, to)| from..to).collect();
                prop_assert_eq!(within, model.range(start..start + 9).copied().collect::<Vec<_>>());
                let runs = model.iter().filter(|number| **number == 0 || !model.contains(&(**number - 1))).count();
                prop_assert_eq!(set.len(), runs);
            }
        }

        #[test]
        fn a_window_is_a_set(marks in proptest::collection::vec((0u64..300, 0u64..90), 0..300), narrow: bool) {
            let (mut window, mut model) = (Window::default(), BTreeSet::new());
            for (number, count) in marks {
                prop_assert_eq!(window.contains(number), model.contains(&number));
                let end = number + if narrow { 1 } else { count };
                let (mut at, mut open) = (number, Vec::new());
                while let Some((from, to)) = window.next_open(at, end) {
                    open.extend(from..to);
                    window.mark_all(from, to);
                    at = to;
                }
                window.settle();
                prop_assert_eq!(open, (number..end).filter(|number| model.insert(*number)).collect::<Vec<_>>());
                let floor = (0..).find(|number| !model.contains(number)).unwrap();
                prop_assert_eq!(window.floor(), floor);
                prop_assert_eq!(window.is_flush(), model.range(floor..).next().is_none() );
            }
        }
    }
}
