//! The clocks of the process.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::{Now, Time};

/// The monotonic clock begins so far behind its epoch (20 years): what a former run received is older than this process.
const BEFORE: Duration = Duration::from_secs(20 * 365 * 24 * 3_600);

/// The clocks of the process, as the pure rooms want them.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Reads the monotonic clock.
    pub fn time(&self) -> Time {
        Time::at(BEFORE + self.0.elapsed())
    }

    /// Reads both clocks. A wall clock before 1970 counts as 1970.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { time: self.time(), wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_what_came_before_the_process_has_an_age() {
        let (now, age) = (Clock::start().time(), Duration::from_secs(30 * 24 * 3_600));
        assert_eq!(now.since(now.before(age)), age);
    }
}
