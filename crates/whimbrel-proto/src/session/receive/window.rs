//! Which numbers at or above a floor are finished.

use std::collections::VecDeque;

use crate::session::account::held::of_queue;

/// Words for which there is room even where there are none.
const KEPT: usize = 64;

/// One bit a number, the floor being the lowest that is not finished. Two more bits for each word of those say whether it is worth a look: a
/// peer may name all of a window with a few bytes, as often as it likes, and what is uniform must not be gone through each time.
#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Window {
    floor: u64,
    /// From `floor - floor % 64` on.
    numbers: Bits,
    /// Words of `numbers` with all their bits, and with any.
    full: Bits,
    some: Bits,
}

impl Window {
    #[inline]
    pub(in crate::session) fn floor(&self) -> u64 {
        self.floor
    }

    /// Nothing above the floor is finished.
    #[inline]
    pub(in crate::session) fn is_flush(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The first word of `numbers`, and of what sums them up.
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

    /// Marks `from..to`, not below the floor. The caller limits how far above.
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

    /// The first stretch of `from..to` that is not finished.
    pub(in crate::session) fn next_open(&self, from: u64, to: u64) -> Option<(u64, u64)> {
        let start = self.seek(from.max(self.floor), to, false);
        (start < to).then(|| (start, self.seek(start, to, true)))
    }

    /// The first number of `from..to`, not below the floor, that is marked, or not; `to` if there is none.
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

    /// Raises the floor over what is marked.
    pub(in crate::session) fn settle(&mut self) {
        if self.contains(self.floor) {
            let end = (self.bases().0 + self.numbers.len()) * 64;
            self.raise(self.seek(self.floor, end, false));
        }
    }

    /// Raises the floor to `floor`, whatever is marked below.
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

    /// What it takes beside its own size, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        self.numbers.memory() + self.full.memory() + self.some.memory()
    }
}

/// The lowest bit of a word from one on that is set, or not.
fn first_bit(word: u64, from: u64, set: bool) -> Option<u64> {
    let wanted = if set { word } else { !word } >> from;
    (wanted != 0).then(|| from + u64::from(wanted.trailing_zeros()))
}

/// Bits from a base on, which who has them knows: the number of the first word. None beyond the last word is set.
#[derive(Clone, Debug, Default)]
struct Bits {
    words: VecDeque<u64>,
}

impl Bits {
    #[inline]
    fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// In words.
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

    /// Sets a bit; its word as it is then.
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

    /// The first of `from..to` that is set, or not; `to` if there is none.
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

/// How much work it was.
#[cfg(test)]
pub(in crate::session) mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<u64> = const { Cell::new(0) };
    }

    pub(in crate::session) fn count() {
        LOOKS.set(LOOKS.get() + 1);
    }

    /// Words that this thread looked at since this was last asked.
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

        /// Stretches so long that whole words are uniform, and whole words of those that sum them up.
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
