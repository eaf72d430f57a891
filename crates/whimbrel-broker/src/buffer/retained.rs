//! The last value of each topic.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::{Message, Origin, Stamp};

use super::newer::Newness;
use crate::Time;
use crate::mutants::{Mutant, planted};

/// A last value, or the memory of one that was removed or whose lifetime ended: an older one that comes later must not take its place.
#[derive(Clone, Debug)]
pub struct RetainedValue {
    /// The name of the message.
    pub stamp: Stamp,
    newness: Newness,
    /// The value, or the message that removed one. `None` if the value's lifetime has ended.
    message: Option<Message>,
    /// When it was published, by this broker's monotonic clock.
    published: Time,
    /// When the value becomes a memory, or the memory is forgotten.
    ends: Option<Time>,
}

impl RetainedValue {
    /// The message, if it is wanted still.
    pub fn message(&self, now: Time) -> Option<&Message> {
        self.written(now).filter(|message| !message.payload().is_empty())
    }

    /// The message that brings about this state at another broker: the value that is wanted still, or what removed one.
    pub fn written(&self, now: Time) -> Option<&Message> {
        self.message.as_ref().filter(|_| self.ends.is_none_or(|end| end > now))
    }

    /// Returns the time since it was published.
    pub fn age(&self, now: Time) -> Duration {
        now.since(self.published)
    }

    /// Returns the mark by which a newer value is told from an older one.
    pub fn newness(&self) -> &Newness {
        &self.newness
    }

    fn is_value(&self) -> bool {
        self.message.as_ref().is_some_and(|message| !message.payload().is_empty())
    }

    fn bytes(&self) -> u64 {
        self.message.as_ref().map_or(0, |message| message.encoded().len() as u64)
    }
}

/// The last values of a channel's topics. The last writer wins, at every broker the same.
#[derive(Debug, Default)]
pub struct Retained {
    values: BTreeMap<Bytes, RetainedValue>,
    /// The topics of messages that are here, by the messages' names.
    names: BTreeMap<(Origin, u64), Bytes>,
    ends: BTreeSet<(Time, Bytes)>,
    bytes: u64,
    /// The topics whose state has changed, for whoever keeps it. `None`: nobody does.
    changed: Option<BTreeSet<Bytes>>,
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

    /// The messages of an origin among them, by sequence.
    pub(super) fn named(&self, origin: Origin, range: Range) -> impl Iterator<Item = (u64, &RetainedValue)> {
        let named = self.names.range((origin, range.first)..=(origin, range.last));
        named.filter_map(move |((_, sequence), topic)| Some((*sequence, self.values.get(topic)?)))
    }

    /// The number of topics with a value or the memory of one.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Notes from now on which topics change. All that are here count as changed.
    pub(super) fn track(&mut self) {
        self.changed = Some(self.values.keys().map(|topic| Bytes::copy_from_slice(topic)).collect());
    }

