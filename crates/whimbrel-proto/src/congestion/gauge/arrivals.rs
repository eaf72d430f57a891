//! Measures the arrival rate over about one base round trip, even when a queue makes round trips much longer.

use std::time::Duration;

use crate::Time;
use crate::congestion::controller::AckSample;
use crate::congestion::math;

/// A point in the stream of acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Time,
    /// Position of the newest packet acknowledged.
    newest: u64,
    /// When that packet was sent.
    sent_at: Time,
    /// Bytes acknowledged in all.
    acked: u64,
}

/// The rates over the last span.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    now: Mark,
    last: Mark,
    before: Option<Mark>,
    /// Consecutive spans in which packets arrived more slowly than they were sent.
    slower: u32,
    /// The arrival rate in bytes a second, smoothed over about four spans.
    average: u64,
}

impl Arrivals {
    /// Takes in an acknowledgement. Returns true once `span` has passed and `least` bytes were delivered: the span
    /// has ended.
    pub(super) fn on_ack(&mut self, sample: &AckSample, span: Duration, least: u64) -> bool {
        self.now.at = sample.now;
        self.now.acked = self.now.acked.saturating_add(sample.acked);
        if sample.rate.newest > self.now.newest {
            self.now.newest = sample.rate.newest;
            self.now.sent_at = sample.largest_sent_at;
        }
        let due = sample.now.since(self.last.at) >= span && self.now.newest - self.last.newest >= least;
        if due {
            self.end_span();
        }
        due
    }

    fn end_span(&mut self) {
        let known = self.last.at > Time::ZERO;
        self.before = known.then_some(self.last);
        let arriving = math::nanos(self.now.at.since(self.last.at));
        let leaving = math::nanos(self.now.sent_at.since(self.last.sent_at));
        let slower = known && arriving > math::scale(leaving, 1050);
        self.slower = if slower { self.slower.saturating_add(1) } else { 0 };
        self.last = self.now;
        if let Some((_, arrived)) = self.rates() {
            self.average = if self.average == 0 { arrived } else { self.average / 4 * 3 + arrived / 4 };
        }
    }

    /// Bytes acknowledged in all.
    pub(super) fn acked(&self) -> u64 {
        self.now.acked
    }

    /// The smoothed arrival rate, in bytes a second.
    pub(super) fn average(&self) -> u64 {
        self.average
    }

    /// The rate at which data passed the bottleneck and the rate at which it arrived, in bytes a second.
    pub(super) fn rates(&self) -> Option<(u64, u64)> {
        let (from, to) = (self.before?, self.last);
        let elapsed = to.at.since(from.at);
        Some((math::rate(to.newest - from.newest, elapsed), math::rate(to.acked - from.acked, elapsed)))
    }

    /// The rate at which the bytes that arrived had been sent, in bytes a second.
    pub(super) fn sending_rate(&self) -> Option<u64> {
        let (from, to) = (self.before?, self.last);
        Some(math::rate(to.newest - from.newest, to.sent_at.since(from.sent_at)))
    }

    /// Consecutive spans in which packets arrived more slowly than they were sent: a queue is growing. A single one
    /// may be jitter.
    pub(super) fn lag(&self) -> u32 {
        self.slower
    }

    /// Starts a new span after a silence, which must not be measured as a rate.
    pub(super) fn restart(&mut self, now: Time) {
        self.before = None;
        self.slower = 0;
        self.last = Mark { at: now, ..self.now };
    }
}
