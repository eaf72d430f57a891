//! Items in the order in which they are due.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use whimbrel_proto::Time;

/// Items that a link delivers later, in order of time. Items due at the same time come out in the order in which they
/// went in.
#[derive(Debug)]
pub struct Calendar<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    pushed: u64,
}

#[derive(Debug)]
struct Entry<T> {
    due: Time,
    /// Breaks ties.
    number: u64,
    item: T,
}

impl<T> Default for Calendar<T> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), pushed: 0 }
    }
}

impl<T> Calendar<T> {
    /// Adds an item that is due at `due`.
    pub fn push(&mut self, due: Time, item: T) {
        self.pushed += 1;
        self.heap.push(Reverse(Entry { due, number: self.pushed, item }));
    }

    /// Returns when the next item is due.
    pub fn next_due(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse(entry)| entry.due)
    }

    /// Removes and returns the next item and when it was due, if that is not after `now`.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, T)> {
        self.next_due().filter(|due| *due <= now)?;
        self.heap.pop().map(|Reverse(entry)| (entry.due, entry.item))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Entry<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_out_by_time_and_then_in_the_order_it_went_in() {
        let mut calendar = Calendar::default();
        for (name, nanos) in [(0, 20), (1, 10), (2, 20), (3, 30), (4, 10)] {
            calendar.push(Time::from_nanos(nanos), name);
        }
        let names: Vec<_> =
            std::iter::from_fn(|| calendar.pop_due(Time::from_nanos(20))).map(|(_, name)| name).collect();
        assert_eq!(names, [1, 4, 0, 2]);
        assert_eq!(calendar.next_due(), Some(Time::from_nanos(30)));
    }
}
