//! Since when sequences are known to exist.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// The highest sequence known at a time is remembered so often within the time that is asked about.
const MARKS: u32 = 16;

/// The highest sequence that was known at each of the last moments.
#[derive(Debug)]
pub(super) struct Known {
    highest: u64,
    /// Each says that sequences up to the second were known at the first.
    marks: VecDeque<Mark>,
    span: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    opened: Time,
    at: Time,
    highest: u64,
}

impl Known {
    /// Can be asked about the time `span` ago.
    pub(super) fn new(span: Duration) -> Self {
        Self { highest: 0, marks: VecDeque::new(), span }
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Notes that sequences up to `highest` exist. Returns whether that is new.
    pub(super) fn note(&mut self, highest: u64, now: Time) -> bool {
        if highest <= self.highest {
            return false;
        }
        self.highest = highest;
        let grain = self.span / MARKS;
        match self.marks.back_mut() {
            Some(mark) if now.since(mark.opened) < grain => (mark.at, mark.highest) = (now, highest),
            _ => self.marks.push_back(Mark { opened: now, at: now, highest }),
        }
        // Of the marks that are old enough, the last says all.
        while self.marks.get(1).is_some_and(|next| now.since(next.at) >= self.span) {
            self.marks.pop_front();
        }
        true
    }

    /// Notes that no sequence above `highest` exists.
    pub(super) fn lower(&mut self, highest: u64) {
        self.highest = self.highest.min(highest);
        self.marks.iter_mut().for_each(|mark| mark.highest = mark.highest.min(highest));
    }

    /// The highest sequence that has been known for the span, up to a sixteenth of it longer.
    pub(super) fn long_known(&self, now: Time) -> u64 {
        let old = self.marks.iter().take_while(|mark| now.since(mark.at) >= self.span);
        old.last().map_or(0, |mark| mark.highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_long_known_after_the_span_and_little_is_kept() {
        let second = |seconds: u64| Time::at(Duration::from_millis(seconds * 1_000));
        let mut known = Known::new(Duration::from_secs(10));
        for at in 1..=100 {
            assert!(known.note(at * 10, second(at)) && !known.note(3, second(at)));
        }
        assert_eq!((known.highest(), known.long_known(second(100))), (1_000, 900));
        assert_eq!(known.long_known(second(110)), 1_000);
        assert!(known.marks.len() <= MARKS as usize + 2);
        for micro in 0..10_000 {
            known.note(2_000 + micro, second(120) + Duration::from_micros(micro));
        }
        assert!(known.marks.len() <= MARKS as usize + 2);
    }
}
