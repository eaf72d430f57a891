//! A channel that several threads use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use whimbrel_pubsub::coverage::Ranges;
use whimbrel_pubsub::message::{BrokerId, ChannelId, Hlc, Message, Origin, PartitionId, Stamp};
use whimbrel_pubsub::topic::TopicFilter;

use super::copying::Copying;
use super::last_values::{Found, LastValues};
use super::logging::{Durability, DurableRules, Logging};
use super::members::Members;
use super::storing::{NotTaken, Storing};
use crate::buffer::{self, Channel, ChannelSettings, Figures, Published, Reach, Received};
use crate::selection::{PartitionRule, Selection};
use crate::store::{Entry, Log, LogSettings, MetaError, Store};
use crate::{Now, Time};

/// It is noted how far in the log the last values are whenever there are so many parts of a buffer more. A start reads the log from there.
const NOTED: u64 = 4;
/// All subscriptions read on once in so many arrivals of the smallest partition's size.
const TURNS: u64 = 8;

/// A channel as it is configured.
#[derive(Clone, Debug)]
pub struct ChannelRules {
    /// Its human-readable name.
    pub name: String,
    /// The topics that belong to it.
    pub topics: Vec<TopicFilter>,
    /// The rules of its partitions, in the order of the settings.
    pub partitions: Vec<PartitionRule>,
    /// Its buffer settings.
    pub settings: ChannelSettings,
    /// The way in which it is kept on disk.
    pub durable: DurableRules,
}

impl ChannelRules {
    /// One channel for all topics, with the defaults.
    pub fn all_topics() -> Self {
        let all: TopicFilter = match "#".parse() {
            Ok(filter) => filter,
            Err(_) => unreachable!("# is a filter"),
        };
        Self {
            name: "all".to_owned(),
            topics: vec![all.clone()],
            partitions: vec![PartitionRule::new(all, None)],
            settings: ChannelSettings::new(ChannelId(0)),
            durable: DurableRules {
                when: Durability::WhenWanted,
                last_values: true,
                ..DurableRules::default()
            },
        }
    }
}

/// A channel.
#[derive(Debug)]
pub(super) struct Room {
    rules: ChannelRules,
    channel: RwLock<Channel>,
    logging: Logging,
    copying: Arc<Copying>,
    values: LastValues,
    /// Arrivals between two turns in which all subscriptions read on.
    turn: u64,
    /// Arrivals since the last.
    since_turn: AtomicU64,
}

/// A report on one channel: its counts, and the figures of its partitions.
#[derive(Clone, Debug)]
pub struct RoomReport {
    /// Its id.
    pub id: ChannelId,
    /// Its human-readable name.
    pub name: String,
    /// The number of messages that arrived so far.
    pub arrived: u64,
    /// The number of last values.
    pub retained: usize,
    /// Messages that other brokers have, and that did not come here.
    pub missing: u64,
    /// The number of times the messages of a broker's run were given up, since there were too many runs.
    pub runs_given_up: u64,
    /// The partitions.
    pub partitions: Vec<Figures>,
    /// The age of the oldest message of each, if it is known.
    pub oldest: Vec<Option<Duration>>,
}

impl Room {
    pub(super) fn new(rules: ChannelRules, own: Origin, members: Arc<Members>, now: Time) -> Self {
        let smallest = rules.settings.partitions.iter().map(|partition| partition.size.messages).min();
        let turn = (smallest.unwrap_or(0) / TURNS).max(1);
        let channel = RwLock::new(Channel::new(rules.settings.clone(), own, now));
        let (durable, peers) = (&rules.durable, &rules.settings.peers);
        let bounds = (durable.copies(peers.len()), durable.acknowledge_within);
        let copying = Arc::new(Copying::new(own, peers, bounds, members));
        let values = LastValues::new(durable.last_values);
        let (logging, since_turn) = (Logging::default(), AtomicU64::new(0));
        Self { rules, channel, logging, copying, values, turn, since_turn }
    }

    pub(super) fn id(&self) -> ChannelId {
        self.rules.settings.id
    }

    /// The channel as it is configured.
    pub(super) fn rules(&self) -> &ChannelRules {
        &self.rules
    }

