//! Measures the base round trip and the queueing delay above it.

use std::time::Duration;

use super::jitter_baseline::{Delivery, JitterBaseline};
use super::minimum::Minimum;
use crate::Time;

/// A base round trip that is not seen again is forgotten after one to two of these, because routes change.
const BASE_BUCKET: Duration = Duration::from_secs(5);
/// The queueing delay is the minimum over at least this long. A busy host may answer only every few milliseconds, and
/// a single answer cannot tell the queue from the host.
const LEAST_BUCKET: Duration = Duration::from_millis(10);

/// Bytes to send before a jitter baseline is kept. Flows that send little are many and should take little memory.
const MANY: u64 = 32 << 10;

/// How much round trips jitter within a short time. This is the smaller of the largest rise and the largest fall, because
/// a growing queue only rises and a draining one only falls.
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

/// The round-trip times of a path, and the queueing delay they imply.
#[derive(Debug, Default)]
pub(super) struct Delay {
    least: Minimum,
    /// The amount that jitter adds to the minimum. None: too little was sent to tell.
    jitter_baseline: Option<Box<JitterBaseline>>,
    /// The minimum of the last quarter to half round trip, or of the last 10 to 20 ms: jitter only ever adds delay.
    standing: Minimum,
    jitter: Jitter,
    latest: Duration,
    /// When a round trip close to the minimum was last seen.
    base_seen: Time,
    /// The base round trip of an earlier connection, used until one is measured.
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

    /// Takes in a delivery, after [`Self::on_rtt`] for the same acknowledgement. `rate` is the bottleneck's rate in
    /// bytes a second.
    pub(super) fn on_delivery(&mut self, now: Time, delivery: Delivery, rate: u64) {
        let (standing, least) = (self.standing.least().unwrap_or(delivery.rtt), self.least());
        if delivery.position >= MANY || self.jitter_baseline.is_some() {
            self.jitter_baseline.get_or_insert_default().on_delivery(now, delivery, standing, least, rate);
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.least.least().is_some()
    }

    /// Uses an earlier connection's base round trip until one is measured.
    pub(super) fn assume(&mut self, base: Duration) {
        self.assumed = base;
    }

    /// The base round trip: the usual one without a queue, jitter included. Zero if unknown.
    pub(super) fn base(&self) -> Duration {
        self.least()
            .saturating_add(self.jitter_baseline.as_ref().map_or(Duration::ZERO, |usual| usual.above()))
    }

    /// The shortest round trip; zero if unknown.
    pub(super) fn least(&self) -> Duration {
        self.least.least().unwrap_or(self.assumed)
    }

    /// The queueing delay, with jitter filtered out.
    pub(super) fn queue(&self) -> Duration {
        self.standing.least().unwrap_or_default().saturating_sub(self.base())
    }

    /// The upper bound of the queueing delay: the excess over the shortest round trip.
    pub(super) fn above_least(&self) -> Duration {
        self.standing.least().unwrap_or_default().saturating_sub(self.least())
    }

    /// How much of [`Self::queue`] may be jitter.
    pub(super) fn jitter(&self) -> Duration {
        self.jitter.average
    }

    /// The queueing delay according to the latest sample.
    pub(super) fn latest_queue(&self) -> Duration {
        self.latest.saturating_sub(self.base())
    }

    pub(super) fn base_unseen_for(&self, now: Time) -> Duration {
        now.since(self.base_seen)
    }

    /// Notes that a drain is over: what it measured counts as the base for now.
    pub(super) fn base_sought(&mut self, now: Time) {
        self.base_seen = now;
    }

    /// Forgets the queueing delay, because a silence changes the queue.
    pub(super) fn forget_queue(&mut self) {
        self.standing = Minimum::default();
    }
}
