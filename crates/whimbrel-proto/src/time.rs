//! The core's clock: time is always an argument and never read.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an arbitrary epoch.
///
/// The epoch is the caller's: an endpoint uses its start, a simulation uses zero. Only differences
/// mean anything. 64 bits of nanoseconds last 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The clock's epoch.
    pub const ZERO: Self = Self(0);
    /// Later than anything that will happen.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the point `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns the earliest of the times of timers. `None` if none runs.
    #[inline]
    pub(crate) fn earliest<const TIMERS: usize>(timers: [Option<Self>; TIMERS]) -> Option<Self> {
        // In plain numbers, since this is asked several times a packet.
        let mut least = Self::MAX;
        for timer in timers {
            least = least.min(timer.unwrap_or(Self::MAX));
        }
        Some(least).filter(|least| *least < Self::MAX)
    }

    /// `self - duration`, stopping at the epoch.
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

/// The duration in nanoseconds, saturating at 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    // In 64 bits: each sum of a time and a duration does this.
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(u64::from(duration.subsec_nanos()))
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_timer_is_found_and_one_that_never_fires_does_not_run() {
        let [two, three] = [2, 3].map(Time::from_nanos);
        assert_eq!(Time::earliest([None, Some(three), Some(two), Some(Time::MAX)]), Some(two));
        assert_eq!(Time::earliest([Some(Time::MAX), None]), None);
        assert_eq!(Time::earliest([Some(Time::ZERO)]), Some(Time::ZERO));
    }

    #[test]
    fn a_duration_too_long_for_nanoseconds_is_the_longest() {
        assert_eq!(nanos(Duration::new(3, 7)), 3_000_000_007);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
        assert_eq!(Time::from_nanos(5) + Duration::MAX, Time::MAX);
    }
}
