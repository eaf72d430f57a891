//! When a path last sent and heard something, and whether it owes a sign of life.

use std::time::Duration;

use crate::Time;

/// The latest packets of a path.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Pulse {
    /// Whether a KEEP_ALIVE is due here.
    keep_alive_due: bool,
    eliciting: Time,
    received: Time,
    sack: Time,
}

impl Pulse {
    pub(in crate::connection) fn new(now: Time) -> Self {
        Self { keep_alive_due: false, eliciting: now, received: now, sack: Time::ZERO }
    }

    /// Makes a KEEP_ALIVE due, which asks for acknowledgement.
    pub(in crate::connection) fn want_answer(&mut self) {
        self.keep_alive_due = true;
    }

    pub(in crate::connection) fn is_answer_wanted(&self) -> bool {
        self.keep_alive_due
    }

    /// Handles that nothing need be answered any more: a KEEP_ALIVE goes out, or the path is closed.
    pub(in crate::connection) fn on_answer_asked(&mut self) {
        self.keep_alive_due = false;
    }

    /// Handles a packet that asks for acknowledgement, or a reason to wait for one as if it had been sent.
    pub(in crate::connection) fn on_eliciting(&mut self, now: Time) {
        self.eliciting = now;
    }

    pub(in crate::connection) fn on_received(&mut self, now: Time) {
        self.received = now;
    }

    pub(in crate::connection) fn on_sack_sent(&mut self, now: Time) {
        self.sack = now;
    }

    /// Returns for how long nothing that was sent asked for acknowledgement.
    pub(in crate::connection) fn unasked_for(&self, now: Time) -> Duration {
        now.since(self.eliciting)
    }

    /// Returns for how long nothing has come.
    pub(in crate::connection) fn unheard_for(&self, now: Time) -> Duration {
        now.since(self.received)
    }

    /// Returns for how long no SACK was sent.
    pub(in crate::connection) fn unreported_for(&self, now: Time) -> Duration {
        now.since(self.sack)
    }

    /// Returns since when nothing has come, and nothing that was sent asked for acknowledgement.
    pub(in crate::connection) fn quiet_since(&self) -> Time {
        self.eliciting.max(self.received)
    }
}
