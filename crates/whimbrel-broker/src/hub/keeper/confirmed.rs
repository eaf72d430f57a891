//! The brokers that have a durable subscription.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::sync::watch;
use whimbrel_pubsub::message::BrokerId;

use crate::durable::Life;
use crate::locking::lock;
use crate::store::SubscriptionName;

/// The brokers that have a durable subscription on disk, each with the life that it knows.
#[derive(Debug, Default)]
pub(super) struct Confirmed {
    by: Mutex<BTreeMap<SubscriptionName, BTreeMap<BrokerId, Life>>>,
    changes: watch::Sender<()>,
}

impl Confirmed {
    /// A broker has it.
    pub(super) fn note(&self, name: &SubscriptionName, by: BrokerId, life: Life) {
        lock(&self.by).entry(name.clone()).or_default().insert(by, life);
        self.changes.send_replace(());
    }

    /// It was ended.
    pub(super) fn forget(&self, name: &SubscriptionName) {
        lock(&self.by).remove(name);
    }

    /// Learns of changes.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Those of `brokers` that do not have it in this life.
    pub(super) fn without(&self, name: &SubscriptionName, life: Life, brokers: &[BrokerId]) -> Vec<BrokerId> {
        self.which(name, brokers, |known| !known.is_same(life))
    }

    /// Those of `brokers` that do not know this generation of it.
    pub(super) fn behind(&self, name: &SubscriptionName, life: Life, brokers: &[BrokerId]) -> Vec<BrokerId> {
        self.which(name, brokers, |known| !known.is_same(life) || known.generation < life.generation)
    }

    fn which(
        &self,
        name: &SubscriptionName,
        brokers: &[BrokerId],
        is_one: impl Fn(Life) -> bool,
    ) -> Vec<BrokerId> {
        let by = lock(&self.by);
        let by = by.get(name);
        let known = |broker| by.and_then(|by| by.get(broker)).copied();
        brokers.iter().filter(|broker| known(broker).is_none_or(&is_one)).copied().collect()
    }
}
