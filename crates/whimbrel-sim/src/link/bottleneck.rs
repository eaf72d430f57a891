//! The transmitter and the queue before it, as one number: when it will be free.

use std::time::Duration;

use whimbrel_proto::Time;

const BITS_NANOS: u64 = 8 * 1_000_000_000;

/// A transmitter of constant rate. Since it is first in, first out and never idles with work, the moment at which
/// it becomes free is all there is to know of its queue.
#[derive(Debug, Default)]
pub(super) struct Bottleneck {
    free: Time,
    /// What rounding `free` down has left out, in units of 1/rate ns: keeps the rate exact over any number of packets.
    remainder: u64,
}

impl Bottleneck {
    /// How long a packet that arrives now waits for its transmission to start.
    pub(super) fn wait(&self, now: Time) -> Duration {
        self.free.since(now)
    }

    /// Sends `size` bytes behind everything that waits, at `rate` bits/s; returns when the last bit has left.
    pub(super) fn send(&mut self, now: Time, size: usize, rate: Option<u64>) -> Time {
        if now >= self.free {
            self.remainder = 0;
        }
        let start = self.free.max(now);
        let Some(rate) = rate else { return start };
        let work = size as u64 * BITS_NANOS + self.remainder;
        self.remainder = work % rate;
        self.free = start + Duration::from_nanos(work / rate);
        self.free
    }
}

/// How many bytes a transmitter of `rate` bits/s sends in `time`.
pub(super) fn bytes_in(time: Duration, rate: u64) -> u128 {
    time.as_nanos() * u128::from(rate) / u128::from(BITS_NANOS)
}
