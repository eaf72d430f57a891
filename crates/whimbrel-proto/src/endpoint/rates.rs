//! How much of a kind is done in a second.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Time;

/// So many a second, evenly: what is refused in a flood is a share of what comes at any time, and not all of what comes late in a second.
#[derive(Debug, Default)]
pub(super) struct Trickle {
    /// What was taken is paid for by then.
    until: Time,
}

impl Trickle {
    /// Taken ahead of time at most.
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

/// So many a second for each key; keys beyond a bound share what is left by being refused.
#[derive(Debug)]
pub(super) struct Budget<K> {
    second: u64,
    spent: BTreeMap<K, u32>,
}

impl<K> Default for Budget<K> {
    fn default() -> Self {
        Self { second: 0, spent: BTreeMap::new() }
    }
}

impl<K: Ord> Budget<K> {
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

    /// Only after it was said that there is some.
    pub(super) fn spend(&mut self, key: K) {
        *self.spent.entry(key).or_default() += 1;
    }
}
