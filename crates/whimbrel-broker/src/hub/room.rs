//! A channel that several threads use.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Hlc, Message, Origin, PartitionId, Stamp};
use whimbrel_pubsub::topic::TopicFilter;

use crate::buffer::{self, Channel, ChannelSettings, Figures, Published, Reach, Received};
use crate::selection::{PartitionRule, Selection};
use crate::{Now, Time};

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
    /// How it is buffered.
    pub settings: ChannelSettings,
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
        }
    }
}

/// A channel.
#[derive(Debug)]
pub(super) struct Room {
    rules: ChannelRules,
    channel: RwLock<Channel>,
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
    /// The partitions.
    pub partitions: Vec<Figures>,
    /// The age of the oldest message of each, if it is known.
    pub oldest: Vec<Option<Duration>>,
}

impl Room {
    pub(super) fn new(rules: ChannelRules, own: Origin, now: Time) -> Self {
        let smallest = rules.settings.partitions.iter().map(|partition| partition.size.messages).min();
        let turn = (smallest.unwrap_or(0) / TURNS).max(1);
        let channel = RwLock::new(Channel::new(rules.settings.clone(), own, now));
        Self { rules, channel, turn, since_turn: AtomicU64::new(0) }
    }

    pub(super) fn id(&self) -> ChannelId {
        self.rules.settings.id
    }

    /// The other brokers of the cluster.
    pub(super) fn peers(&self) -> &[BrokerId] {
        &self.rules.settings.peers
    }

    /// Whether messages of this topic belong to it.
    pub(super) fn has(&self, topic: &str) -> bool {
        self.rules.topics.iter().any(|filter| filter.matches_text(topic))
    }

    /// Whether messages of a selection may belong to it.
    pub(super) fn may_have(&self, selection: &Selection) -> bool {
        self.rules.topics.iter().any(|filter| filter.overlaps(selection.filter()))
    }

    /// How much of each partition a selection reaches.
    pub(super) fn reach(&self, selection: &Selection) -> Vec<Reach> {
        self.rules.partitions.iter().map(|rule| selection.reach(rule)).collect()
    }

    pub(super) fn publish(&self, message: Message, now: Now) -> Result<Published, Refusal> {
        let published = self.write().publish(message, now).map_err(|refused| {
            let code = match refused {
                buffer::Refusal::Retained => RefusalCode::Limit,
                _ => RefusalCode::Unavailable,
            };
            Refusal::new(code, refused)
        })?;
        self.since_turn.fetch_add(1, Ordering::Relaxed);
        Ok(published)
    }

    pub(super) fn receive(
        &self,
        stamp: Stamp,
        message: Message,
        age: Duration,
        now: Now,
    ) -> Result<Received, buffer::Refusal> {
        let received = self.write().receive(stamp, message, age, now)?;
        if received == Received::Taken {
            self.since_turn.fetch_add(1, Ordering::Relaxed);
        }
        Ok(received)
    }

    /// The highest own sequence.
    pub(super) fn own_highest(&self) -> u64 {
        let channel = self.read();
        channel.log_of(channel.own()).map_or(0, |(_, log)| log.highest())
    }

    /// How often messages were given up that no broker has.
    pub(super) fn losses(&self) -> u64 {
        self.read().losses()
    }

    pub(super) fn follow(&self, former: Hlc, now: Now) {
        self.write().follow(former, now);
    }

    pub(super) fn expire(&self, now: Time) {
        self.write().expire(now);
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
