//! Whether the connections of an endpoint have to share the time of those who serve them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use whimbrel_proto::Time;

/// How long other connections must be quiet before a connection counts as alone again.
const QUIET: Duration = Duration::from_millis(4);

/// Whether several connections of an endpoint were served lately.
#[derive(Debug, Default)]
pub(crate) struct Company {
    /// When that ends, in nanoseconds on the endpoint's clock.
    until: AtomicU64,
}

impl Company {
    pub(crate) fn note(&self, now: Time) {
        self.until.store((now + QUIET).as_nanos(), Ordering::Relaxed);
    }

    /// Returns whether other connections may wait, so that turns must be short.
    pub(crate) fn is_there(&self, now: Time) -> bool {
        now.as_nanos() < self.until.load(Ordering::Relaxed)
    }
}
