//! The traffic with one other broker, over all its sessions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use whimbrel::PublicKey;
use whimbrel_pubsub::message::ChannelId;

use super::standing::Standing;
use crate::hub::Rate;

/// The traffic with a broker. It goes on counting when a session takes another's place.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) key: PublicKey,
    pub(super) standing: Standing,
    sent: AtomicU64,
    received: AtomicU64,
    pub(super) sent_rate: Rate,
    pub(super) received_rate: Rate,
    /// The next own sequence that goes to it, of each channel.
    next: Mutex<Vec<(ChannelId, u64)>>,
}

impl Traffic {
    pub(super) fn with(key: PublicKey) -> Self {
        let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
        let (sent_rate, received_rate) = (Rate::default(), Rate::default());
        let (standing, next) = (Standing::default(), Mutex::default());
        Self { key, standing, sent, received, sent_rate, received_rate, next }
    }

    /// Counts messages that went to the broker, and records the own sequences that are next.
    pub(super) fn on_sent(&self, messages: usize, next: &[(ChannelId, u64)]) {
        self.sent.fetch_add(messages as u64, Ordering::Relaxed);
        let mut own = self.next();
        own.clear();
        own.extend_from_slice(next);
    }

    /// Counts messages that came from it.
    pub(super) fn on_received(&self, messages: usize) {
        self.received.fetch_add(messages as u64, Ordering::Relaxed);
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// The last own sequence that went to it, of each channel.
    pub(super) fn last_sent(&self) -> Vec<(ChannelId, u64)> {
        self.next().iter().map(|(channel, next)| (*channel, next.saturating_sub(1))).collect()
    }

    /// The number of own messages that have yet to go to it, if channels end there.
    pub(super) fn behind(&self, highest: impl Fn(ChannelId) -> u64) -> u64 {
        let next = self.next();
        next.iter().map(|(channel, next)| (highest(*channel) + 1).saturating_sub(*next)).sum()
    }

    pub(super) fn look(&self, elapsed: Duration) {
        self.sent_rate.look(self.sent(), elapsed);
        self.received_rate.look(self.received(), elapsed);
    }

    fn next(&self) -> MutexGuard<'_, Vec<(ChannelId, u64)>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
