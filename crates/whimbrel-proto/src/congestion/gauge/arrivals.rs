//! What arrived lately: the rate over about one base round trip, whatever the queue makes of round trips.

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
    /// When that was sent.
    sent_at: Time,
    /// All that was acknowledged.
    acked: u64,
}

/// Rates over the last span.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    now: Mark,
    last: Mark,
    before: Option<Mark>,
    /// Spans in a row in which packets arrived more slowly than they had left.
    slower: u32,
    /// Bytes a second that arrived, smoothed over about four spans.
    average: u64,
}

impl Arrivals {
    /// True once `span` is over and brought `least` bytes: time to look at it.
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

    /// Everything acknowledged.
    pub(super) fn acked(&self) -> u64 {
        self.now.acked
    }

    /// Bytes a second that arrive.
    pub(super) fn average(&self) -> u64 {
        self.average
    }

    /// Bytes a second: what passed the bottleneck, and what arrived.
    pub(super) fn rates(&self) -> Option<(u64, u64)> {
        let (from, to) = (self.before?, self.last);
        let elapsed = to.at.since(from.at);
        Some((math::rate(to.newest - from.newest, elapsed), math::rate(to.acked - from.acked, elapsed)))
    }

    /// The rate at which what arrived had left.
    pub(super) fn sending_rate(&self) -> Option<u64> {
        let (from, to) = (self.before?, self.last);
        Some(math::rate(to.newest - from.newest, to.sent_at.since(from.sent_at)))
    }

    /// Spans in a row in which packets arrived more slowly than they had left: a queue grows. Once may be jitter.
    pub(super) fn lag(&self) -> u32 {
        self.slower
    }

    /// A silence is not a rate.
    pub(super) fn restart(&mut self, now: Time) {
        self.before = None;
        self.slower = 0;
        self.last = Mark { at: now, ..self.now };
    }
}
