//! The number of a message among those of its publisher.

use std::collections::BTreeMap;

use crate::codec::{Malformed, Parser, put_varint};

/// The numbers of a publisher below its highest that are told apart. A lower one cannot be recognised any more.
pub const WINDOW: u64 = 1_024;

/// The most numbers of all publishers that are remembered, so that publishers without end take no memory without end.
const MOST_NUMBERS: usize = 1 << 20;

/// A publisher. It chooses a random id, a new one whenever it starts to count from the beginning. A native client's begins with its key, so
/// that brokers
/// refuse ids of others: every subscriber sees a publisher's id, and a message under its next number would take the place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublisherId(pub u128);

impl PublisherId {
    /// Creates an id of the client with this public key.
    pub fn of_client(key: &[u8; 32], random: u64) -> Self {
        Self(u128::from(half(key)) << 64 | u128::from(random))
    }

    /// Returns whether the client with this public key may use it.
    pub fn is_of_client(&self, key: &[u8; 32]) -> bool {
        self.0 >> 64 == u128::from(half(key))
    }
}

/// The first half of ids.
fn half(key: &[u8; 32]) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|at| key[at]))
}

/// The publisher of a message and the message's number. A message that is published again after a reconnect keeps both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Publication {
    /// The publisher.
    pub publisher: PublisherId,
    /// The number that the publisher gave the message; later messages have higher ones.
    pub number: u64,
}

impl Publication {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.publisher.0.to_le_bytes());
        put_varint(out, self.number);
    }

    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Self, Malformed> {
        let publisher = PublisherId(u128::from_le_bytes(parser.array()?));
        Ok(Self { publisher, number: parser.varint()? })
    }
}

/// The numbers that were published before, for a bounded number of publishers and a window of numbers each. Brokers and subscribers recognise
/// repeated messages by it.
///
/// A value may be remembered with each publication, such as the name of the message.
#[derive(Clone, Debug)]
pub struct Publications<T> {
    publishers: BTreeMap<PublisherId, Seen<T>>,
    most: usize,
    /// Numbers that are remembered, of all publishers.
    numbers: usize,
    most_numbers: usize,
    /// Orders publishers by when they were last heard of.
    clock: u64,
    /// The publisher that was heard of then.
    by_age: BTreeMap<u64, PublisherId>,
}

#[derive(Clone, Debug)]
struct Seen<T> {
    numbers: BTreeMap<u64, T>,
    heard: u64,
}

impl<T: Clone> Publications<T> {
    /// Remembers at most `most` publishers. Beyond, the one that was silent for the longest is forgotten.
    /// So it is beyond 1,048,576 numbers of all of them.
    pub fn new(most: usize) -> Self {
        let (publishers, by_age) = (BTreeMap::new(), BTreeMap::new());
        Self { publishers, most: most.max(1), numbers: 0, most_numbers: MOST_NUMBERS, clock: 0, by_age }
    }

    /// Returns the value remembered with `publication`, if it is in the window.
    pub fn find(&self, publication: Publication) -> Option<&T> {
        self.publishers.get(&publication.publisher)?.numbers.get(&publication.number)
    }

    /// Remembers a publication, unless it is remembered already or lies below the window. Returns whether it did.
    pub fn note(&mut self, publication: Publication, value: T) -> bool {
        let Publication { publisher, number } = publication;
        self.clock += 1;
        let seen =
            self.publishers.entry(publisher).or_insert_with(|| Seen { numbers: BTreeMap::new(), heard: 0 });
        self.by_age.remove(&seen.heard);
        seen.heard = self.clock;
        self.by_age.insert(self.clock, publisher);
        let highest = seen.numbers.last_key_value().map_or(0, |(number, _)| *number);
        let is_new = !seen.numbers.contains_key(&number) && number.saturating_add(WINDOW) > highest;
        if is_new {
            seen.numbers.insert(number, value);
            self.numbers += 1;
            let floor = number.max(highest).saturating_sub(WINDOW - 1);
            while seen.numbers.first_key_value().is_some_and(|(number, _)| *number < floor) {
                seen.numbers.pop_first();
                self.numbers -= 1;
            }
        }
        // The last one has a window at most.
        while (self.publishers.len() > self.most
            || self.numbers > self.most_numbers && self.publishers.len() > 1)
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            let forgotten = self.publishers.remove(&oldest).map_or(0, |seen| seen.numbers.len());
            self.numbers -= forgotten;
        }
        is_new
    }

    /// Returns the number of publishers that are remembered.
    pub fn publishers(&self) -> usize {
        self.publishers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(publisher: u128, number: u64) -> Publication {
        Publication { publisher: PublisherId(publisher), number }
    }

    #[test]
    fn a_repeated_publication_is_found_within_the_window() {
        let mut seen = Publications::new(2);
        assert!(seen.note(publication(1, 10), 'a'));
        assert!(!seen.note(publication(1, 10), 'b'));
        assert_eq!(seen.find(publication(1, 10)), Some(&'a'));
        assert!(seen.note(publication(1, 9), 'c'), "a number that was passed over may still come");
        assert!(seen.note(publication(1, 9 + WINDOW), 'd'));
        assert_eq!(seen.find(publication(1, 9)), None);
        assert_eq!(seen.find(publication(1, 10)), Some(&'a'));
        assert!(!seen.note(publication(1, 9), 'e'), "below the window");
    }

    #[test]
    fn memory_is_bounded_and_the_silent_are_forgotten() {
        let mut seen = Publications::new(3);
        for round in 0..2 * WINDOW {
            seen.note(publication(0, round), ());
            seen.note(publication(u128::from(round) + 1, 1), ());
        }
        assert_eq!(seen.publishers(), 3);
        assert_eq!(seen.by_age.len(), 3);
        assert_eq!(seen.publishers[&PublisherId(0)].numbers.len() as u64, WINDOW);
    }

    #[test]
    fn regression_publishers_with_full_windows_do_not_add_up() {
        let mut seen = Publications { most_numbers: 100, ..Publications::new(1_000) };
        for publisher in 1..=20 {
            (1..=30).for_each(|number| assert!(seen.note(publication(publisher, number), ())));
        }
        assert_eq!((seen.publishers(), seen.numbers, seen.by_age.len()), (3, 90, 3));
        assert!(seen.find(publication(20, 1)).is_some() && seen.find(publication(17, 30)).is_none());
    }
}
