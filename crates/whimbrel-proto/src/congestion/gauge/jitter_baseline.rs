//! Estimates how far round trips usually lie above the shortest one without any queue, on a path that jitters.
//!
//! With large jitter, the shortest round trip is rare: both the packet and its acknowledgement came early.
//! Measured against it, a usual round trip looks like a queue, and spans derived from it are too short.
//!
//! The baseline is the shortest of the averages over a while, because a queue comes and goes but jitter stays. That
//! alone would also accept a queue that other flows keep long. So the baseline is capped at a few times the jump
//! between consecutive acknowledgements, which is faster than any queue grows.

use std::time::Duration;

use super::minimum::Minimum;
use crate::Time;
use crate::congestion::math;

/// Round trips are averaged over this many of the shortest round trips, and at least over [`SHORTEST_SPAN`].
const SPAN_ROUND_TRIPS: u32 = 4;
const SHORTEST_SPAN: Duration = Duration::from_millis(50);
/// The least number of acknowledgements that make an average.
const LEAST_COUNT: u32 = 4;
/// The baseline is the shortest average of the last one to two of these. Flows that share a link all use their own
/// baseline, so this is long enough for all to have seen the queue at its shortest. With 2.5 s they shared less
/// evenly.
const BUCKET: Duration = Duration::from_secs(10);
/// The cap on the baseline, as a multiple of the usual jump, permille.
const JUMPS: u64 = 3000;
/// A jump this short is put down to timers and other flows' bursts, not to jitter.
const BURSTS: Duration = Duration::from_millis(3);
/// A round trip of this many usual ones, and of at least [`SHORTEST_DEEP`], means a queue. The baseline is zero until
/// [`AFTER_DEEP`] has passed since: after a fall of the rate, packets in flight are dropped, and a baseline would put
/// more in flight.
const DEEP: u32 = 3;
const SHORTEST_DEEP: Duration = Duration::from_millis(120);
const AFTER_DEEP: Duration = Duration::from_secs(2);

/// The newest packet that an acknowledgement covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) rtt: Duration,
    pub(super) sent_at: Time,
    /// The packet's position among all bytes sent.
    pub(super) position: u64,
}

impl Delivery {
    /// By how much this round trip exceeds that of `before`, beyond what a queue can have grown. `rate` is the least
    /// that the bottleneck passes. Other flows are assumed to grow a queue by at most half of the time that passes.
    fn jump(&self, before: &Self, rate: u64) -> Duration {
        let apart = self.sent_at.since(before.sent_at);
        let own = math::span(self.position.saturating_sub(before.position), rate).saturating_sub(apart);
        let queue = own.saturating_add(apart / 2).saturating_add(BURSTS);
        self.rtt.saturating_sub(before.rtt).saturating_sub(queue)
    }
}

/// The measurements of one span.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    began: Time,
    jump: Duration,
    sum: Duration,
    count: u32,
}

/// The usual excess over the shortest round trip. See the module documentation.
#[derive(Debug, Default)]
pub(super) struct JitterBaseline {
    last: Option<Delivery>,
    span: Span,
    /// The longest jump of the previous span.
    jump_before: Duration,
    /// The smaller of the longest jumps of two consecutive spans, smoothed over eight spans. Jitter jumps in every
    /// span, another flow's burst in only one.
    jumps: Duration,
    average: Minimum,
    deep_at: Time,
    above: Duration,
}

