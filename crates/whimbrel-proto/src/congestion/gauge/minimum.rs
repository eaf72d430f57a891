//! A sliding minimum.

use std::time::Duration;

use crate::Time;

/// A minimum over the last one to two buckets of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Minimum {
    current: Option<Duration>,
    previous: Option<Duration>,
    began: Time,
}

impl Minimum {
    pub(super) fn on_sample(&mut self, now: Time, value: Duration, bucket: Duration) {
        if now.since(self.began) >= bucket {
            self.previous = self.current.take();
            self.began = now;
        }
        self.current = Some(self.current.map_or(value, |least| least.min(value)));
    }

    pub(super) fn least(&self) -> Option<Duration> {
        match (self.current, self.previous) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
