//! Measures from a path's acknowledgements how fast the path carries packets.
//!
//! It follows draft-cheng-iccrg-delivery-rate-estimation, with one difference. The draft counts what was delivered
//! since a packet was sent. This sampler also counts *progress*: how far the newest acknowledged packet lies beyond
//! the packet that was the newest acknowledged when it was sent. A packet lost behind the bottleneck has used the
//! bottleneck nevertheless, so progress shows the bottleneck's rate however much is lost. It lacks the noise that loss
//! adds to a count of deliveries. Progress shows too much where packets are dropped before the bottleneck;
//! [`RateSample::delivered`] covers that case.

use std::time::Duration;

use super::math;
use crate::Time;

/// Least number of packets between the ends of a sample taken within one flight.
const TRAIN_PACKETS: u64 = 8;
/// The shortest sample: a shorter one measures batching, not the path.
const SHORTEST: Duration = Duration::from_millis(1);

/// The sampler's state when a packet was sent, kept with the packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    end: u64,
    since: Point,
    fresh: bool,
    app_limited: bool,
}

/// An acknowledged packet: its position among all bytes sent, and when it was sent and acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    offset: u64,
    delivered: u64,
    sent_at: Time,
    acked_at: Time,
}

/// A measurement of the path's rate, derived from a SACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateSample {
    /// The rate that the bottleneck passed, in bytes a second, whether the bytes arrived or not; 0 if nothing was
    /// measured.
    pub progress: u64,
    /// The rate of acknowledged bytes over the same time, in bytes a second.
    pub delivered: u64,
    /// Whether packets were sent no faster than they were acknowledged, so the path may carry more.
    pub send_limited: bool,
    /// Whether the sender had too little to send, so the path may carry more.
    pub app_limited: bool,
    /// When the measured stretch began.
    pub since: Time,
    /// The position of the newest acknowledged packet among the bytes sent on this path.
    pub newest: u64,
    /// Bytes sent on this path so far.
    pub sent: u64,
}

/// The rate sampler of one path.
#[derive(Debug, Default)]
pub struct RateSampler {
    sent: u64,
    delivered: u64,
    newest: Point,
    /// The first acknowledgement of the flight that started from idle.
    train: Option<Point>,
    /// A point at least [`SHORTEST`] old, on paths whose round trip is shorter.
    slot: Point,
    fresh_from: u64,
    /// The sender limits the rate, and not the path, until bytes beyond this position are acknowledged.
    app_limited_to: u64,
    best: Option<(Time, u64, Snapshot)>,
}

impl RateSampler {
    /// Creates a sampler for a path on which nothing was sent yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that a packet of `size` wire bytes is sent.
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

    /// Starts a flight when nothing was in flight: the time since without progress says nothing about the path.
    fn start_flight(&mut self, now: Time) {
        self.fresh_from = self.sent;
        self.newest = Point { offset: self.sent, delivered: self.delivered, sent_at: now, acked_at: now };
        self.slot = self.newest;
        self.train = None;
    }

    /// Notes that the sender ran out of data with `in_flight` bytes in flight and room for more.
    pub fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_to = self.sent.max(in_flight).max(1);
    }

    /// Takes in a newly acknowledged packet.
    pub fn on_acked(&mut self, _now: Time, sent_at: Time, size: u64, snapshot: &Snapshot) {
        self.delivered = self.delivered.saturating_add(size);
        if self.best.is_none_or(|(_, _, best)| best.end < snapshot.end) {
            self.best = Some((sent_at, size, *snapshot));
        }
    }

    /// Ends the processing of a SACK and returns its sample.
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

    /// Returns where the stretch that ends at `point` began. `None` if it is too short to measure.
    fn stretch_start(&mut self, snapshot: &Snapshot, size: u64, point: Point) -> Option<Point> {
        let mut since = snapshot.since;
        if snapshot.fresh {
            // The first flight has no earlier acknowledgement, so it is measured from its own first one.
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
