//! The last value of each topic.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_pubsub::message::{Message, Stamp};

use super::newer::Newness;
use crate::Time;
use crate::mutants::{Mutant, planted};

/// A last value, or the memory of one that was removed or whose lifetime ended: an older one that comes later must not take its place.
#[derive(Clone, Debug)]
pub struct RetainedValue {
    /// The name of the message.
    pub stamp: Stamp,
    newness: Newness,
    message: Option<Message>,
    /// When the value becomes a memory, or the memory is forgotten.
    ends: Option<Time>,
}

impl RetainedValue {
    /// The message, if it is wanted still.
    pub fn message(&self, now: Time) -> Option<&Message> {
        self.message.as_ref().filter(|_| self.ends.is_none_or(|end| end > now))
    }

    /// Returns the mark by which a newer value is told from an older one.
    pub fn newness(&self) -> &Newness {
        &self.newness
    }

    fn bytes(&self) -> u64 {
        self.message.as_ref().map_or(0, |message| message.encoded().len() as u64)
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
        let former = self.values.get(&message.topic_bytes()).map(RetainedValue::bytes);
        (former.is_some() || self.values.len() < most)
            && self.bytes - former.unwrap_or(0) + message.encoded().len() as u64 <= most_bytes
    }

    /// Takes a value unless there is a newer one. It ends at `ends`, and the memory of it `removed_for` later.
    pub(super) fn offer(
        &mut self,
        (stamp, message): (Stamp, Message),
        ends: Option<Time>,
        removed_for: Duration,
        now: Time,
    ) {
        let topic = message.topic_bytes();
        let newness = Newness::of(&stamp, &message);
        let is_older = |there: &RetainedValue| !newness.is_written_after(&there.newness);
        if self.values.get(&topic).is_some_and(is_older) && !planted(Mutant::RetainedByArrival) {
            return;
        }
        self.remove(&topic);
        let is_value = !message.payload().is_empty() && ends.is_none_or(|end| end > now);
        let value = if is_value {
            RetainedValue { stamp, newness, message: Some(message), ends }
        } else {
            RetainedValue { stamp, newness, message: None, ends: Some(now + removed_for) }
        };
        self.insert(topic, value);
    }

    /// Forgets what has ended.
    pub(super) fn expire(&mut self, removed_for: Duration, now: Time) {
        while let Some((end, topic)) = self.ends.first().filter(|(end, _)| *end <= now).cloned() {
            let Some(value) = self.remove(&topic).filter(|value| value.message.is_some()) else { continue };
            // The topic's bytes must not hold the message's memory.
            let topic = Bytes::copy_from_slice(&topic);
            self.insert(topic, RetainedValue { message: None, ends: Some(end + removed_for), ..value });
        }
    }

    fn insert(&mut self, topic: Bytes, value: RetainedValue) {
        self.bytes += value.bytes();
        self.ends.extend(value.ends.map(|end| (end, topic.clone())));
        self.values.insert(topic, value);
    }

    fn remove(&mut self, topic: &Bytes) -> Option<RetainedValue> {
        let former = self.values.remove(topic)?;
        self.bytes -= former.bytes();
        if let Some(end) = former.ends {
            self.ends.remove(&(end, topic.clone()));
        }
        Some(former)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whimbrel_pubsub::message::{BrokerId, Draft, Hlc, Origin, PartitionId};

    fn value(published: u64, payload: &[u8]) -> (Stamp, Message) {
        let origin = Origin { broker: BrokerId(1), epoch: 1 };
        let (sequence, partition) = (published, PartitionId(0));
        let stamp = Stamp { origin, sequence, partition, ordinal: 1, published: Hlc::at(published) };
        (stamp, Draft { topic: "t", retain: true, payload, ..Draft::default() }.finish().unwrap())
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    fn wanted(retained: &Retained, now: Time) -> Option<u64> {
        retained.find(b"t").filter(|value| value.message(now).is_some()).map(|value| value.stamp.sequence)
    }

    #[test]
    fn the_last_writer_wins_in_any_order() {
        let mut retained = Retained::default();
        for published in [3, 5, 4] {
            retained.offer(value(published, b"x"), None, HOUR, Time::ZERO);
        }
        assert_eq!(wanted(&retained, Time::ZERO), Some(5));
        retained.offer(value(7, b""), None, HOUR, Time::ZERO);
        retained.offer(value(6, b"x"), None, HOUR, Time::ZERO);
        assert_eq!(wanted(&retained, Time::ZERO), None, "removed");
        retained.expire(HOUR, Time::ZERO + HOUR);
        assert!(retained.is_empty() && retained.bytes == 0 && retained.ends.is_empty());
    }

    #[test]
    fn regression_an_older_value_does_not_follow_one_whose_lifetime_ended() {
        let mut retained = Retained::default();
        let end = Time::ZERO + Duration::from_secs(1);
        retained.offer(value(5, b"x"), Some(end), HOUR, Time::ZERO);
        assert_eq!((wanted(&retained, Time::ZERO), wanted(&retained, end)), (Some(5), None));
        retained.expire(HOUR, end);
        retained.offer(value(4, b"x"), None, HOUR, end);
        assert_eq!((wanted(&retained, end), retained.bytes), (None, 0));
        retained.expire(HOUR, end + HOUR);
        assert!(retained.is_empty());
    }
}
