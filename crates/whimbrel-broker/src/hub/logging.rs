//! The log behind a channel, while the channel is durable.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::{Message, Origin, Stamp};

use super::links::Links;
use super::owed::Owed;
use super::signal::Signal;
use super::stored::Stored;
use crate::Now;
use crate::locking::lock;
use crate::store::{AppendError, Entry, Later, Log, LogSettings, Position, Ticket};

/// The most ranges of positions that are remembered as unreadable.
const MOST_UNREADABLE: usize = 1_024;

/// The condition under which the messages of a channel are kept on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Never. Durable subscriptions to it are refused.
    #[default]
    Never,
    /// While a durable subscription to it exists.
    WhenWanted,
    /// Always.
    Always,
}

/// The way in which a channel is kept on disk.
#[derive(Clone, Debug)]
pub struct DurableRules {
    /// When it is.
    pub when: Durability,
    /// The settings of its log.
    pub log: LogSettings,
    /// Whether its last values are kept on disk, be its messages or not.
    pub last_values: bool,
    /// On how many brokers' disks a message is when it is acknowledged. Default: 2 if there are peers, else 1. Never more than there
    /// are brokers.
    pub replicas: Option<usize>,
    /// The longest wait for that, after which a message is refused. Default: 10 s.
    pub acknowledge_within: Duration,
}

impl Default for DurableRules {
    fn default() -> Self {
        let (when, log) = (Durability::default(), LogSettings::default());
        Self { when, log, last_values: false, replicas: None, acknowledge_within: Duration::from_secs(10) }
    }
}

impl DurableRules {
    /// How many other brokers have to have a message, if there are so many of them.
    pub(super) fn copies(&self, peers: usize) -> usize {
        self.replicas.unwrap_or(2).saturating_sub(1).min(peers)
    }
}

/// The log behind a channel.
#[derive(Debug, Default)]
pub(super) struct Logging {
    log: OnceLock<Log>,
    is_on: AtomicBool,
    stored: Arc<Stored>,
    /// Messages of other brokers that are not on disk yet.
    later: Later,
    /// Those for which too much waited already.
    owed: Owed,
    /// The positions of messages that could not be read.
    unreadable: Mutex<Ranges>,
    /// Durable subscriptions that are attached, and links that tell what is stored.
    followers: Arc<Mutex<Links>>,
}

impl Logging {
    /// Appends to this log, which holds these messages, from now on. Call it while nobody else publishes in the channel.
    pub(super) fn begin(&self, log: Log, held: &BTreeMap<Origin, Ranges>) {
        self.stored.begin(held);
        let log = self.log.get_or_init(|| log);
        let (followers, stored) = (Arc::downgrade(&self.followers), Arc::downgrade(&self.stored));
        log.on_stored(move |names| {
            if let (Some(stored), Some(followers)) = (stored.upgrade(), followers.upgrade()) {
                stored.note(names);
                lock(&followers).wake();
            }
        });
        self.is_on.store(true, Ordering::Release);
    }

    /// Appends nothing from now on. Call it while nobody else publishes in the channel.
    pub(super) fn end(&self) {
        self.is_on.store(false, Ordering::Release);
        self.later.clear();
        self.owed.clear();
    }

    /// The log, while messages are appended to it.
    pub(super) fn log(&self) -> Option<&Log> {
        self.log.get().filter(|_| self.is_on.load(Ordering::Acquire))
    }

    /// Whether a message was stored, or none is.
    pub(super) fn has(&self, stamp: &Stamp) -> bool {
        self.log().is_none() || self.stored.has(stamp.origin, stamp.sequence)
    }

    /// Appends a message, if the channel is durable now.
    pub(super) fn append(
        &self,
        stamp: &Stamp,
        message: &Message,
        age: Duration,
        now: Now,
    ) -> Result<Option<Ticket>, AppendError> {
        let entry = |message| Entry { stamp: *stamp, arrived_ms: now.wall_ms, age, message };
        self.log().map(|log| log.append(&entry(message.clone()))).transpose()
    }

    /// Appends a message of another broker, if the channel is durable now. If too much waits for the disk, the log gets it later. Returns
    /// whether it is appended.
    pub(super) fn keep(&self, stamp: &Stamp, message: &Message, age: Duration, now: Now) -> bool {
        let Some(log) = self.log() else { return true };
        let entry = Entry { stamp: *stamp, arrived_ms: now.wall_ms, age, message: message.clone() };
        let is_kept = self.later.append(log, entry);
        if is_kept {
            self.owed.settle(stamp)
        } else {
            self.owed.note(stamp)
        }
        is_kept
    }

    /// Appends a message that came before, if it is owed to the log. Returns whether nothing is owed of it then.
    pub(super) fn pay(&self, stamp: &Stamp, message: &Message, age: Duration, now: Now) -> bool {
        !self.owed.has(stamp) || self.keep(stamp, message, age, now)
    }

    /// Whether something is owed to the log, and there is room for it.
    pub(super) fn may_pay(&self) -> bool {
        let is_able = || self.log().is_some_and(|log| log.refusal().is_none()) && self.later.has_room();
        !self.owed.is_empty() && is_able()
    }

    /// The messages that are owed to the log.
    pub(super) fn owed(&self) -> &Owed {
        &self.owed
    }

    /// Appends again what did not fit on the disk.
    pub(super) fn append_again(&self) {
        if let Some(log) = self.log() {
            self.later.again(log);
        }
    }

    /// The messages between two positions could not be read.
    pub(super) fn on_unreadable(&self, from: Position, until: Position) {
        let mut unreadable = lock(&self.unreadable);
        Range::new(from.0, until.0.saturating_sub(1)).into_iter().for_each(|range| unreadable.insert(range));
        unreadable.keep_highest(MOST_UNREADABLE);
    }

    /// How many messages could not be read since the start.
    pub(super) fn unreadable(&self) -> u64 {
        lock(&self.unreadable).count()
    }

    /// The messages that the log has.
    pub(super) fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Enters one that is woken when messages were stored. Returns its number.
    pub(super) fn follow(&self, signal: Arc<Signal>) -> u64 {
        lock(&self.followers).insert(signal)
    }

    pub(super) fn unfollow(&self, number: u64) {
        lock(&self.followers).remove(number);
    }
}
