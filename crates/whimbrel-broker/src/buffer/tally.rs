//! The partitions of an origin's last messages, so that those that are gone can be counted.

use std::collections::VecDeque;

use whimbrel_pubsub::coverage::{Count, Range};
use whimbrel_pubsub::message::PartitionId;

use super::picks::Reach;

/// The sequences of an origin whose partitions are remembered, a byte each.
pub const TALLIED: u64 = 1 << 18;

/// More partitions than this have no byte.
pub(super) const MOST_PARTITIONS: usize = 250;

/// The message was not received.
const NOT_HERE: u8 = 255;
/// The lifetime of the message ended while it was held, so nobody misses it.
const EXPIRED: u8 = 254;
/// No broker has the message, so nobody knows its partition.
const LOST: u8 = 253;

/// The partition of each sequence in a window that ends with the highest.
#[derive(Debug)]
pub(super) struct Tally {
    /// The first sequence of the window.
    base: u64,
    bytes: VecDeque<u8>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { base: 1, bytes: VecDeque::new() }
    }

    pub(super) fn receive(&mut self, sequence: u64, partition: PartitionId) {
        self.set(sequence, partition.0);
    }

    pub(super) fn expire(&mut self, sequence: u64) {
        self.set(sequence, EXPIRED);
    }

    pub(super) fn lose(&mut self, range: Range) {
        let first = range.first.max((range.last + 1).saturating_sub(TALLIED));
        (first..=range.last).for_each(|sequence| self.set(sequence, LOST));
    }

    /// The number of messages in `range` that a subscription could have wanted. Those of the window that were not received do not count.
    pub(super) fn count(&self, range: Range, reach: &[Reach]) -> Count {
        let end = self.base + self.bytes.len() as u64;
        let before =
            range.last.min(self.base.saturating_sub(1)).saturating_add(1).saturating_sub(range.first);
        let mut count = Count { number: before, exact: before == 0 };
        let within = range.first.max(self.base)..end.min(range.last.saturating_add(1));
        if within.is_empty() {
            return count;
        }
        let places = (within.start - self.base) as usize..(within.end - self.base) as usize;
        for byte in self.bytes.range(places) {
            match wanted(*byte, reach) {
                Reach::None => {}
                Reach::Part => count = count.and(Count { number: 1, exact: false }),
                Reach::Whole => count.number += 1,
            }
        }
        count
    }

    fn set(&mut self, sequence: u64, byte: u8) {
        let Some(mut place) = sequence.checked_sub(self.base) else { return };
        if place >= TALLIED {
            let drop = place - TALLIED + 1;
            self.base += drop;
            self.bytes.drain(..self.bytes.len().min(usize::try_from(drop).unwrap_or(usize::MAX)));
            place = TALLIED - 1;
        }
        let place = place as usize;
        if place >= self.bytes.len() {
            self.bytes.resize(place + 1, NOT_HERE);
        }
        self.bytes[place] = byte;
    }
}

fn wanted(byte: u8, reach: &[Reach]) -> Reach {
    match byte {
        NOT_HERE | EXPIRED => Reach::None,
        LOST => Reach::Part,
        partition => reach.get(usize::from(partition)).copied().unwrap_or(Reach::Part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REACH: [Reach; 3] = [Reach::Whole, Reach::Part, Reach::None];

    fn count(tally: &Tally, first: u64, last: u64) -> (u64, bool) {
        let count = tally.count(Range { first, last }, &REACH);
        (count.number, count.exact)
    }

    #[test]
    fn whole_partitions_count_exactly_and_others_at_most() {
        let mut tally = Tally::new();
        for sequence in 1..=9 {
            tally.receive(sequence, PartitionId((sequence % 3) as u8));
        }
        assert_eq!(count(&tally, 3, 3), (1, true));
        assert_eq!(count(&tally, 2, 3), (1, true), "the third partition does not matter");
        assert_eq!(count(&tally, 1, 9), (6, false));
        tally.expire(3);
        assert_eq!(count(&tally, 2, 3), (0, true));
        tally.lose(Range { first: 10, last: 12 });
        assert_eq!(count(&tally, 10, 20), (3, false));
        tally.receive(15, PartitionId(0));
        assert_eq!(count(&tally, 13, 15), (1, true), "what was not received is not gone");
    }

    #[test]
    fn a_leap_costs_a_window_at_most() {
        let mut tally = Tally::new();
        tally.receive(1, PartitionId(0));
        tally.receive(1 << 60, PartitionId(0));
        assert_eq!(tally.bytes.len() as u64, TALLIED);
        assert_eq!(count(&tally, 1, 5), (5, false), "beyond the window all may be wanted");
        assert_eq!(count(&tally, 1 << 60, 1 << 61), (1, true));
        tally.lose(Range { first: 1, last: 1 << 61 });
        assert_eq!(tally.bytes.len() as u64, TALLIED);
    }
}