    /// The other brokers that carry it.
    pub(super) fn peers(&self) -> Vec<BrokerId> {
        self.read().settings().peers.clone()
    }

    /// Those of them that are configured: they take part in keeping it on disk. Over NATS, none is.
    pub(super) fn configured_peers(&self) -> Vec<BrokerId> {
        let mut peers = self.peers();
        peers.retain(|peer| self.rules.settings.peers.contains(peer));
        peers
    }

    /// Whether messages of this topic belong to it.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.rules.topics.iter().any(|filter| filter.matches_text(topic))
    }

    /// Whether messages of a selection may belong to it.
    pub(super) fn may_have(&self, selection: &Selection) -> bool {
        self.rules.topics.iter().any(|filter| filter.overlaps(selection.filter()))
    }

    /// Whether all topics of a filter belong to it, unless an earlier channel has them.
    pub(super) fn has_all(&self, filter: &TopicFilter) -> bool {
        self.rules.topics.iter().any(|own| own.covers(filter))
    }

    /// How much of each partition a selection reaches.
    pub(super) fn reach(&self, selection: &Selection) -> Vec<Reach> {
        self.rules.partitions.iter().map(|rule| selection.reach(rule)).collect()
    }

    /// Takes a message that is published here. In a durable channel it is also appended to the log, in the order of sequences.
    pub(super) fn publish(&self, message: Message, now: Now) -> Result<(Published, Storing), NotTaken> {
        self.values.check(&message).map_err(NotTaken::Refused)?;
        let log = self.logging.log();
        if log.is_some() {
            self.copying.check().map_err(NotTaken::Busy)?;
        }
        let mut ticket = None;
        let keep = |stamp: &Stamp| {
            let appended = self.logging.append(stamp, &message, Duration::ZERO, now);
            ticket = appended.map_err(|error| NotTaken::of(&error))?;
            Ok(())
        };
        let publish = |channel: &mut Channel| channel.publish_if::<NotTaken>(message.clone(), now, keep);
        let published = self.change(now, publish)?;
        let (Published::Taken(stamp) | Published::Repeated(stamp)) = published;
        if matches!(published, Published::Repeated(_)) && !self.logging.has(&stamp) {
            // Its first append may have failed, or may still wait: one copy too many is better than none.
            let again = self.logging.append(&stamp, &message, Duration::ZERO, now);
            ticket = again.map_err(|error| NotTaken::of(&error))?;
        }
        let copied = log.and_then(|_| self.copying.wait(&stamp));
        self.since_turn.fetch_add(1, Ordering::Relaxed);
        Ok((published, Storing::of(ticket, copied)))
    }

    /// When it is kept on disk.
    pub(super) fn durability(&self) -> Durability {
        self.rules.durable.when
    }

    /// The settings of its log.
    pub(super) fn log_settings(&self) -> &LogSettings {
        &self.rules.durable.log
    }

    /// Its human-readable name.
    pub(super) fn name(&self) -> &str {
        &self.rules.name
    }

    /// The log behind it.
    pub(super) fn logging(&self) -> &Logging {
        &self.logging
    }

    /// The copies of its messages at other brokers.
    pub(super) fn copying(&self) -> &Copying {
        &self.copying
    }

    /// Appends to `log`, which holds these messages, from now on. Returns the highest sequence of each origin that came before.
    pub(super) fn begin_logging(&self, log: Log, held: &BTreeMap<Origin, Ranges>) -> Vec<(Origin, u64)> {
        let channel = self.write();
        let end = log.end();
        self.logging.begin(log, held);
        // What was not logged meanwhile is among the values all the same.
        self.values.note_until(self.id(), end, 0);
        channel.heads()
    }

    /// Whether its last values are to be kept on disk.
    pub(super) fn keeps_values(&self) -> bool {
        self.values.are_wanted()
    }

    /// Whether its last values are to be kept on disk, and are not yet.
    pub(super) fn has_values_waiting(&self) -> bool {
        self.values.are_waiting()
    }

    /// Keeps its last values in this store from now on, and takes those that are there.
    pub(super) fn begin_values(&self, store: &Arc<Store>, now: Now) -> Result<Found, MetaError> {
        self.values.begin(&mut self.write(), store, now)
    }

    /// Appends nothing from now on.
    pub(super) fn end_logging(&self) {
        let _nobody_publishes = self.write();
        self.logging.end();
    }

    /// Takes a message that was stored in a former run. With `is_news`, it may be a last value that was not kept as such.
    pub(super) fn restore(&self, entry: Entry, is_news: bool, now: Now) {
        let Entry { stamp, arrived_ms, age, message } = entry;
        let since = Duration::from_millis(now.wall_ms.saturating_sub(arrived_ms));
        let age = age.saturating_add(since);
        let take = |channel: &mut Channel| match is_news {
            true => channel.receive(stamp, message, age, now),
            false => channel.restore(stamp, &message, age, now),
        };
        // The channel may be organised otherwise since; the log has the message all the same.
        self.change(now, take).ok();
    }

    pub(super) fn receive(
        &self,
        stamp: Stamp,
        message: Message,
        age: Duration,
        now: Now,
    ) -> Result<Received, buffer::Refusal> {
        // What waits to be written has a bound. It is asked for again.
        if self.values.check(&message).is_err() {
            return Err(buffer::Refusal::Retained);
        }
        let receive = |channel: &mut Channel| {
            let received = channel.receive(stamp, message.clone(), age, now)?;
            match received {
                // A full disk keeps nobody from getting it live.
                Received::Taken => {
                    self.logging.keep(&stamp, &message, age, now);
                    self.since_turn.fetch_add(1, Ordering::Relaxed);
                }
                Received::Known => {
                    self.logging.pay(&stamp, &message, age, now);
                }
            }
            Ok(received)
        };
        self.change(now, receive)
    }

    /// The number of messages that its buffer holds at most.
    pub(super) fn buffered(&self) -> u64 {
        let partitions = self.rules.settings.partitions.iter();
        partitions.fold(0, |sum, partition| sum.saturating_add(partition.size.messages))
    }

    /// Whether no other broker can carry it.
    pub(super) fn is_alone(&self) -> bool {
        self.rules.settings.peers.is_empty() && !self.rules.settings.takes_strangers
    }

    /// This run of this broker.
    pub(super) fn own(&self) -> Origin {
        self.read().own()
    }

    /// The highest own sequence.
    pub(super) fn own_highest(&self) -> u64 {
        let channel = self.read();
        channel.log_of(channel.own()).map_or(0, |(_, log)| log.highest())
    }

    /// Returns the number of messages given up because no broker has them.
    pub(super) fn losses(&self) -> u64 {
        self.read().losses()
    }

    pub(super) fn follow(&self, former: Hlc, now: Now) {
        self.write().follow(former, now);
    }

    pub(super) fn expire(&self, now: Now) {
        let mut channel = self.write();
        channel.expire(now.time);
        self.values.keep(&mut channel, now);
        if let Some(log) = self.logging.log() {
            self.values.note_until(self.id(), log.end(), (self.buffered() / NOTED).max(1));
        }
    }

    /// Changes the channel, and has the last values kept that change with it.
    fn change<T>(&self, now: Now, change: impl FnOnce(&mut Channel) -> T) -> T {
        let mut channel = self.write();
        let done = change(&mut channel);
        self.values.keep(&mut channel, now);
        done
    }

    /// Begins another turn, in which all subscriptions read on, if one is over. Returns whether it was.
    pub(super) fn turn_over(&self) -> bool {
        let is_over = self.since_turn.load(Ordering::Relaxed) >= self.turn;
        if is_over {
            self.since_turn.store(0, Ordering::Relaxed);
        }
        is_over
    }

    pub(super) fn report(&self, now: Time) -> RoomReport {
        let channel = self.read();
        let partitions =
            (0..self.rules.partitions.len()).filter_map(|at| channel.figures(PartitionId(at as u8)));
        let missing = channel.logs().flat_map(|(_, log)| log.missing()).map(|range| range.count());
        RoomReport {
            id: self.id(),
            name: self.rules.name.clone(),
            arrived: channel.end(),
            retained: channel.retained().len(),
            missing: missing.fold(0, u64::saturating_add),
            runs_given_up: channel.runs_given_up(),
            partitions: partitions.collect(),
            oldest: channel.oldest(now),
        }
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Channel> {
        self.channel.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Channel> {
        self.channel.write().unwrap_or_else(PoisonError::into_inner)
    }
}
