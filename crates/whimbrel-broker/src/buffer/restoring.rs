//! Messages and last values that a former run of the broker kept.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_pubsub::message::{Message, Stamp};

use super::channel::Channel;
use super::newer::Newness;
use super::receiving::Received;
use super::refusal::Refusal;
use super::retained::RetainedValue;
use crate::Now;

/// The fate of a last value that a former run kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It is taken, unless something newer is here.
    Taken,
    /// Nobody need remember it any more.
    Over,
    /// There is no room for it.
    NoRoom,
}

impl Channel {
    /// Takes a message that was stored in a former run, but not as a last value: these are known otherwise.
    ///
    /// # Errors
    /// As for [`Channel::receive`].
    pub fn restore(
        &mut self,
        stamp: Stamp,
        message: &Message,
        age: Duration,
        now: Now,
    ) -> Result<Received, Refusal> {
        self.take(stamp, message, age, now)
    }

    /// Takes a last value that a former run kept. It arrived `since` ago, and was `age` old then. A message that is not to be retained is the
    /// memory of a value that ended when it arrived.
    pub fn restore_value(
        &mut self,
        stamp: Stamp,
        message: Message,
        (since, age): (Duration, Duration),
        now: Now,
    ) -> Restored {
        self.expire(now.time);
        let arrived = now.time.before(since);
        let ends = message.lifetime().map(|lifetime| arrived + lifetime.saturating_sub(age));
        let ended = match ends {
            _ if message.payload().is_empty() || !message.is_retained() => Some(arrived),
            ends => ends.filter(|end| *end <= now.time),
        };
        let forgotten = ended.map(|ended| ended + self.settings.removed_for);
        if forgotten.is_some_and(|forgotten| forgotten <= now.time) {
            return Restored::Over;
        }
        let settings = &self.settings;
        if !self.retained.has_room(&message, settings.most_retained, settings.most_retained_bytes) {
            return Restored::NoRoom;
        }
        let is_here = message.is_retained() && (ended.is_none() || message.payload().is_empty());
        let of_topic = (message.topic_bytes(), Newness::of(&stamp, &message));
        let kept = (stamp, is_here.then(|| message.clone()));
        self.retained.restore(of_topic, kept, (arrived.before(age), forgotten.or(ends)));
        if message.is_retained() {
            self.restore_writer(stamp, &message, age.saturating_add(since), now);
        }
        Restored::Taken
    }

    /// Takes the message that wrote a last value: it came here in a former run, and others may ask for it.
    fn restore_writer(&mut self, stamp: Stamp, message: &Message, age: Duration, now: Now) {
        let is_remnant = self.log_of(stamp.origin).is_none_or(|(_, log)| log.is_remnant());
        // It may be of a broker or a partition that the channel has no more. The value counts all the same.
        if self.restore(stamp, message, age, now) == Ok(Received::Taken)
            && let Some(log) = self.origins.find_mut(stamp.origin).filter(|_| is_remnant)
        {
            log.note_remnant();
        }
    }

    /// All that a former run kept is here. Without other brokers, nobody has what else it published.
    pub fn end_restoring(&mut self) {
        if self.settings.takes_strangers || !self.settings.peers.is_empty() {
            return;
        }
        for log in self.origins.iter_mut().filter(|log| log.is_missing_any()) {
            log.lose_missing();
            self.losses += 1;
        }
    }

    /// Notes from now on which last values change, for whoever keeps them. All that are here count as changed.
    pub fn track_values(&mut self) {
        self.retained.track();
    }

    /// Whether last values have changed since they were taken.
    pub fn has_changed_values(&self) -> bool {
        self.retained.has_changed()
    }

    /// Takes the topics whose last values have changed, each with its value as it is now; `None` if nothing is remembered of it.
    pub fn take_changed_values(&mut self) -> Vec<(Bytes, Option<&RetainedValue>)> {
        let changed = self.retained.take_changed().into_iter();
        changed.map(|topic| (topic.clone(), self.retained.find(&topic))).collect()
    }
}
