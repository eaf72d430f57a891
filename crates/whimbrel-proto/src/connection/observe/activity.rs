//! When the ends were heard last.

use std::time::Duration;

use crate::Time;

/// See the module.
pub(in crate::connection) struct Activity {
    pub(in crate::connection) received: Time,
    /// A packet that asks for an answer was sent.
    pub(in crate::connection) eliciting: Time,
    /// When messages last went either way: paths that carry none are probed less and less often after it.
    pub(in crate::connection) data: Time,
    /// The shorter of what both ends want.
    pub(in crate::connection) idle_timeout: Duration,
    pub(in crate::connection) unreachable_since: Option<Time>,
}

impl Activity {
    pub(in crate::connection) fn new(now: Time, idle_timeout: Duration) -> Self {
        Self { received: now, eliciting: now, data: Time::ZERO, idle_timeout, unreachable_since: None }
    }
}
