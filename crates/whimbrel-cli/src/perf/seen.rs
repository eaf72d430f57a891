//! Which numbers have come: finds duplicates and what came out of order.

/// How far behind the highest number a late one is still told from a duplicate; more than any transport holds open.
const WINDOW: u64 = 1 << 20;

/// Numbers seen. Rises mostly by one, which costs an addition.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// All numbers below have come, as far as that can be known.
    whole: u64,
    /// One above the highest.
    next: u64,
    /// A bit a number of the window, by its remainder; allocated with the first gap.
    bits: Vec<u64>,
    /// Different numbers.
    pub(super) unique: u64,
    /// Numbers that came again.
    pub(super) duplicated: u64,
    /// Numbers that came after a higher one.
    pub(super) overtaken: u64,
}

impl Seen {
    pub(super) fn insert(&mut self, number: u64) {
        if number == self.next && self.whole == self.next {
            self.whole += 1;
            self.next += 1;
            self.unique += 1;
            return;
        }
        self.insert_beside_gap(number);
    }

    fn insert_beside_gap(&mut self, number: u64) {
        if number < self.whole || self.next.saturating_sub(number) > WINDOW {
            self.duplicated += 1;
            return;
        }
        if self.bits.is_empty() {
            self.bits = vec![0; (WINDOW / 64) as usize];
        }
        if number < self.next {
            if self.is_set(number) {
                self.duplicated += 1;
                return;
            }
            self.overtaken += 1;
        }
        self.unique += 1;
        self.advance_to(number + 1);
        self.set(number, true);
        while self.whole < self.next && self.is_set(self.whole) {
            self.set(self.whole, false);
            self.whole += 1;
        }
    }

    /// Numbers up to `next` exclusive may come in the window; what falls out of it counts as lost.
    fn advance_to(&mut self, next: u64) {
        if next <= self.next {
            return;
        }
        if next - self.next >= WINDOW {
            self.bits.fill(0);
        } else {
            for number in self.next..next {
                self.set(number, false);
            }
        }
        self.next = next;
        self.whole = self.whole.max(next.saturating_sub(WINDOW));
    }

    /// One above the highest number.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    fn is_set(&self, number: u64) -> bool {
        let at = number % WINDOW;
        self.bits[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, number: u64, to: bool) {
        let at = number % WINDOW;
        let word = &mut self.bits[(at / 64) as usize];
        *word = *word & !(1 << (at % 64)) | u64::from(to) << (at % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_came_again_and_what_was_overtaken() {
        let mut seen = Seen::default();
        for number in [0, 1, 3, 3, 2, 2, 0, 4, 10, 7, 7] {
            seen.insert(number);
        }
        assert_eq!((seen.unique, seen.duplicated, seen.overtaken, seen.next()), (7, 4, 2, 11));
    }

    #[test]
    fn a_leap_beyond_the_window_forgets_what_is_behind() {
        let mut seen = Seen::default();
        for number in [5, WINDOW * 3, WINDOW * 3 - 1, WINDOW * 3 - 1] {
            seen.insert(number);
        }
        assert_eq!((seen.unique, seen.duplicated, seen.overtaken), (3, 1, 1));
    }

    #[test]
    fn agrees_with_a_set() {
        let mut seen = Seen::default();
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