impl JitterBaseline {
    /// Takes in a delivery. `standing` is the shortest recent round trip, which is averaged; `least` is the shortest
    /// of all; `rate` is in bytes a second.
    pub(super) fn on_delivery(
        &mut self,
        now: Time,
        delivery: Delivery,
        standing: Duration,
        least: Duration,
        rate: u64,
    ) {
        let usual = least.saturating_add(self.explained(least));
        if self.last.is_none() || standing > usual.saturating_mul(DEEP).max(SHORTEST_DEEP) {
            self.deep_at = now;
        }
        if let Some(before) = self.last.replace(delivery) {
            self.span.jump = self.span.jump.max(delivery.jump(&before, rate));
        }
        self.span.sum = self.span.sum.saturating_add(standing);
        self.span.count += 1;
        if now.since(self.span.began) >= least.saturating_mul(SPAN_ROUND_TRIPS).max(SHORTEST_SPAN) {
            self.end_span(now);
        }
        self.above =
            if now.since(self.deep_at) < AFTER_DEEP { Duration::ZERO } else { self.explained(least) };
    }

    /// The baseline: the excess over the shortest round trip that is not a queue.
    pub(super) fn above(&self) -> Duration {
        self.above
    }

    fn end_span(&mut self, now: Time) {
        let span = std::mem::replace(&mut self.span, Span { began: now, ..Span::default() });
        let jump = span.jump.min(std::mem::replace(&mut self.jump_before, span.jump));
        self.jumps = self.jumps.saturating_mul(7).saturating_add(jump) / 8;
        if span.count >= LEAST_COUNT {
            self.average.on_sample(now, span.sum / span.count, BUCKET);
        }
    }

    fn explained(&self, least: Duration) -> Duration {
        let above = self.average.least().unwrap_or_default().saturating_sub(least);
        above.min(math::stretch(self.jumps, JUMPS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_millis(20);
    const RATE: u64 = 500_000;

    /// Feeds one acknowledgement every 10 ms for `span`. Its round trip is 20 ms plus what `above` returns for its
    /// number.
    fn run(usual: &mut JitterBaseline, from: Time, span: Duration, above: impl Fn(u32) -> Duration) -> Time {
        let mut now = from;
        for number in 0.. {
            now += Duration::from_millis(10);
            if now.since(from) > span {
                break;
            }
            let rtt = LEAST + above(number);
            let delivery =
                Delivery { rtt, sent_at: now.saturating_sub(rtt), position: now.as_nanos() / 2000 };
            usual.on_delivery(now, delivery, rtt, LEAST, RATE);
        }
        now
    }

    /// Round trips alternate between 10 and 30 ms.
    fn jittery(number: u32) -> Duration {
        Duration::from_millis(if number.is_multiple_of(2) { 10 } else { 30 })
    }

    #[test]
    fn what_jitters_is_granted_and_what_stands_is_not() {
        let start = Time::ZERO + Duration::from_secs(1);
        let mut usual = JitterBaseline::default();
        run(&mut usual, start, Duration::from_secs(3), jittery);
        assert!(usual.above() > Duration::from_millis(15), "{usual:?}");
        let mut usual = JitterBaseline::default();
        run(&mut usual, start, Duration::from_secs(3), |_| Duration::from_millis(20));
        assert_eq!(usual.above(), Duration::ZERO, "a queue of somebody else's");
    }

    #[test]
    fn a_queue_that_stays_is_not_granted_for_long() {
        let mut usual = JitterBaseline::default();
        let start = Time::ZERO + Duration::from_secs(1);
        let now = run(&mut usual, start, Duration::from_secs(5), jittery);
        run(&mut usual, now, Duration::from_secs(4), |_| Duration::from_millis(20));
        assert!(usual.above() < Duration::from_millis(1), "{usual:?}");
    }

    #[test]
    fn nothing_is_granted_after_a_long_queue() {
        let mut usual = JitterBaseline::default();
        let start = Time::ZERO + Duration::from_secs(1);
        let now = run(&mut usual, start, Duration::from_secs(3), jittery);
        let now = run(&mut usual, now, Duration::from_millis(50), |_| Duration::from_millis(200));
        let now = run(&mut usual, now, Duration::from_millis(1900), jittery);
        assert_eq!(usual.above(), Duration::ZERO);
        run(&mut usual, now, Duration::from_millis(200), jittery);
        assert!(usual.above() > Duration::from_millis(15), "{usual:?}");
    }
}
