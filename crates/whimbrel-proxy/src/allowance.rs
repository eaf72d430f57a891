//! The rate at which a peer may have something sent, as a bucket without a clock.

use std::time::{Duration, Instant};

/// A bucket that fills with time.
#[derive(Debug)]
pub(crate) struct Allowance {
    per_second: u32,
    /// Since when it has been filling, if it is not full.
    empty_at: Option<Instant>,
}

impl Allowance {
    /// Creates an allowance of this many a second, and as many at once after a second without any.
    pub(crate) fn new(per_second: u32) -> Self {
        Self { per_second, empty_at: None }
    }

    /// Takes one out. Returns whether there was one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let each = Duration::from_secs(1) / self.per_second;
        // What is older than a second overflows.
        let full = now.checked_sub(Duration::from_secs(1));
        let begin = match (self.empty_at, full) {
            (Some(empty), Some(full)) => empty.max(full),
            (Some(empty), None) => empty,
            (None, full) => full.unwrap_or(now),
        };
        if begin + each > now {
            return false;
        }
        self.empty_at = Some(begin + each);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_brings_what_a_second_may_have() {
        let (mut allowance, start) = (Allowance::new(100), Instant::now() + Duration::from_secs(10));
        let mut at_once = |now| (0..1_000).filter(|_| allowance.take(now)).count();
        assert_eq!(at_once(start), 100, "a full second's worth at first");
        assert_eq!(at_once(start + Duration::from_millis(500)), 50);
        assert_eq!(at_once(start + Duration::from_secs(60)), 100, "no more is kept");
    }
}
