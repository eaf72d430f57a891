//! The base round trip, and how much stands in the queue above it.

use std::time::Duration;

use super::jitter_baseline::{Delivery, JitterBaseline};
use super::minimum::Minimum;
use crate::Time;

/// A base round trip not seen again is forgotten after one to two of these: routes change.
const BASE_BUCKET: Duration = Duration::from_secs(5);
/// The queue is the least of no shorter a time: a busy host answers every few milliseconds only, and of one answer nothing can tell how
/// much of it was a queue and how much the host.
const LEAST_BUCKET: Duration = Duration::from_millis(10);

/// Bytes sent from which on it matters what is usual: those who have little to send are many, and should be small.
const MANY: u64 = 32 << 10;

/// By how much round trips jitter within a short time: the smaller of the largest rise and the largest fall,
/// since a queue that grows only rises, and one that drains only falls.
#[derive(Clone, Copy, Debug, Default)]
struct Jitter {
    began: Time,
    low: Duration,
    high: Duration,
    rise: Duration,
    fall: Duration,
    average: Duration,
}

impl Jitter {
    fn on_sample(&mut self, now: Time, rtt: Duration, bucket: Duration) {
        if now.since(self.began) >= bucket {
            self.average = (self.average.saturating_mul(7).saturating_add(self.rise.min(self.fall))) / 8;
            *self = Self { began: now, low: rtt, high: rtt, average: self.average, ..Self::default() };
        }
        self.low = self.low.min(rtt);
        self.high = self.high.max(rtt);
        self.rise = self.rise.max(rtt.saturating_sub(self.low));
        self.fall = self.fall.max(self.high.saturating_sub(rtt));
    }
}

/// Round trips, and what they say of the queue.
#[derive(Debug, Default)]
pub(super) struct Delay {
    least: Minimum,
    /// What jitter adds to it.
    jitter_baseline: Option<Box<JitterBaseline>>,
    /// The least of the last quarter to half round trip, or of ten to twenty milliseconds: jitter only ever adds.
    standing: Minimum,
    jitter: Jitter,
    latest: Duration,
    /// When the least round trip was last seen, or nearly.
    base_seen: Time,
    /// The base until one is measured: an earlier connection's.
    assumed: Duration,
}

impl Delay {
    pub(super) fn on_rtt(&mut self, now: Time, rtt: Duration) {
        let near = self.least().saturating_add((self.least() / 32).max(Duration::from_micros(500)));
        if self.least.least().is_none() || rtt <= near {
            self.base_seen = now;
        }
        self.latest = rtt;
        self.least.on_sample(now, rtt, BASE_BUCKET);
        let bucket = (self.base() / 4).max(LEAST_BUCKET);
        self.standing.on_sample(now, rtt, bucket);
        self.jitter.on_sample(now, rtt, bucket);
    }

    /// After [`Self::on_rtt`] of the same acknowledgement; `rate`: bytes a second the bottleneck passes.
    pub(super) fn on_delivery(&mut self, now: Time, delivery: Delivery, rate: u64) {
        let (standing, least) = (self.standing.least().unwrap_or(delivery.rtt), self.least());
        if delivery.position >= MANY || self.jitter_baseline.is_some() {
            self.jitter_baseline.get_or_insert_default().on_delivery(now, delivery, standing, least, rate);
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.least.least().is_some()
    }

    /// Takes an earlier connection's base for this one's until it is measured.
    pub(super) fn assume(&mut self, base: Duration) {
        self.assumed = base;
    }

    /// The base round trip, which is the usual one without a queue; zero: unknown.
    pub(super) fn base(&self) -> Duration {
        self.least()
            .saturating_add(self.jitter_baseline.as_ref().map_or(Duration::ZERO, |usual| usual.above()))
    }

    /// The least round trip; zero: unknown.
    pub(super) fn least(&self) -> Duration {
        self.least.least().unwrap_or(self.assumed)
    }

    /// Queueing delay, without jitter.
    pub(super) fn queue(&self) -> Duration {
        self.standing.least().unwrap_or_default().saturating_sub(self.base())
    }

    /// The longest that the queue can be: what stands above the least round trip.
    pub(super) fn above_least(&self) -> Duration {
        self.standing.least().unwrap_or_default().saturating_sub(self.least())
    }

    /// How much of [`Self::queue`] may be no queue at all.
    pub(super) fn jitter(&self) -> Duration {
        self.jitter.average
    }

    /// Queueing delay as the latest sample has it.
    pub(super) fn latest_queue(&self) -> Duration {
        self.latest.saturating_sub(self.base())
    }

    pub(super) fn base_unseen_for(&self, now: Time) -> Duration {
        now.since(self.base_seen)
    }

    /// A drain is over; whatever it showed is the base for now.
    pub(super) fn base_sought(&mut self, now: Time) {
        self.base_seen = now;
    }

    /// After a silence the queue is another one.
    pub(super) fn forget_queue(&mut self) {
        self.standing = Minimum::default();
    }
}
