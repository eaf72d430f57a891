//! A hybrid logical clock: later than all it has seen, and near the wall clock.

use std::time::Duration;

use whimbrel_pubsub::message::Hlc;

/// A reading that is further ahead of the wall clock than this is not followed (5 min).
pub const LARGEST_DRIFT: Duration = Duration::from_secs(300);
/// The last time at which a message may say that it was published: the end of the year 9999. All brokers refuse a message that says a later
/// one.
pub const LATEST: Hlc = Hlc::at(253_402_300_799_999);

/// A last value is not taken from its own broker if that broker's clock is further ahead than this (ten years).
pub const FURTHEST_AHEAD: Duration = Duration::from_secs(3_652 * 86_400);
/// A wall clock before this is wrong, and cannot judge others: 2025.
const FIRST_TIME_MS: u64 = 1_735_689_600_000;

/// Whether a message says that it was published further ahead of the wall clock than [`FURTHEST_AHEAD`].
pub fn is_far_ahead(published: Hlc, wall_ms: u64) -> bool {
    let most = wall_ms.saturating_add(FURTHEST_AHEAD.as_millis() as u64);
    wall_ms >= FIRST_TIME_MS && published.0 >> 16 > most
}

/// A hybrid logical clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HybridClock {
    last: Hlc,
}

impl HybridClock {
    /// The next reading, later than all before.
    pub(super) fn tick(&mut self, wall_ms: u64) -> Hlc {
        self.last = next(self.last).max(Hlc::at(wall_ms)).min(LATEST);
        self.last
    }

    /// The next reading, later than all before, and than `former`. Those after it do not go on from there: what claims to come from the
    /// future moves the time of what replaces it, and of nothing else.
    pub(super) fn tick_after(&mut self, former: Option<Hlc>, wall_ms: u64) -> Hlc {
        let reading = self.tick(wall_ms);
        former.map_or(reading, |former| next(former).max(reading)).min(LATEST)
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

fn next(reading: Hlc) -> Hlc {
    Hlc(reading.0.saturating_add(1))
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
        let after = clock.tick_after(Some(Hlc::at(10_000_000)), 2_000);
        assert!(after > Hlc::at(10_000_000) && clock.tick(2_000) < Hlc::at(10_000_000));
        assert_eq!(clock.tick_after(Some(Hlc(u64::MAX)), 2_000), LATEST);
        assert!(clock.tick_after(Some(Hlc::at(1)), 2_000) > Hlc::at(60_000));
    }

    #[test]
    fn only_a_clock_that_may_be_right_judges_others() {
        let (wall, year) = (1_800_000_000_000, 365 * 86_400_000);
        assert!(
            !is_far_ahead(Hlc::at(wall + 9 * year), wall) && is_far_ahead(Hlc::at(wall + 11 * year), wall)
        );
        assert!(is_far_ahead(Hlc(u64::MAX), wall) && !is_far_ahead(Hlc::at(wall), 0));
    }
}
