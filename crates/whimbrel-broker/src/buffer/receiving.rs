//! Messages that enter here, or come from other brokers.

use std::time::Duration;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::{Hlc, LAST_SEQUENCE, Message, Stamp};

use super::channel::Channel;
use super::hybrid::LATEST;
use super::newer::Newness;
use super::origins::Origins;
use super::places::LogIndex;
use super::policy::Facts;
use super::refusal::Refusal;
use super::slots::Slot;
use crate::mutants::{Mutant, planted};
use crate::{Now, Time};

/// The fate of a message that was published here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It was taken, under this name.
    Taken(Stamp),
    /// It had been published before, under this name.
    Repeated(Stamp),
}

/// The fate of a message from another broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It was taken.
    Taken,
    /// It is here already, or was.
    Known,
}

impl Channel {
    /// Takes a message that a publisher sent to this broker.
    ///
    /// # Errors
    /// It has to be retained and there is no room, or the origin has no sequence left. Nothing is changed then.
    pub fn publish(&mut self, message: Message, now: Now) -> Result<Published, Refusal> {
        self.publish_if(message, now, |_| Ok(()))
    }

    /// Takes a message as [`Channel::publish`] does, if `keep` keeps it under the name that it gets.
    ///
    /// # Errors
    /// As there, or `keep` fails. Nothing is changed then.
    pub fn publish_if<E: From<Refusal>>(
        &mut self,
        message: Message,
        now: Now,
        keep: impl FnOnce(&Stamp) -> Result<(), E>,
    ) -> Result<Published, E> {
        if let Some(former) =
            message.publication().and_then(|publication| self.publications.find(publication))
            && !planted(Mutant::RepeatedTakenHere)
        {
            return Ok(Published::Repeated(*former));
        }
        self.check_retained(&message)?;
        let sequence = self.origins.at(Origins::OWN).map_or(0, |log| log.highest()) + 1;
        if sequence > LAST_SEQUENCE {
            return Err(Refusal::Exhausted.into());
        }
        let partition = self.partition_of(&message);
        let ordinal = self.ordinals[usize::from(partition.0)] + 1;
        let published = self.clock.tick_after(self.replaced(&message), now.wall_ms);
        let stamp = Stamp { origin: self.own, sequence, partition, ordinal, published };
        keep(&stamp)?;
        self.ordinals[usize::from(partition.0)] = ordinal;
        if let Some(publication) = message.publication() {
            self.publications.note(publication, stamp);
        }
        self.retain(stamp, &message, Duration::ZERO, now);
        self.store(Origins::OWN, stamp, message, Duration::ZERO, now);
        Ok(Published::Taken(stamp))
    }

    /// Has the next messages published after `former`, the time of the last message that their publisher had acknowledged. So a
    /// publisher's later values are later everywhere, whatever the clocks of the brokers are that it comes to.
    pub fn follow(&mut self, former: Hlc, now: Now) {
        self.clock.observe(former, now.wall_ms);
    }

    /// Takes a message of another broker, which is `age` old by that broker's monotonic clock.
    ///
    /// # Errors
    /// The message cannot be one of this channel's.
    pub fn receive(
        &mut self,
        stamp: Stamp,
        message: Message,
        age: Duration,
        now: Now,
    ) -> Result<Received, Refusal> {
        let received = self.take(stamp, &message, age, now)?;
        if received == Received::Taken {
            self.retain(stamp, &message, age, now);
        }
        Ok(received)
    }

    /// Takes a message of another broker, or of a former run, as [`Channel::receive`] does, but not as a last value.
    pub(super) fn take(
        &mut self,
        stamp: Stamp,
        message: &Message,
        age: Duration,
        now: Now,
    ) -> Result<Received, Refusal> {
        if usize::from(stamp.partition.0) >= self.partitions.len() {
            return Err(Refusal::Partition(stamp.partition));
        }
        if stamp.published > LATEST {
            return Err(Refusal::TooLate(stamp.published));
        }
        let index = self.index_for(&stamp, now.time)?;
        let Some(log) = self.origins.at(index) else { return Err(Refusal::TooManyOrigins) };
        if log.received.contains(stamp.sequence) {
            return Ok(Received::Known);
        }
        if stamp.origin == self.own {
            return Err(Refusal::NotPublishedHere);
        }
        self.clock.observe(stamp.published, now.wall_ms);
        if let Some(publication) = message.publication()
            && !planted(Mutant::RepeatedTakenAfterFailOver)
        {
            self.publications.note(publication, stamp);
        }
        self.store(index, stamp, message.clone(), age, now);
        Ok(Received::Taken)
    }

