//! Counts and rates that others read while they grow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A count that one task makes. Adding costs what adding to a plain number costs.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds to it. Only the task that owns the count may do so: the sum of another one could be lost.
    #[inline]
    pub(crate) fn add(&self, number: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(number), Ordering::Relaxed);
    }

    /// Replaces it.
    #[inline]
    pub(crate) fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    /// Returns it.
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The span over which a rate is averaged.
const SPAN: Duration = Duration::from_secs(5);

/// How fast a count grows, averaged over some seconds.
#[derive(Debug, Default)]
pub(crate) struct Rate(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: u64,
    per_second: f64,
}

impl Rate {
    /// Learns of the count, `elapsed` after the last time.
    pub(crate) fn look(&self, count: u64, elapsed: Duration) {
        let mut inner = self.inner();
        let new = count.saturating_sub(std::mem::replace(&mut inner.count, count)) as f64;
        let seconds = elapsed.as_secs_f64();
        if seconds > 0.0 {
            let weight = 1.0 - (-seconds / SPAN.as_secs_f64()).exp();
            inner.per_second += (new / seconds - inner.per_second) * weight;
        }
    }

    /// Returns the rate, for each second.
    pub(crate) fn per_second(&self) -> f64 {
        self.inner().per_second
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_count_has_its_rate_and_one_that_stands_still_none() {
        let (rate, second) = (Rate::default(), Duration::from_secs(1));
        (1..=60).for_each(|at| rate.look(at * 250, second));
        assert!((rate.per_second() - 250.0).abs() < 0.1, "{rate:?}");
        // Nothing is learned from no time.
        rate.look(60 * 250, Duration::ZERO);
        assert!((rate.per_second() - 250.0).abs() < 0.1, "{rate:?}");
        (0..60).for_each(|_| rate.look(60 * 250, second));
        assert!(rate.per_second() < 0.1, "{rate:?}");
    }
}