    /// Takes the topics whose state has changed.
    pub(super) fn take_changed(&mut self) -> BTreeSet<Bytes> {
        self.changed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether any topic's state has changed.
    pub(super) fn has_changed(&self) -> bool {
        self.changed.as_ref().is_some_and(|changed| !changed.is_empty())
    }

    /// Whether a value of `message`'s topic has room.
    pub(super) fn has_room(&self, message: &Message, most: usize, most_bytes: u64) -> bool {
        let former = self.values.get(&message.topic_bytes()).map(RetainedValue::bytes);
        (former.is_some() || self.values.len() < most)
            && self.bytes - former.unwrap_or(0) + message.encoded().len() as u64 <= most_bytes
    }

    /// Takes a value unless there is a newer one. It was published at `published` and ends at `ends`, and the memory of it ends
    /// `removed_for` later.
    pub(super) fn offer(
        &mut self,
        (stamp, message): (Stamp, Message),
        (published, ends): (Time, Option<Time>),
        removed_for: Duration,
        now: Time,
    ) {
        let topic = message.topic_bytes();
        let newness = Newness::of(&stamp, &message);
        let (is_removal, forgotten) = (message.payload().is_empty(), Some(now + removed_for));
        let value = if is_removal {
            RetainedValue { stamp, newness, message: Some(message), published, ends: forgotten }
        } else if ends.is_none_or(|end| end > now) {
            RetainedValue { stamp, newness, message: Some(message), published, ends }
        } else {
            RetainedValue { stamp, newness, message: None, published, ends: forgotten }
        };
        if self.put(topic.clone(), value) {
            self.note(&topic);
        }
    }

    /// Takes what a former run kept, unless there is something newer. Without a message, it is the memory of a value that has ended. `ends`
    /// is when the value or the memory does.
    pub(super) fn restore(
        &mut self,
        (topic, newness): (Bytes, Newness),
        (stamp, message): (Stamp, Option<Message>),
        (published, ends): (Time, Option<Time>),
    ) {
        self.put(topic, RetainedValue { stamp, newness, message, published, ends });
    }

    /// Forgets what has ended.
    pub(super) fn expire(&mut self, removed_for: Duration, now: Time) {
        while let Some((end, topic)) = self.ends.first().filter(|(end, _)| *end <= now).cloned() {
            self.note(&topic);
            let Some(value) = self.remove(&topic).filter(RetainedValue::is_value) else { continue };
            self.insert(topic, RetainedValue { message: None, ends: Some(end + removed_for), ..value });
        }
    }

    /// Puts a value in place of an older one. Returns whether it was.
    fn put(&mut self, topic: Bytes, value: RetainedValue) -> bool {
        let is_older = |there: &RetainedValue| !value.newness.is_written_after(&there.newness);
        if self.values.get(&topic).is_some_and(is_older) && !planted(Mutant::RetainedByArrival) {
            return false;
        }
        self.remove(&topic);
        self.insert(topic, value);
        true
    }

    fn insert(&mut self, topic: Bytes, value: RetainedValue) {
        // The topic's bytes must not hold the memory of a message that is not here.
        let topic = if value.message.is_some() { topic } else { Bytes::copy_from_slice(&topic) };
        self.bytes += value.bytes();
        self.ends.extend(value.ends.map(|end| (end, topic.clone())));
        if value.message.is_some() {
            self.names.insert((value.stamp.origin, value.stamp.sequence), topic.clone());
        }
        self.values.insert(topic, value);
    }

    fn remove(&mut self, topic: &Bytes) -> Option<RetainedValue> {
        let former = self.values.remove(topic)?;
        self.bytes -= former.bytes();
        if let Some(end) = former.ends {
            self.ends.remove(&(end, topic.clone()));
        }
        if former.message.is_some() {
            self.names.remove(&(former.stamp.origin, former.stamp.sequence));
        }
        Some(former)
    }

    fn note(&mut self, topic: &[u8]) {
        if let Some(changed) = &mut self.changed
            && !changed.contains(topic)
        {
            changed.insert(Bytes::copy_from_slice(topic));
        }
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
            retained.offer(value(published, b"x"), (Time::ZERO, None), HOUR, Time::ZERO);
        }
        assert_eq!(wanted(&retained, Time::ZERO), Some(5));
        retained.offer(value(7, b""), (Time::ZERO, None), HOUR, Time::ZERO);
        retained.offer(value(6, b"x"), (Time::ZERO, None), HOUR, Time::ZERO);
        assert_eq!(wanted(&retained, Time::ZERO), None, "removed");
        retained.expire(HOUR, Time::ZERO + HOUR);
        assert!(retained.is_empty() && retained.bytes == 0 && retained.ends.is_empty());
    }

    #[test]
    fn regression_an_older_value_does_not_follow_one_whose_lifetime_ended() {
        let mut retained = Retained::default();
        let end = Time::ZERO + Duration::from_secs(1);
        retained.offer(value(5, b"x"), (Time::ZERO, Some(end)), HOUR, Time::ZERO);
        assert_eq!((wanted(&retained, Time::ZERO), wanted(&retained, end)), (Some(5), None));
        retained.expire(HOUR, end);
        retained.offer(value(4, b"x"), (Time::ZERO, None), HOUR, end);
        assert_eq!((wanted(&retained, end), retained.bytes), (None, 0));
        retained.expire(HOUR, end + HOUR);
        assert!(retained.is_empty() && retained.names.is_empty());
    }

    #[test]
    fn messages_are_found_by_their_names_until_they_go() {
        let mut retained = Retained::default();
        let all = Range { first: 1, last: 9 };
        let origin = value(1, b"x").0.origin;
        let named =
            |retained: &Retained| -> Vec<u64> { retained.named(origin, all).map(|(name, _)| name).collect() };
        retained.offer(value(3, b"x"), (Time::ZERO, None), HOUR, Time::ZERO);
        assert_eq!(named(&retained), [3]);
        retained.offer(value(4, b""), (Time::ZERO, None), HOUR, Time::ZERO);
        assert_eq!(named(&retained), [4], "what removed the value");
        let end = Time::ZERO + Duration::from_secs(1);
        retained.offer(value(5, b"x"), (Time::ZERO, Some(end)), HOUR, Time::ZERO);
        retained.expire(HOUR, end);
        assert_eq!((named(&retained), retained.len()), (vec![], 1), "the memory of one that has ended");
    }

    #[test]
    fn who_keeps_the_values_learns_of_each_change() {
        let mut retained = Retained::default();
        retained.offer(value(1, b"x"), (Time::ZERO, None), HOUR, Time::ZERO);
        assert!(!retained.has_changed(), "nobody keeps them");
        retained.track();
        assert_eq!(retained.take_changed().len(), 1, "what was there before");
        retained.offer(value(1, b"x"), (Time::ZERO, None), HOUR, Time::ZERO);
        assert!(!retained.has_changed(), "it is the same");
        let end = Time::ZERO + HOUR;
        retained.offer(value(2, b"x"), (Time::ZERO, Some(end)), HOUR, Time::ZERO);
        assert_eq!(retained.take_changed().into_iter().collect::<Vec<_>>(), [&b"t"[..]]);
        retained.expire(HOUR, end);
        assert_eq!((retained.take_changed().len(), retained.len()), (1, 1), "it has ended");
        retained.expire(HOUR, end + HOUR);
        assert_eq!((retained.take_changed().len(), retained.len()), (1, 0), "it is forgotten");
    }
}
