//! The log behind a channel, while the channel is durable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use whimbrel_pubsub::message::{Message, Stamp};

use super::links::Links;
use super::signal::Signal;
use crate::Now;
use crate::store::{AppendError, Entry, Log, LogSettings, Ticket};

/// When the messages of a channel are kept on disk.
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

/// How a channel is kept on disk.
#[derive(Clone, Debug, Default)]
pub struct DurableRules {
    /// When it is.
    pub when: Durability,
    /// The settings of its log.
    pub log: LogSettings,
}

/// The log behind a channel.
#[derive(Debug, Default)]
pub(super) struct Logging {
    log: OnceLock<Log>,
    is_on: AtomicBool,
    /// Durable subscriptions that are attached.
    followers: Arc<Mutex<Links>>,
}

impl Logging {
    /// Appends to this log from now on. Call it while nobody else publishes in the channel.
    pub(super) fn begin(&self, log: Log) {
        let log = self.log.get_or_init(|| log);
        let followers = Arc::downgrade(&self.followers);
        log.on_stored(move || {
            if let Some(followers) = followers.upgrade() {
                lock(&followers).wake();
            }
        });
        self.is_on.store(true, Ordering::Release);
    }

    /// Appends nothing from now on. Call it while nobody else publishes in the channel.
    pub(super) fn end(&self) {
        self.is_on.store(false, Ordering::Release);
    }

    /// The log, while messages are appended to it.
    pub(super) fn log(&self) -> Option<&Log> {
        self.log.get().filter(|_| self.is_on.load(Ordering::Acquire))
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

    /// Enters a subscription that is woken when messages were stored. Returns its number.
    pub(super) fn follow(&self, signal: Arc<Signal>) -> u64 {
        lock(&self.followers).insert(signal)
    }

    pub(super) fn unfollow(&self, number: u64) {
        lock(&self.followers).remove(number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
