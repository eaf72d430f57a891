//! Links to other brokers that wait for what is published here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::signal::Signal;

#[derive(Debug, Default)]
pub(super) struct Links {
    signals: BTreeMap<u64, Arc<Signal>>,
    last: u64,
}

impl Links {
    /// Enters one. Returns its number.
    pub(super) fn insert(&mut self, signal: Arc<Signal>) -> u64 {
        self.last += 1;
        self.signals.insert(self.last, signal);
        self.last
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.signals.remove(&number);
    }

    pub(super) fn wake(&self) {
        self.signals.values().for_each(|signal| signal.wake());
    }
}