    fn index_for(&mut self, stamp: &Stamp, now: Time) -> Result<LogIndex, Refusal> {
        let origin = stamp.origin;
        let is_configured = origin.broker == self.own.broker || self.settings.may_be_origin(origin.broker);
        if !is_configured || !(1..=LAST_SEQUENCE).contains(&stamp.sequence) {
            return Err(Refusal::Stranger(origin));
        }
        if self.origins.entry(origin, &self.settings, now).is_none() {
            self.give_up_for(stamp)?;
            self.origins.entry(origin, &self.settings, now).ok_or(Refusal::TooManyOrigins)?;
        }
        self.origins.index_of(origin).ok_or(Refusal::TooManyOrigins)
    }

    /// When what a message replaces was published: the last value of its topic, and the newest message with its key. Whatever the clocks
    /// say, what is published here comes after what is known here. Everybody else then finds the same, by the times alone.
    fn replaced(&self, message: &Message) -> Option<Hlc> {
        let value = self.retained.find(&message.topic_bytes()).filter(|_| message.is_retained());
        let of_key = self.newest(message).map(|(_, slot)| slot.stamp.published);
        value.map(|value| value.stamp.published).into_iter().chain(of_key).max()
    }

    pub(super) fn check_retained(&self, message: &Message) -> Result<(), Refusal> {
        let settings = &self.settings;
        if message.is_retained()
            && !self.retained.has_room(message, settings.most_retained, settings.most_retained_bytes)
        {
            return Err(Refusal::Retained);
        }
        Ok(())
    }

    /// Takes a message as the last value of its topic, if it is to be one.
    fn retain(&mut self, stamp: Stamp, message: &Message, age: Duration, now: Now) {
        if !message.is_retained() {
            return;
        }
        self.expire(now.time);
        if self.check_retained(message).is_ok() {
            let ends = message.lifetime().map(|lifetime| now.time + lifetime.saturating_sub(age));
            let times = (now.time.before(age), ends);
            self.retained.offer((stamp, message.clone()), times, self.settings.removed_for, now.time);
        }
    }

    fn store(&mut self, index: LogIndex, stamp: Stamp, message: Message, age: Duration, now: Now) {
        self.expire(now.time);
        let published = now.time.before(age);
        let wanted_until = message.lifetime().map(|lifetime| now.time + lifetime.saturating_sub(age));
        let Some(log) = self.origins.at_mut(index) else { return };
        log.receive(stamp.sequence, stamp.partition, now.time);
        if log.give_up().is_some() {
            self.losses += 1;
        }
        if wanted_until.is_some_and(|end| end <= now.time) {
            log.tally.expire(stamp.sequence);
            return;
        }
        let partition = &mut self.partitions[usize::from(stamp.partition.0)];
        let held_until = partition.settings.size.age.map(|bound| now.time + bound.saturating_sub(age));
        // What claims to come from the future is no newer than what comes now.
        let order = stamp.published.min(self.clock.reading(now.wall_ms)).0;
        let order = if planted(Mutant::FilledOverwritesNew) { self.arrivals.end() } else { order };
        let facts = Facts {
            slot: self.slots.next(),
            order,
            index: message.index().number(),
            bytes: message.encoded().len() as u64,
        };
        log.held.insert(stamp.sequence, facts.slot);
        self.newest.offer(&message, facts.slot, Newness::of(&stamp, &message));
        let arrival = self.arrivals.end();
        self.arrivals.push(index, stamp.sequence, facts.slot);
        let is_by_rule = partition.settings.rule.picks(&message);
        let slot = Slot {
            message,
            stamp,
            log: index,
            arrival,
            published,
            wanted_until,
            held_until,
            facts,
            is_by_rule,
        };
        self.ends.extend(slot.ends().map(|end| (end, facts.slot)));
        self.slots.insert(slot);
        partition.take(&facts, now.time);
        self.overwrite(stamp.partition, now.time);
    }

    /// Notes that `ranges` of an origin came here in a former run, whether they are held or not.
    pub fn remember(&mut self, origin: whimbrel_pubsub::message::Origin, ranges: &Ranges, now: Time) {
        // One origin too many is asked for again, and then received again.
        let Some(log) = self.origins.entry(origin, &self.settings, now) else { return };
        for range in ranges.iter() {
            log.remember(range, now);
        }
    }

    /// Whether all of `range` of an own or another origin came here; for tests and status.
    pub fn has_received(&self, origin: whimbrel_pubsub::message::Origin, range: Range) -> bool {
        self.log_of(origin).is_some_and(|(_, log)| log.received.covers(range))
    }
}
