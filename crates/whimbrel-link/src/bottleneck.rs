//! The transmitter and its queue, reduced to one number: when the transmitter will be free.

use std::time::Duration;

use whimbrel_proto::Time;

use super::Rate;

const BITS_NANOS: u64 = 8 * 1_000_000_000;

/// A transmitter. It is first in, first out and never idles with work waiting, so the time at which it becomes free
/// describes its queue completely.
#[derive(Debug, Default)]
pub(crate) struct Bottleneck {
    free: Time,
    /// The part that rounding `free` down leaves out, in units of 1/rate ns. It keeps the rate exact over any number of
    /// packets.
    remainder: u64,
}

impl Bottleneck {
    /// Returns how long a packet that arrives now waits for its transmission to start.
    pub(crate) fn wait(&self, now: Time) -> Duration {
        self.free.since(now)
    }

    /// Sends `size` bytes after everything that waits, at `rate`. Returns when the last bit has left.
    pub(crate) fn send(&mut self, now: Time, size: usize, rate: Option<&Rate>) -> Time {
        if now >= self.free {
            self.remainder = 0;
        }
        let start = self.free.max(now);
        let Some(rate) = rate else { return start };
        self.free = self.finish(start, size as u64 * BITS_NANOS, rate);
        self.free
    }

    /// Returns when `work` that begins at `start` is done.
    fn finish(&mut self, mut start: Time, mut work: u64, rate: &Rate) -> Time {
        loop {
            let (now, change) = rate.at(start);
            let capacity = change.map(|change| change.since(start).as_nanos() * u128::from(now));
            if let (Some(change), Some(capacity)) = (change, capacity)
                && capacity < u128::from(work + self.remainder)
            {
                work = work + self.remainder - capacity as u64;
                self.remainder = 0;
                start = change;
                continue;
            }
            let total = work + self.remainder;
            if now == 0 {
                // Nothing is sent from now on. Only what takes no time is done.
                return if total == 0 { start } else { Time::MAX };
            }
            self.remainder = total % now;
            return start + Duration::from_nanos(total / now);
        }
    }
}

/// Returns the bytes that a transmitter sends within `time` from `now` on.
pub(crate) fn bytes_in(now: Time, time: Duration, rate: &Rate) -> u128 {
    let (mut start, end) = (now, now + time);
    let mut bits_nanos = 0;
    while start < end {
        let (rate, change) = rate.at(start);
        let until = change.map_or(end, |change| change.min(end));
        bits_nanos += until.since(start).as_nanos() * u128::from(rate);
        start = until;
    }
    bits_nanos / u128::from(BITS_NANOS)
}
