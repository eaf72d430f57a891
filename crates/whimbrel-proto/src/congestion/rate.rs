//! How fast a path carries packets, measured from its acknowledgements.
//!
//! After draft-cheng-iccrg-delivery-rate-estimation, with one difference. The draft counts what was delivered
//! since a packet's sending; here *progress* is counted too: how far the newest acknowledged packet lies beyond
//! the newest one acknowledged when it was sent. What was lost behind the bottleneck took its time on the
//! bottleneck nevertheless, so progress shows the bottleneck's rate however much is lost, and does so without
//! the noise that loss gives to a count of deliveries. It shows too much where packets are dropped before the
//! bottleneck, which is what [`RateSample::delivered`] is for.

use std::time::Duration;

use super::math;
use crate::Time;

/// Packets between the ends of a sample taken within one flight.
const TRAIN_PACKETS: u64 = 8;
/// Shorter samples measure batching, not the path.
const SHORTEST: Duration = Duration::from_millis(1);

/// What a sent packet remembers of its path's sampler.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    end: u64,
    since: Point,
    fresh: bool,
    app_limited: bool,
}

/// A packet acknowledged: where it stands among all bytes sent, and when it went and was heard of.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    offset: u64,
    delivered: u64,
    sent_at: Time,
    acked_at: Time,
}

/// What a SACK says of the path's rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// Bytes a second the bottleneck passed, whether they arrived or not; 0: nothing measured.
    pub progress: u64,
    /// Bytes a second acknowledged over the same time.
    pub delivered: u64,
    /// Packets left no faster than that: the path may carry more.
    pub send_limited: bool,
    /// The sender had too little to send: the path may carry more.
    pub app_limited: bool,
    /// When the measured stretch began.
    pub since: Time,
    /// Position, in bytes sent on this path, of the newest packet acknowledged.
    pub newest: u64,
    /// Bytes sent on this path so far.
    pub sent: u64,
}

/// One path's sampler.
#[derive(Debug, Default)]
pub struct RateSampler {
    sent: u64,
    delivered: u64,
    newest: Point,
    /// First acknowledgement of the flight that started from idle.
    train: Option<Point>,
    /// A point at least [`SHORTEST`] old, on paths whose round trip is shorter.
    slot: Point,
    fresh_from: u64,
    /// Until something sent beyond this position is acknowledged, the sender and not the path is measured.
    app_limited_to: u64,
    best: Option<(Time, u64, Snapshot)>,
}

impl RateSampler {
    /// A sampler for a path nothing was sent on.
    pub fn new() -> Self {
        Self::default()
    }

    /// A packet of `size` wire bytes leaves.
    pub fn on_sent(&mut self, now: Time, in_flight_before: u64, size: u64) -> Snapshot {
        if in_flight_before == 0 {
            self.start_flight(now);
        }
        self.sent = self.sent.saturating_add(size);
        Snapshot {
            end: self.sent,
            since: self.newest,
            fresh: self.newest.offset == self.fresh_from,
            app_limited: self.app_limited_to != 0 && self.app_limited_to >= self.newest.offset,
        }
    }

    /// Nothing is in flight: time passed without progress, which says nothing about the path.
    fn start_flight(&mut self, now: Time) {
        self.fresh_from = self.sent;
        self.newest = Point { offset: self.sent, delivered: self.delivered, sent_at: now, acked_at: now };
        self.slot = self.newest;
        self.train = None;
    }

    /// The sender ran out of data with `in_flight` bytes out and room for more.
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_to = self.sent.max(in_flight).max(1);
    }

    /// A packet is newly acknowledged.
    pub fn on_acked(&mut self, _now: Time, sent_at: Time, size: u64, snapshot: &Snapshot) {
        self.delivered = self.delivered.saturating_add(size);
        if self.best.is_none_or(|(_, _, best)| best.end < snapshot.end) {
            self.best = Some((sent_at, size, *snapshot));
        }
    }

    /// The SACK is processed.
    pub fn finish(&mut self, now: Time) -> RateSample {
        let mut sample =
            RateSample { newest: self.newest.offset, sent: self.sent, since: now, ..RateSample::default() };
        let Some((sent_at, size, snapshot)) = self.best.take() else { return sample };
        if snapshot.end <= self.newest.offset {
            return sample;
        }
        let point = Point { offset: snapshot.end, delivered: self.delivered, sent_at, acked_at: now };
        sample.newest = point.offset;
        sample.app_limited = snapshot.app_limited;
        if let Some(since) = self.stretch_start(&snapshot, size, point) {
            measure(&mut sample, since, point);
        }
        self.newest = point;
        sample
    }

    /// Where the stretch that `point` ends began; `None`: too short to measure.
    fn stretch_start(&mut self, snapshot: &Snapshot, size: u64, point: Point) -> Option<Point> {
        let mut since = snapshot.since;
        if snapshot.fresh {
            // The first flight has no acknowledgement before it: it is measured from its own first one.
            let train = *self.train.get_or_insert(point);
            if point.offset.saturating_sub(train.offset) < size.saturating_mul(TRAIN_PACKETS) {
                return None;
            }
            since = train;
        }
        if point.acked_at.since(since.acked_at) < SHORTEST {
            if point.acked_at.since(self.slot.acked_at) < SHORTEST {
                return None;
            }
            since = self.slot;
            self.slot = point;
        }
        Some(since)
    }
}

fn measure(sample: &mut RateSample, since: Point, point: Point) {
    let acking = point.acked_at.since(since.acked_at);
    let sending = point.sent_at.since(since.sent_at);
    let elapsed = acking.max(sending);
    if elapsed.is_zero() {
        return;
    }
    sample.progress = math::rate(point.offset.saturating_sub(since.offset), elapsed);
    sample.delivered = math::rate(point.delivered.saturating_sub(since.delivered), elapsed);
    // Acknowledgements jitter; within 2 % the path kept up.
    sample.send_limited = math::scale(math::nanos(sending), 1020) >= math::nanos(acking);
    sample.since = since.acked_at;
}
