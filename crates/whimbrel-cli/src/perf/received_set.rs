//! The set of numbers that arrived, which detects duplicates and reordering.

/// How far behind the highest number a late one is still told from a duplicate, to within 64. This is more than any
/// transport keeps open.
const WINDOW: u64 = 1 << 20;
/// The number of words in the window.
const WORDS: u64 = WINDOW / 64;
/// The first number that no source reaches: numbers from here on count as duplicates.
const LAST: u64 = 1 << 62;

/// A set of numbers. Most arrive in order, which costs an addition; any other number costs a few steps, wherever it
/// is.
#[derive(Debug, Default)]
pub(super) struct ReceivedSet {
    /// All numbers below this have arrived, or are too old to tell.
    whole: u64,
    /// The highest number plus one.
    next: u64,
    /// The window, each word at its index modulo the size; allocated with the first gap. An older word in a place is
    /// cleared when the place is reused, so that a jump costs nothing.
    words: Vec<Word>,
    /// The count of different numbers.
    pub(super) unique: u64,
    /// The count of numbers that arrived again.
    pub(super) duplicated: u64,
    /// The count of numbers that arrived after a higher one.
    pub(super) overtaken: u64,
    /// The number of words examined.
    #[cfg(test)]
    looks: u64,
}

/// A bit for each of 64 numbers, set once the number has arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    /// The index of the word: it covers the 64 numbers from 64 times this on.
    index: u64,
    bits: u64,
}

impl ReceivedSet {
    pub(super) fn insert(&mut self, number: u64) {
        if number == self.next && self.whole == self.next && number < LAST {
            self.whole += 1;
            self.next += 1;
            self.unique += 1;
            return;
        }
        self.insert_beside_gap(number);
    }

    fn insert_beside_gap(&mut self, number: u64) {
        if number < self.whole || number >= LAST {
            self.duplicated += 1;
            return;
        }
        if self.words.is_empty() {
            self.words = vec![Word::default(); WORDS as usize];
        }
        if !self.set(number) {
            self.duplicated += 1;
            return;
        }
        self.overtaken += u64::from(number < self.next);
        self.unique += 1;
        self.advance_to(number + 1);
        self.close_gap();
    }

    /// Extends the window to numbers below `next`. Missing numbers that fall out of it count as lost.
    fn advance_to(&mut self, next: u64) {
        self.next = self.next.max(next);
        // A word behind the window has given its place to one inside it.
        let oldest = (self.next.saturating_sub(1) / 64 + 1).saturating_sub(WORDS) * 64;
        self.whole = self.whole.max(oldest);
    }

    /// Advances over numbers that arrived without a gap, visiting each word once.
    fn close_gap(&mut self) {
        while self.whole < self.next {
            let behind = self.bits(self.whole / 64) >> (self.whole % 64);
            let row = u64::from(behind.trailing_ones());
            self.whole += row;
            if row == 0 || !self.whole.is_multiple_of(64) {
                return;
            }
        }
    }

    /// The highest number plus one.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    fn word(&mut self, index: u64) -> &mut Word {
        #[cfg(test)]
        {
            self.looks += 1;
        }
        &mut self.words[(index % WORDS) as usize]
    }

    fn bits(&mut self, index: u64) -> u64 {
        let word = *self.word(index);
        if word.index == index { word.bits } else { 0 }
    }

    /// Marks a number as arrived and returns whether it is new.
    fn set(&mut self, number: u64) -> bool {
        let index = number / 64;
        let before = self.bits(index);
        let bits = before | 1 << (number % 64);
        *self.word(index) = Word { index, bits };
        bits != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_came_again_and_what_was_overtaken() {
        let mut seen = ReceivedSet::default();
        for number in [0, 1, 3, 3, 2, 2, 0, 4, 10, 7, 7] {
            seen.insert(number);
        }
        assert_eq!((seen.unique, seen.duplicated, seen.overtaken, seen.next()), (7, 4, 2, 11));
    }

    #[test]
    fn a_leap_beyond_the_window_forgets_what_is_behind() {
        let mut seen = ReceivedSet::default();
        for number in [5, WINDOW * 3, WINDOW * 3 - 1, WINDOW * 3 - 1] {
            seen.insert(number);
        }
        assert_eq!((seen.unique, seen.duplicated, seen.overtaken), (3, 1, 1));
    }

    #[test]
    fn a_number_costs_the_same_wherever_it_is() {
        let hostile: [fn(u64) -> u64; 5] = [
            |at| at * (WINDOW - 1),
            |at| at * 64,
            |at| at * 2,
            |at| WINDOW * 4 - at,
            |at| u64::MAX - at % 2 * 63,
        ];
        for number in hostile {
            let mut seen = ReceivedSet::default();
            let count = 100_000;
            (1..=count).for_each(|at| seen.insert(number(at)));
            assert!(seen.looks <= 4 * count, "{} looks", seen.looks);
            assert_eq!(seen.unique + seen.duplicated, count);
        }
    }

    #[test]
    fn agrees_with_a_set() {
        let mut seen = ReceivedSet::default();
        let mut set = std::collections::BTreeSet::new();
        let mut state = 1u64;
        let mut duplicated = 0;
        for i in 0..200_000u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (i + (state >> 40) % 300).saturating_sub(100);
            seen.insert(number);
            duplicated += u64::from(!set.insert(number));
        }
        assert_eq!((seen.unique, seen.duplicated), (set.len() as u64, duplicated));
    }
}
