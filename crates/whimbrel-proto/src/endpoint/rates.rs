//! Rate limits per second.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Time;

/// Limits a rate evenly over each second. In a flood it refuses a share of what arrives at any moment, and not
/// everything late in a second.
#[derive(Debug, Default)]
pub(super) struct Trickle {
    /// The time by which everything taken so far has refilled.
    until: Time,
}

impl Trickle {
    /// How far ahead of time the limit may be used.
    const AHEAD: Duration = Duration::from_millis(50);

    pub(super) fn take(&mut self, now: Time, limit: u32) -> bool {
        let granted = self.has(now, limit);
        if granted {
            self.spend(now, limit);
        }
        granted
    }

    pub(super) fn has(&self, now: Time, limit: u32) -> bool {
        limit > 0 && self.with_one_more(now, limit) <= now + Self::AHEAD.max(each(limit))
    }

    pub(super) fn spend(&mut self, now: Time, limit: u32) {
        self.until = self.with_one_more(now, limit);
    }

    fn with_one_more(&self, now: Time, limit: u32) -> Time {
        self.until.max(now) + each(limit)
    }
}

fn each(limit: u32) -> Duration {
    Duration::from_secs(1) / limit.max(1)
}

/// A limit per second for each key. Beyond [`Self::MAX_KEYS`] keys, further keys are refused.
#[derive(Debug)]
pub(super) struct RatePerKey<K> {
    second: u64,
    spent: BTreeMap<K, u32>,
}

impl<K> Default for RatePerKey<K> {
    fn default() -> Self {
        Self { second: 0, spent: BTreeMap::new() }
    }
}

impl<K: Ord> RatePerKey<K> {
    const MAX_KEYS: usize = 16_384;

    pub(super) fn take(&mut self, now: Time, key: K, limit: u32) -> bool {
        let granted = self.has(now, &key, limit);
        if granted {
            self.spend(key);
        }
        granted
    }

    pub(super) fn has(&mut self, now: Time, key: &K, limit: u32) -> bool {
        let second = now.since(Time::ZERO).as_secs();
        if second != self.second {
            self.second = second;
            self.spent.clear();
        }
        match self.spent.get(key) {
            Some(spent) => *spent < limit,
            None => limit > 0 && self.spent.len() < Self::MAX_KEYS,
        }
    }

    /// Spends one; call only after [`Self::has`] returned true.
    pub(super) fn spend(&mut self, key: K) {
        *self.spent.entry(key).or_default() += 1;
    }
}
