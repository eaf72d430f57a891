//! When packets were last received and sent.

use std::time::Duration;

use crate::Time;

/// When packets were last received and sent, and how long silence may last.
pub(in crate::connection) struct Activity {
    pub(in crate::connection) received: Time,
    /// When a packet that asks for acknowledgement was last sent.
    pub(in crate::connection) eliciting: Time,
    /// When messages last went in either direction. Paths that carry none are probed less and less often after that.
    pub(in crate::connection) data: Time,
    /// The shorter of both ends' idle timeouts.
    pub(in crate::connection) idle_timeout: Duration,
    pub(in crate::connection) unreachable_since: Option<Time>,
}

impl Activity {
    pub(in crate::connection) fn new(now: Time, idle_timeout: Duration) -> Self {
        Self { received: now, eliciting: now, data: Time::ZERO, idle_timeout, unreachable_since: None }
    }
}
