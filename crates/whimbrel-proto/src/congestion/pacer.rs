//! When the next packet may leave.

use std::time::Duration;

use super::math;
use crate::Time;

/// Timers of a millisecond's grain (tokio) wake up to two late: the bucket must not overflow until then, or
/// the timer and not the rate is what sends.
const WAKE_UP: Duration = Duration::from_micros(2000);
/// A bucket of bytes that fills at the pacing rate, to the depth of one burst.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    /// When everything sent so far is paid for.
    paid_at: Time,
    rate: u64,
    packet_size: u64,
}

impl Pacer {
    /// A full bucket for packets of `packet_size` wire bytes.
    pub fn new(packet_size: u64) -> Self {
        Self { paid_at: Time::ZERO, rate: u64::MAX, packet_size }
    }

    /// When a packet of `size` bytes may leave: `now`, or later.
    pub fn ready_at(&self, now: Time, size: u64) -> Time {
        let burst = self.burst(self.rate).max(size);
        let ready = self.paid_at.saturating_sub(math::span(burst - size, self.rate));
        ready.max(now)
    }

    /// A packet left, while the controller's rate was `rate` bytes a second.
    pub fn on_sent(&mut self, now: Time, size: u64, rate: u64) {
        self.rate = rate.max(1);
        self.paid_at = self.paid_at.max(now) + math::span(size, self.rate);
    }

    /// The size of full packets changed.
    pub fn set_packet_size(&mut self, bytes: u64) {
        self.packet_size = bytes;
    }

    /// Bytes that may leave at once: a wake-up's worth. A smaller bucket would make the timer the limit.
    pub fn burst(&self, rate: u64) -> u64 {
        // One packet more, since a bucket with less than a packet in it fills in vain.
        let wake_up = math::volume(rate, WAKE_UP).saturating_add(self.packet_size);
        wake_up.max(self.packet_size.saturating_mul(2))
    }
}
