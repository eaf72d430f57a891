//! What arrived lately: the rate over about one base round trip, whatever the queue makes of round trips.

use std::time::Duration;

use crate::Time;
use crate::congestion::math;

/// A point in the stream of acknowledgements.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Time,
    /// Position of the newest packet acknowledged.
    newest: u64,
    /// All that was acknowledged.
    acked: u64,
}

/// Rates over the last one to two spans.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    acked: u64,
    newest: u64,
    last: Mark,
    before: Option<Mark>,
}

impl Arrivals {
    /// True once a span: time to look at what it brought.
    pub(super) fn on_ack(&mut self, now: Time, newest: u64, acked: u64, span: Duration) -> bool {
        self.acked = self.acked.saturating_add(acked);
        self.newest = self.newest.max(newest);
        let due = now.since(self.last.at) >= span;
        if due {
            self.before = (self.last.at > Time::ZERO).then_some(self.last);
            self.last = Mark { at: now, newest: self.newest, acked: self.acked };
        }
        due
    }

    /// Bytes a second: what passed the bottleneck, and what arrived.
    pub(super) fn rates(&self) -> Option<(u64, u64)> {
        let (from, to) = (self.before?, self.last);
        let elapsed = to.at.since(from.at);
        Some((math::rate(to.newest - from.newest, elapsed), math::rate(to.acked - from.acked, elapsed)))
    }

    /// A silence is not a rate.
    pub(super) fn restart(&mut self, now: Time) {
        self.before = None;
        self.last = Mark { at: now, newest: self.newest, acked: self.acked };
    }
}
