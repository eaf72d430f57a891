//! The rate at which messages are published.

use std::time::Duration;

use crate::Time;

/// The rate of publishing, averaged over about a span of time.
#[derive(Debug)]
pub(super) struct Rate {
    span: Duration,
    per_second: f64,
    at: Time,
}

impl Rate {
    pub(super) fn new(span: Duration) -> Self {
        Self { span: span.max(Duration::from_millis(1)), per_second: 0.0, at: Time::ZERO }
    }

    /// A message was published.
    pub(super) fn note(&mut self, now: Time) {
        let span = self.span.as_secs_f64();
        self.per_second = self.per_second * (-now.since(self.at).as_secs_f64() / span).exp() + 1.0 / span;
        self.at = now;
    }

    /// The number of messages that are published in the span.
    pub(super) fn in_span(&self) -> u64 {
        (self.per_second * self.span.as_secs_f64()).ceil() as u64
    }
}
