//! The reading that subscriptions which select the same have in common, so that it is done once.

use whimbrel_pubsub::message::Origin;

use super::reader::Reader;
use super::reading::{Mark, Reading};
use crate::buffer::{Channel, LogIndex, Slot};

/// A stretch of the order of arrival, as a reader passed through it in the usual order. A reader that selects the same and stands at its
/// beginning is told the same, and need not look at the messages. Messages with a lifetime end it: what is told of them depends on when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    from: u64,
    until: u64,
    deliveries: u64,
    crossings: Vec<Crossing>,
}

/// The part of a passage that concerns one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Crossing {
    index: LogIndex,
    origin: Origin,
    before: Mark,
    after: Mark,
}

impl Passage {
    /// The arrival with which it begins.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// The number of arrivals.
    pub fn arrivals(&self) -> u64 {
        self.until - self.from
    }

    /// The number of messages that were delivered.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }

    pub(super) fn on_delivery(&mut self) {
        self.deliveries += 1;
    }

    /// A message comes that is the next of its origin. Returns whether the passage goes on.
    #[inline]
    pub(super) fn enter(&mut self, index: LogIndex, slot: &Slot, reading: &Reading) -> bool {
        if slot.has_lifetime() {
            return false;
        }
        if self.crossings.iter().any(|crossing| crossing.index == index) {
            return true;
        }
        let Some(before) = reading.mark() else { return false };
        self.crossings.push(Crossing { index, origin: slot.stamp().origin, before, after: before });
        true
    }
}

impl Reader {
    /// Begins a passage, if the reader is where others may be, too. It ends with [`Reader::end_passage`], before any other call than
    /// [`Reader::read`].
    pub fn begin_passage(&mut self, channel: &Channel) -> bool {
        if !self.is_in_step(channel) {
            return false;
        }
        let (from, crossings) = (self.tail, Vec::new());
        self.passage = Some(Passage { from, until: from, deliveries: 0, crossings });
        true
    }

    /// Ends a passage. `None`: something came that others need not meet.
    pub fn end_passage(&mut self) -> Option<Passage> {
        let mut passage = self.passage.take()?;
        passage.until = self.tail;
        for crossing in &mut passage.crossings {
            crossing.after = self.readings.get(crossing.index.place())?.mark()?;
        }
        (passage.until > passage.from && self.notices.is_empty()).then_some(passage)
    }

    /// The arrival that it reads next of what is new.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Goes through a passage of another reader that selects the same, if it stands at its beginning. Returns whether it did: what that
    /// reader was told on the way has to be told, then.
    pub fn pass(&mut self, channel: &Channel, passage: &Passage) -> bool {
        self.renew(channel);
        let is_held =
            |at: u64| channel.from(at).is_some_and(|entry| entry.arrival == at && entry.slot().is_some());
        if !self.is_in_step(channel) || self.tail != passage.from || !is_held(passage.from) {
            return false;
        }
        if passage.crossings.iter().any(|crossing| crossing.index.place() >= self.readings.len()) {
            self.adopt(channel);
        }
        let is_at = |crossing: &Crossing| {
            let place = crossing.index.place();
            let is_same = self.origins.get(place) == Some(&Some(crossing.origin));
            is_same && self.readings[place].mark() == Some(crossing.before)
        };
        if !passage.crossings.iter().all(is_at) {
            return false;
        }
        for crossing in &passage.crossings {
            self.readings[crossing.index.place()].go_to(&crossing.after);
        }
        self.tail = passage.until;
        true
    }

    /// Whether nothing but the order of arrival decides what it is told next.
    fn is_in_step(&self, channel: &Channel) -> bool {
        let has_nothing_else = self.notices.is_empty() && self.walk.is_none() && self.behind.is_none();
        has_nothing_else && self.takes_all() && !self.jumped && self.losses == channel.losses()
    }
}
