//! The clocks of the process.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::{Now, Time};

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
        Time::at(self.0.elapsed())
    }

    /// Reads both clocks. A wall clock before 1970 counts as 1970.
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { time: self.time(), wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX) }
    }
}
