//! The last value of each topic.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_pubsub::message::{Message, Stamp};

use super::Newness;
use crate::Time;
use crate::mutants::{Mutant, planted};

/// A last value, or the memory of one that was removed.
#[derive(Clone, Debug)]
pub struct RetainedValue {
    /// The name of the message.
    pub stamp: Stamp,
    /// The message; it has no payload if it removed the value.
    pub message: Message,
    newness: Newness,
    /// When it is forgotten.
    ends: Option<Time>,
}

impl RetainedValue {
    /// Whether there is a value, and it is wanted still.
    pub fn is_wanted(&self, now: Time) -> bool {
        !self.message.payload().is_empty() && self.ends.is_none_or(|end| end > now)
    }
}

/// The last values of a channel's topics. The last writer wins, at every broker the same.
#[derive(Debug, Default)]
pub struct Retained {
    values: BTreeMap<Bytes, RetainedValue>,
    ends: BTreeSet<(Time, Bytes)>,
    bytes: u64,
}

impl Retained {
    /// The values in the order of their topics, after that of topic `after`.
    pub fn after(&self, after: Option<&Bytes>) -> Option<(&Bytes, &RetainedValue)> {
        match after {
            Some(topic) => self.values.range((Bound::Excluded(topic.clone()), Bound::Unbounded)).next(),
            None => self.values.first_key_value(),
        }
    }

    /// The value of a topic.
    pub fn find(&self, topic: &[u8]) -> Option<&RetainedValue> {
        self.values.get(topic)
    }

    /// The number of topics with a value or the memory of one.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether a value of `message`'s topic has room.
    pub(super) fn has_room(&self, message: &Message, most: usize, most_bytes: u64) -> bool {
        let topic = message.topic_bytes();
        let former = self.values.get(&topic).map(|value| value.message.encoded().len() as u64);
        (former.is_some() || self.values.len() < most)
            && self.bytes - former.unwrap_or(0) + message.encoded().len() as u64 <= most_bytes
    }

    /// Takes a value unless there is a newer one. It ends at `ends`, and the memory of a removed value after `removed_for`.
    pub(super) fn offer(
        &mut self,
        (stamp, message): (Stamp, Message),
        ends: Option<Time>,
        removed_for: Duration,
        now: Time,
    ) {
        let topic = message.topic_bytes();
        let newness = Newness::of(&stamp, &message);
        let is_older = |there: &RetainedValue| !newness.is_newer_than(&there.newness);
        if self.values.get(&topic).is_some_and(is_older) && !planted(Mutant::RetainedByArrival) {
            return;
        }
        self.remove(&topic);
        let ends = if message.payload().is_empty() { Some(now + removed_for) } else { ends };
        self.bytes += message.encoded().len() as u64;
        self.ends.extend(ends.map(|end| (end, topic.clone())));
        self.values.insert(topic, RetainedValue { stamp, message, newness, ends });
    }

    /// Forgets what has ended.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some((end, topic)) = self.ends.first()
            && *end <= now
        {
            let topic = topic.clone();
            self.remove(&topic);
        }
    }

    fn remove(&mut self, topic: &Bytes) {
        if let Some(former) = self.values.remove(topic) {
            self.bytes -= former.message.encoded().len() as u64;
            if let Some(end) = former.ends {
                self.ends.remove(&(end, topic.clone()));
            }
        }
    }
}
