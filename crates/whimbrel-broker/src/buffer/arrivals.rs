//! The messages that are held, in the order in which they came.

use std::collections::VecDeque;

use super::places::{LogIndex, SlotId};

/// Fewer empty places than this are not worth compacting.
const WORTH: usize = 1_024;

/// A place in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number: each arrival has the next.
    pub arrival: u64,
    /// The sequence of the message.
    pub sequence: u64,
    /// The log of its origin.
    pub log: LogIndex,
    slot: Option<SlotId>,
}

/// The order of arrival. A position in it is a number, and stays valid whatever is removed.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    entries: VecDeque<Entry>,
    end: u64,
    empty: usize,
}

impl Entry {
    /// The slot of the message, unless it was emptied.
    pub fn slot(&self) -> Option<SlotId> {
        self.slot
    }
}

impl Arrivals {
    /// The number of the next arrival.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn push(&mut self, log: LogIndex, sequence: u64, slot: SlotId) {
        self.entries.push_back(Entry { arrival: self.end, sequence, log, slot: Some(slot) });
        self.end += 1;
    }

    pub(super) fn remove(&mut self, arrival: u64) {
        let at = self.place(arrival);
        let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.arrival == arrival) else { return };
        entry.slot = None;
        self.empty += 1;
        while self.entries.front().is_some_and(|entry| entry.slot.is_none()) {
            self.entries.pop_front();
            self.empty -= 1;
        }
        if self.empty > WORTH && self.empty > self.entries.len() / 2 {
            self.entries.retain(|entry| entry.slot.is_some());
            self.empty = 0;
        }
    }

    /// The entry of the first arrival from `position` on.
    #[inline]
    pub(super) fn from(&self, position: u64) -> Option<Entry> {
        self.entries.get(self.place(position)).copied()
    }

    fn place(&self, arrival: u64) -> usize {
        let Some(front) = self.entries.front() else { return 0 };
        // Without empty places that were compacted, the number says the place.
        let guess = arrival.saturating_sub(front.arrival) as usize;
        match self.entries.get(guess) {
            Some(entry) if entry.arrival == arrival => guess,
            _ => self.entries.partition_point(|entry| entry.arrival < arrival),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_stay_valid_while_places_are_compacted() {
        let mut arrivals = Arrivals::default();
        for number in 0..10_000 {
            arrivals.push(LogIndex(0), number, SlotId(number as u32));
        }
        let left = |number: u64| number % 7 == 3;
        (0..10_000).filter(|number| !left(*number)).for_each(|number| arrivals.remove(number));
        assert!(arrivals.entries.len() < 5_000, "compacted");
        let mut position = 0;
        let mut read = Vec::new();
        while let Some(entry) = arrivals.from(position) {
            position = entry.arrival + 1;
            read.extend(entry.slot().map(|_| entry.sequence));
        }
        assert_eq!(read, (0..10_000).filter(|number| left(*number)).collect::<Vec<_>>());
        assert_eq!(arrivals.from(arrivals.end()), None);
    }
}
