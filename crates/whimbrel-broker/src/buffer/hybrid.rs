//! A hybrid logical clock: later than all it has seen, and near the wall clock.

use std::time::Duration;

use whimbrel_pubsub::message::Hlc;

/// A reading that is further ahead of the wall clock than this is not followed (5 min).
pub const LARGEST_DRIFT: Duration = Duration::from_secs(300);

/// A hybrid logical clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HybridClock {
    last: Hlc,
}

impl HybridClock {
    /// The next reading, later than all before.
    pub(super) fn tick(&mut self, wall_ms: u64) -> Hlc {
        self.last = Hlc(self.last.0.saturating_add(1)).max(Hlc::at(wall_ms));
        self.last
    }

    /// Later readings are later than `seen`, unless it is too far ahead.
    pub(super) fn observe(&mut self, seen: Hlc, wall_ms: u64) {
        let most = wall_ms.saturating_add(LARGEST_DRIFT.as_millis() as u64);
        if seen <= Hlc::at(most) {
            self.last = self.last.max(seen);
        }
    }

    /// The present reading.
    pub(super) fn reading(&self, wall_ms: u64) -> Hlc {
        self.last.max(Hlc::at(wall_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_ascend_whatever_the_wall_clock_does() {
        let mut clock = HybridClock::default();
        let readings = [1_000, 1_000, 400, 2_000, 0].map(|wall| clock.tick(wall));
        assert!(readings.windows(2).all(|pair| pair[0] < pair[1]), "{readings:?}");
        clock.observe(Hlc::at(60_000), 2_000);
        assert!(clock.tick(2_000) > Hlc::at(60_000));
        clock.observe(Hlc::at(10_000_000), 2_000);
        assert!(clock.tick(2_000) < Hlc::at(10_000_000), "a clock that is hours ahead is not followed");
    }
}
