//! What round trips usually are above the least one while nothing queues, where they jitter.
//!
//! Where jitter is large the least round trip is a rare one, of a packet and an acknowledgement both early. Held against it, the usual
//! one passes for a queue, and spans counted in it are too short. What is granted as usual is the shortest that a while's round trips
//! were on the average: a queue comes and goes, jitter stays. That alone would grant a queue that others keep long, too. So no more is
//! granted than a few times what round trips jump by from one acknowledgement to the next, faster than any queue grows.

use std::time::Duration;

use super::minimum::Minimum;
use crate::Time;
use crate::congestion::math;

/// Round trips are averaged over so many of the least one, or so long.
const SPAN_ROUND_TRIPS: u32 = 4;
const SHORTEST_SPAN: Duration = Duration::from_millis(50);
/// Acknowledgements at least that make an average.
const LEAST_COUNT: u32 = 4;
/// The shortest average of one to two of these is granted. Long enough for flows that share a link, each of which grants what it
/// sees, to have seen the same queue at its shortest: with 2.5 s they shared less evenly.
const BUCKET: Duration = Duration::from_secs(10);
/// No more is granted than so many times the jumps, permille.
const JUMPS: u64 = 3000;
/// What timers and the bursts of others do is no jitter.
const BURSTS: Duration = Duration::from_millis(3);
/// A round trip of so many usual ones, and this long, is a queue's. Nothing is granted until it is so long ago: a rate that falls drops
/// what is in flight, which a grant makes more.
const DEEP: u32 = 3;
const SHORTEST_DEEP: Duration = Duration::from_millis(120);
const AFTER_DEEP: Duration = Duration::from_secs(2);

/// The newest packet that an acknowledgement tells of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) rtt: Duration,
    pub(super) sent_at: Time,
    /// Among all bytes sent.
    pub(super) position: u64,
}

impl Delivery {
    /// By how much more it took than `before`, beyond what a queue can have grown: `rate` is what the bottleneck passes at least, and
    /// others make a queue grow no faster than by half of the time.
    fn jump(&self, before: &Self, rate: u64) -> Duration {
        let apart = self.sent_at.since(before.sent_at);
        let own = math::span(self.position.saturating_sub(before.position), rate).saturating_sub(apart);
        let queue = own.saturating_add(apart / 2).saturating_add(BURSTS);
        self.rtt.saturating_sub(before.rtt).saturating_sub(queue)
    }
}

/// What is seen of one span.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    began: Time,
    jump: Duration,
    sum: Duration,
    count: u32,
}

/// The usual round trip. See the module.
#[derive(Debug, Default)]
pub(super) struct JitterBaseline {
    last: Option<Delivery>,
    span: Span,
    /// The longest jump of the span before.
    jump_before: Duration,
    /// The shorter one of two spans, smoothed over eight: jitter makes jumps in each, somebody's burst in one.
    jumps: Duration,
    average: Minimum,
    deep_at: Time,
    above: Duration,
}

impl JitterBaseline {
    /// `standing`: the least round trip of late, of which the averages are; `least`: the least of all; `rate`: bytes a second.
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

    /// What is granted.
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

    /// An acknowledgement every 10 ms for `span`, each of 20 ms and what `above` says of its number.
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

    /// Now 10 ms, now 30.
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
