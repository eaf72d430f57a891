//! Times in which a link holds back all that would arrive.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use whimbrel_proto::Time;

use crate::units::{self, ParseError};

/// A link that is suspended periodically: a radio that scans or sleeps. What would arrive meanwhile arrives when the
/// suspension ends, and nothing is lost. Written `150ms every 1.2s`; the suspension is the end of each such time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    length: Duration,
    every: Duration,
}

impl Hold {
    /// Suspensions of this length, one in each time of `every`. `None` unless `length` is above zero and shorter.
    pub fn new(length: Duration, every: Duration) -> Option<Self> {
        (!length.is_zero() && length < every).then_some(Self { length, every })
    }

    /// Returns the share of the time in which the link is suspended.
    pub fn share(&self) -> f64 {
        self.length.as_secs_f64() / self.every.as_secs_f64()
    }

    /// Returns when a packet arrives that would arrive at `at`.
    pub(crate) fn release(&self, at: Time) -> Time {
        let every = self.every.as_nanos();
        let into = Duration::from_nanos((u128::from(at.as_nanos()) % every) as u64);
        let rest = self.every - into;
        if rest <= self.length { at + rest } else { at }
    }
}

impl FromStr for Hold {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new("hold", text, "LENGTH every TIME, for example 150ms every 1.2s");
        let (length, every) = text.split_once("every").ok_or_else(wrong)?;
        let (length, every) = (units::duration(length.trim())?, units::duration(every.trim())?);
        Self::new(length, every).ok_or_else(wrong)
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} every {:?}", self.length, self.every)
    }
}
