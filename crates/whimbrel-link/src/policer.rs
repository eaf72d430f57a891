//! A policer: a token bucket that drops, and has no queue.

use std::fmt;
use std::str::FromStr;

use whimbrel_proto::Time;

use crate::units::{self, ParseError};

/// Drops what exceeds a rate, before the bottleneck. Nothing waits in it. Written `4mbit/32kb`: the rate, and the bytes
/// that may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Bits per second of IP bytes.
    pub rate: u64,
    /// The size of the bucket in bytes.
    pub burst: u32,
}

/// The bucket.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// The room left until it is full, in bits times nanoseconds per second.
    missing: u128,
    updated: Time,
}

const BIT: u128 = 1_000_000_000;

impl Bucket {
    /// Takes a packet of so many bytes. Returns false if there are too few tokens: nothing is taken then.
    pub(crate) fn take(&mut self, policer: Policer, now: Time, size: usize) -> bool {
        let gained = now.since(self.updated).as_nanos() * u128::from(policer.rate);
        self.updated = now;
        self.missing = self.missing.saturating_sub(gained);
        let wanted = self.missing + size as u128 * 8 * BIT;
        let fits = wanted <= u128::from(policer.burst) * 8 * BIT;
        if fits {
            self.missing = wanted;
        }
        fits
    }
}

impl FromStr for Policer {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new("policer", text, "RATE/BURST, for example 4mbit/32kb");
        let (rate, burst) = text.split_once('/').ok_or_else(wrong)?;
        let burst = u32::try_from(units::size(burst)?).map_err(|_| wrong())?;
        Ok(Self { rate: units::rate(rate)?, burst })
    }
}

impl fmt::Display for Policer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}b", units::rate_text(self.rate), self.burst)
    }
}
