//! The set of finished numbers, as a floor and bits above it.

use std::collections::VecDeque;

use crate::session::account::held::of_queue;

/// Largest capacity that is kept however empty it is, in words.
const KEPT: usize = 64;

/// One bit for each number from the floor on, where the floor is the lowest number not finished. Two summary bits for
/// each word tell whether the word is full or empty. A peer can name a whole window with a few bytes as often as it
/// likes, so uniform words must not be searched each time.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Window {
    floor: u64,
    /// Bits of the numbers from `floor - floor % 64` on.
    numbers: Bits,
    /// Words of `numbers` with all bits set, and (`some`) with any bit set.
    full: Bits,
    some: Bits,
}

impl Window {
    #[inline]
    pub(in crate::session) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns whether nothing above the floor is finished.
    #[inline]
    pub(in crate::session) fn is_flush(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the number of the first word in `numbers`, and in the summaries.
    #[inline]
    fn bases(&self) -> (u64, u64) {
        (self.floor / 64, self.floor / 64 / 64)
    }

    #[inline]
    pub(in crate::session) fn contains(&self, number: u64) -> bool {
        number < self.floor || self.numbers.word(self.bases().0, number / 64) >> (number % 64) & 1 == 1
    }

    /// Marks a number at or above the floor without moving the floor. The caller limits how far above.
    pub(in crate::session) fn mark(&mut self, number: u64) {
        let (base, upper) = self.bases();
        let word = number / 64;
        let now = self.numbers.set_one(base, number);
        if now.is_power_of_two() {
            self.some.set_one(upper, word);
        } else if now == u64::MAX {
            self.full.set_one(upper, word);
        }
    }

    /// Marks `from..to`, which is not below the floor. The caller limits how far above.
    pub(in crate::session) fn mark_all(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (base, upper) = self.bases();
        self.numbers.set(base, from, to);
        let (first, last) = (from / 64, (to - 1) / 64);
        self.some.set(upper, first, last + 1);
        let is_full = |word| self.numbers.word(base, word) == u64::MAX;
        let (from, to) = (first + u64::from(!is_full(first)), last + u64::from(is_full(last)));
        self.full.set(upper, from, to);
    }

    /// Returns the first stretch of `from..to` that is not finished.
    pub(in crate::session) fn next_open(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let start = self.seek(from.max(self.floor), to, false);
        (start < to).then(|| (start, self.seek(start, to, true)))
    }

    /// Returns the first number of `from..to` that is marked, or is not marked, or `to` if there is none. `from` is not
    /// below the floor.
    fn seek(&self, from: u64, to: u64, marked: bool) -> u64 {
        let (base, upper) = self.bases();
        if from >= to {
            return to;
        }
        if let Some(bit) = first_bit(self.numbers.word(base, from / 64), from % 64, marked) {
            return to.min(from / 64 * 64 + bit);
        }
        let words = if marked { &self.some } else { &self.full };
        let next = words.seek(upper, from / 64 + 1, to.div_ceil(64), marked);
        let bit = first_bit(self.numbers.word(base, next), 0, marked).unwrap_or(0);
        to.min(next * 64 + bit)
    }

    /// Raises the floor past the numbers marked from it on.
    pub(in crate::session) fn settle(&mut self) {
        if self.contains(self.floor) {
            let end = (self.bases().0 + self.numbers.len()) * 64;
            self.raise(self.seek(self.floor, end, false));
        }
    }

    /// Raises the floor to `floor`, whatever is marked below it.
    #[inline]
    pub(in crate::session) fn raise(&mut self, floor: u64) {
        let (base, upper) = self.bases();
        self.floor = floor;
        if !self.numbers.is_empty() {
            self.drop_below(base, upper);
        }
    }

    fn drop_below(&mut self, base: u64, upper: u64) {
        let (new_base, new_upper) = self.bases();
        self.numbers.drop_front(new_base - base);
        self.full.drop_front(new_upper - upper);
        self.some.drop_front(new_upper - upper);
        if self.numbers.len() <= 1 && self.numbers.word(new_base, new_base) >> (self.floor % 64) == 0 {
            self.numbers.clear();
            self.full.clear();
            self.some.clear();
        }
    }

    /// Returns the memory held besides the struct itself, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        self.numbers.memory() + self.full.memory() + self.some.memory()
    }
}

