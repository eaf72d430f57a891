//! A subscription's view of one origin.

use whimbrel_pubsub::coverage::{MOST_RANGES, Range, Ranges};

use crate::mutants::{Mutant, planted};

/// A subscription's view of one origin.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The sequences whose fate is settled.
    pub(crate) covered: Ranges,
    /// Settled sequences that the subscriber was not told of. Between its ends everything is settled.
    pending: Option<Range>,
    /// Passed over by the subscription's own policy, and not told.
    superseded: Option<(Range, u64)>,
    /// Told as unknown.
    pub(crate) unknown: Ranges,
    /// The highest sequence that was delivered.
    pub(crate) delivered: u64,
}

/// The part of a view of an origin that decides what comes next in the usual order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    highest: u64,
    pending: Option<Range>,
    delivered: u64,
}

impl Reading {
    pub(crate) fn of(covered: Ranges) -> Self {
        Self { covered, ..Self::default() }
    }

    /// Whether `sequence` is right behind all that is settled and all that is pending, as in the usual order.
    #[inline]
    pub(crate) fn is_next(&self, sequence: u64) -> bool {
        self.covered.highest() + 1 == sequence
            && self.pending.is_none_or(|pending| pending.last + 1 == sequence)
    }

    /// Settles the sequence that is next.
    #[inline]
    pub(crate) fn settle_next(&mut self, sequence: u64) {
        self.covered.append();
        let first = self.pending.map_or(sequence, |pending| pending.first);
        self.pending = Some(Range { first, last: sequence });
    }

    /// Where it stands. `None`: something beside the usual order matters, too.
    #[inline]
    pub(super) fn mark(&self) -> Option<Mark> {
        let is_usual = self.superseded.is_none() && self.unknown.is_empty();
        let (highest, pending, delivered) = (self.covered.highest(), self.pending, self.delivered);
        is_usual.then_some(Mark { highest, pending, delivered })
    }

    /// Goes on to `mark` in the usual order.
    #[inline]
    pub(super) fn go_to(&mut self, mark: &Mark) {
        self.covered.append_until(mark.highest);
        (self.pending, self.delivered) = (mark.pending, mark.delivered);
    }

    /// Whether messages were superseded and not told.
    #[inline]
    pub(crate) fn has_superseded(&self) -> bool {
        self.superseded.is_some()
    }

    /// Settles `range`. Returns a cover that has to be told by itself, since a gap lies between it and the range.
    pub(crate) fn settle(&mut self, range: Range) -> Option<Range> {
        self.covered.insert(range);
        let joined = self.joined(self.pending, range);
        let alone = if joined.is_none() { self.pending } else { None };
        self.pending = Some(joined.unwrap_or(range));
        alone
    }

    /// Counts a settled message as superseded. Returns others that have to be told by themselves.
    pub(crate) fn supersede(&mut self, sequence: u64) -> Option<(Range, u64)> {
        let range = Range { first: sequence, last: sequence };
        let joined = self.joined(self.superseded.map(|(range, _)| range), range);
        let alone = if joined.is_none() { self.superseded } else { None };
        let number = if alone.is_none() { self.superseded.map_or(0, |(_, number)| number) } else { 0 };
        self.superseded = Some((joined.unwrap_or(range), number + 1));
        alone
    }

    /// Notes that `range` was told as unknown. Of too many ranges, those between the oldest count as told, too.
    pub(crate) fn tell_unknown(&mut self, range: Range) {
        self.unknown.insert(range);
        if self.unknown.len() > MOST_RANGES {
            self.unknown.close_oldest_gap();
        }
    }

    /// Takes the range that was settled and not told.
    pub(crate) fn take_pending(&mut self) -> Option<Range> {
        self.pending.take()
    }

    /// Takes the range that was settled and not told, if a gap lies between it and `sequence`.
    pub(crate) fn take_apart(&mut self, sequence: u64) -> Option<Range> {
        let pending = self.pending?;
        let between = if sequence > pending.last {
            Range::new(pending.last + 1, sequence - 1)
        } else {
            Range::new(sequence + 1, pending.first - 1)
        };
        let is_apart = between.is_some_and(|between| !self.covered.covers(between));
        if is_apart && !planted(Mutant::CoverOverGap) { self.pending.take() } else { None }
    }

    /// Takes the range that was superseded and not told.
    pub(crate) fn take_superseded(&mut self) -> Option<(Range, u64)> {
        self.superseded.take()
    }

    /// Both ranges and what lies between them, if all that is covered. The second is.
    fn joined(&self, before: Option<Range>, range: Range) -> Option<Range> {
        let Some(before) = before else { return Some(range) };
        let both = Range { first: before.first.min(range.first), last: before.last.max(range.last) };
        (self.covered.covers(both) || planted(Mutant::CoverOverGap)).then_some(both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(sequence: u64) -> Range {
        Range { first: sequence, last: sequence }
    }

    #[test]
    fn the_usual_order_is_settled_alike() {
        let (mut quick, mut plain) = (Reading::default(), Reading::default());
        for sequence in 1..10 {
            assert!(quick.is_next(sequence) && !quick.is_next(sequence + 1));
            quick.settle_next(sequence);
            assert_eq!(plain.settle(one(sequence)), None);
            assert_eq!((&quick.covered, quick.pending), (&plain.covered, plain.pending));
            if sequence % 3 == 0 {
                assert_eq!(quick.take_pending(), plain.take_pending());
            }
        }
    }

    #[test]
    fn a_cover_never_spans_a_gap() {
        let mut reading = Reading::of(Ranges::of(Range { first: 5, last: 6 }));
        assert_eq!(reading.settle(one(4)), None);
        assert_eq!(reading.settle(one(7)), None, "5 and 6 were covered before");
        assert_eq!(reading.settle(one(9)), Some(Range { first: 4, last: 7 }));
        assert_eq!(reading.settle(one(8)), None, "the gap is closed");
        assert_eq!(reading.take_pending(), Some(Range { first: 8, last: 9 }));
        assert_eq!(reading.take_pending(), None);
    }

    #[test]
    fn superseded_messages_are_counted_together() {
        let mut reading = Reading::default();
        let mut supersede = |sequence| {
            reading.settle(one(sequence));
            reading.supersede(sequence)
        };
        assert_eq!((supersede(1), supersede(2), supersede(3)), (None, None, None));
        assert_eq!(supersede(7), Some((Range { first: 1, last: 3 }, 3)));
        assert_eq!(reading.take_superseded(), Some((one(7), 1)));
    }
}