/// Returns the lowest bit of a word, from bit `from` on, that is set, or is not set.
fn first_bit(word: u64, from: u64, set: bool) -> Option<u64> {
    let wanted = if set { word } else { !word } >> from;
    (wanted != 0).then(|| from + u64::from(wanted.trailing_zeros()))
}

/// Bits from a base on. The owner keeps the base, which is the number of the first word. No bit beyond the last word is
/// set.
#[derive(Clone, Debug, Default)]
struct Bits {
    words: VecDeque<u64>,
}

impl Bits {
    #[inline]
    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns the length in words.
    fn len(&self) -> u64 {
        self.words.len() as u64
    }

    fn memory(&self) -> u64 {
        of_queue(self.words.capacity(), size_of::<u64>())
    }

    #[inline]
    fn word(&self, base: u64, word: u64) -> u64 {
        #[cfg(test)]
        looks::count();
        self.words.get((word - base) as usize).copied().unwrap_or(0)
    }

    /// Sets a bit and returns its word.
    #[inline]
    fn set_one(&mut self, base: u64, bit: u64) -> u64 {
        let word = (bit / 64 - base) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (bit % 64);
        self.words[word]
    }

    /// Sets `from..to`.
    fn set(&mut self, base: u64, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (first, last) = ((from / 64 - base) as usize, ((to - 1) / 64 - base) as usize);
        if last >= self.words.len() {
            self.words.resize(last + 1, 0);
        }
        let (low, high) = (u64::MAX << (from % 64), u64::MAX >> (63 - (to - 1) % 64));
        if first == last {
            self.words[first] |= low & high;
            return;
        }
        self.words[first] |= low;
        self.words.range_mut(first + 1..last).for_each(|word| *word = u64::MAX);
        self.words[last] |= high;
    }

    /// Returns the first bit of `from..to` that is set, or is not set, or `to` if there is none.
    fn seek(&self, base: u64, from: u64, to: u64, set: bool) -> u64 {
        let mut at = from;
        while at < to {
            if at / 64 - base >= self.len() {
                return if set { to } else { at };
            }
            if let Some(bit) = first_bit(self.word(base, at / 64), at % 64, set) {
                return to.min(at / 64 * 64 + bit);
            }
            at = (at / 64 + 1) * 64;
        }
        to
    }

    fn drop_front(&mut self, words: u64) {
        self.words.drain(..(words as usize).min(self.words.len()));
        if self.words.capacity() > KEPT && self.words.len() < self.words.capacity() / 8 {
            self.words.shrink_to(self.words.capacity() / 4);
        }
    }

    fn clear(&mut self) {
        self.words.clear();
    }
}

/// Counts the words looked at, for tests of cost.
#[cfg(test)]
pub(in crate::session) mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    pub(in crate::session) fn count() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// Returns how many words this thread looked at since the last call.
    pub(in crate::session) fn take() -> u64 {
        LOOKS.take()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::session::receive::scattered::Scattered;

    proptest! {
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

        /// Stretches are so long that whole words are uniform, and whole words of the summaries too.
        #[test]
        fn long_stretches_are_known_from_their_ends(
            marks in proptest::collection::vec((0u64..30_000, 1u64..9_000, any::<bool>()), 1..40)
        ) {
            let (mut window, mut ranges) = (Window::default(), Scattered::default());
            for (from, count, settle) in marks {
                let (from, to) = (from.max(window.floor()), (from + count).max(window.floor()));
                let (mut at, mut open) = (from, Vec::new());
                while let Some(stretch) = window.next_open(at, to) {
                    open.push(stretch);
                    at = stretch.1;
                }
                let mut known = Scattered::default();
                known.insert(from, to);
                ranges.within(from, to).for_each(|(from, to)| known.remove(from, to));
                prop_assert_eq!(open, known.within(0, u64::MAX).collect::<Vec<_>>());
                if count % 2 == 0 {
                    window.mark_all(from, to);
                } else {
                    (from..to).for_each(|number| window.mark(number));
                }
                ranges.insert(from, to);
                if settle {
                    window.settle();
                    ranges.insert(0, window.floor());
                }
                for at in [from, to, (from + to) / 2, to + 64] {
                    prop_assert_eq!(window.contains(at), ranges.contains(at));
                }
            }
        }
    }
}
