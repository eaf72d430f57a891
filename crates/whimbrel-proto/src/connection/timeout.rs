//! Timers: what is due, and when the next one is.

use std::time::Duration;

use super::event::{EndpointEvent, Event};
use super::lifecycle::close::{CloseReason, Ending};
use super::packet::notes::Notes;
use super::paths::path_set::{At, Main};
use super::state::Connection;
use crate::Time;

/// How often an end that waits for credit, and has nothing else to say, probes the peer. The peer may be sending the
/// grant to an address that a NAT has dropped. Only a packet from this end shows it the new address.
const BLOCKED_INTERVAL: Duration = Duration::from_secs(2);

impl Connection {
    /// Returns when [`Connection::handle_timeout`] is due next. `None`: not until something else happens.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.ending.is_over() {
            return self.ending.timeout();
        }
        let ending = self.ending.timeout().filter(|_| self.is_close_timed());
        if self.ending.is_detached() {
            let pending = self
                .succession
                .pending
                .iter()
                .map(|pending| pending.activity.received + pending.pending_patience());
            let others = self.dial_timeout().into_iter().chain(self.session.poll_timeout());
            return ending.into_iter().chain(pending).chain(others).min();
        }
        let opening = self.opening.as_ref().map(|opening| opening.timeout());
        let candidates = [
            ending,
            opening,
            self.paths.iter().filter_map(|path| path.timeout(self.keys.is_some())).min(),
            self.other_probes_at(),
            self.supply.attempts.timeout(),
            self.supply.quota.timeout(),
            self.steering.changeover.timeout(),
            self.supply.retired.timeout(),
            self.session.poll_timeout(),
            self.early_keys.until,
            self.keep_alive_at(),
            self.next_quality_check(),
            Some(self.activity.received + self.patience()),
        ];
        candidates.into_iter().flatten().min()
    }

    /// Returns whether the close timeout is running. It does not run while the peer is unreachable, nor before the peer
    /// has answered at all, for which the handshake has its own limit.
    fn is_close_timed(&self) -> bool {
        let leaves = self.ending.is_waiting() || matches!(self.ending, Ending::Suspending { .. });
        leaves || self.keys.is_some() && self.activity.unreachable_since.is_none()
    }

    /// Returns how long a silence ends the connection. A client that is not proven yet has the handshake timeout,
    /// however short the idle timeout is. It may miss several PONGs, and its early data is delivered by this connection
    /// or by none.
    fn patience(&self) -> Duration {
        let proven = self.peer.confirmed || self.side == crate::Side::Client;
        if proven { self.activity.idle_timeout } else { self.config.handshake_timeout }
    }

    fn keep_alive_at(&self) -> Option<Time> {
        // An end that closes and waits for the peer's queue sends nothing else that would show an outage.
        let closing = !self.ending.is_open();
        let blocked = (closing || self.session.is_blocked()).then_some(BLOCKED_INTERVAL);
        // The server waits a tenth longer, so that one probe serves both ends. A NAT is more likely at the client's
        // end, and it is the client's packet that renews its mapping.
        let keep_alive = self
            .config
            .keep_alive
            .map(|every| if self.side == crate::Side::Server { every + every / 10 } else { every });
        let quiet_since = self.activity.received.max(self.activity.eliciting);
        // When messages stop, a NAT may have given this end another address, which only a packet from here shows. The
        // longer ago they stopped, the less likely that is, so the interval grows.
        let stopped = (self.side == crate::Side::Client && self.activity.data > Time::ZERO)
            .then(|| self.config.probe_interval.max(quiet_since.since(self.activity.data)));
        let interval =
            keep_alive.into_iter().chain(blocked).chain(stopped.filter(|_| keep_alive.is_some())).min();
        let interval = interval.filter(|_| self.keys.is_some() && !self.ending.is_over())?;
        Some(quiet_since + interval)
    }

    /// Handles every timer that is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.handle_due(now);
        self.observe(now);
    }

    fn handle_due(&mut self, now: Time) {
        self.expire_pending(now);
        if self.handle_end(now) {
            return;
        }
        if self.ending.is_detached() {
            self.session.handle_timeout(now);
            return;
        }
        self.handle_opening_timeout(now);
        self.session.handle_timeout(now);
        for at in self.paths.all() {
            self.handle_path_timeout(now, at);
        }
        self.ask_left(now);
        self.review(now);
        self.close_unanswered(now);
        self.free_retired(now);
        self.check_quality(now);
        if let Some(keys) = &mut self.keys {
            keys.expire(now);
        }
        if self.keep_alive_at().is_some_and(|at| at <= now) {
            self.activity.eliciting = now;
            self.paths[Main].keep_alive_due = true;
            if self.in_flight() == 0 {
                self.trim();
            }
        }
        if self.early_keys.until.is_some_and(|until| until <= now) {
            self.early_keys.until = None;
            self.early_keys.open = None;
            if self.in_flight() == 0 {
                // Nothing is in flight: the memory that the handshake needed is not needed soon.
                self.trim();
            }
        }
    }

    /// Returns when the next probe is due on a path that carries nothing. `None` if there is only one path.
    fn other_probes_at(&self) -> Option<Time> {
        if self.paths.len() == 1 {
            return None;
        }
        let (interval, keep_alive) = (self.config.probe_interval, self.config.keep_alive);
        self.paths.iter().filter_map(|path| path.probe_at(self.activity.data, interval, keep_alive)).min()
    }

    fn handle_path_timeout(&mut self, now: Time, at: At) {
        if self.paths[at].recovery.timeout().is_some_and(|due| due <= now) {
            let mut notes = Notes::default();
            let (session, control) = (&mut self.session, &mut self.control);
            self.paths[at].recovery.handle_timeout(now, |fate, item| {
                Self::settle(now, fate, item, session, control, &mut notes);
            });
            self.take_notes(now, at, notes);
        }
        let (probe_interval, keep_alive) = (self.config.probe_interval, self.config.keep_alive);
        let several = self.paths.len() > 1;
        let path = &mut self.paths[at];
        if several
            && path.probe_at(self.activity.data, probe_interval, keep_alive).is_some_and(|due| due <= now)
        {
            path.last_eliciting = now;
            path.keep_alive_due = true;
        }
        if let Some(rtt) = path.take_believed(now) {
            self.follow(now, at, rtt);
        }
        if self.paths[at].expire_challenge(now) {
            self.on_unanswered(now, at);
        }
    }

    /// Ends the connection, a wait or a suspension whose time is over. Returns whether nothing else is to be done.
    fn handle_end(&mut self, now: Time) -> bool {
        match self.ending.timeout() {
            Some(at) if at <= now && self.ending.is_over() => {
                if !self.farewell.drained {
                    self.farewell.drained = true;
                    self.endpoint_events.push_back(EndpointEvent::Drained);
                }
                // No timer is due any more.
                self.ending = Ending::Over { until: Time::MAX };
                true
            }
            Some(at) if at <= now && matches!(self.ending, Ending::Suspending { .. }) => {
                self.finish_suspend(now, None);
                true
            }
            Some(at) if at <= now && matches!(self.ending, Ending::Waiting { .. }) => {
                self.finish(now, CloseReason::WaitExpired, None);
                self.farewell.last = None;
                true
            }
            Some(at) if at <= now && matches!(self.ending, Ending::Detached { .. }) => {
                self.finish(now, CloseReason::TimedOut, None);
                true
            }
            Some(at) if at <= now && self.is_close_timed() => {
                // The close timeout is over: whatever is still queued is given up.
                let why = match &self.ending {
                    Ending::PeerFin { reason, .. } | Ending::FinAckSent { reason, .. } => {
                        CloseReason::Peer(reason.clone())
                    }
                    _ => CloseReason::Local,
                };
                self.finish(now, why, Some((crate::Cause::Shutdown, Default::default())));
                true
            }
            _ if self.ending.is_over() => true,
            _ if self.ending.is_detached() => false,
            _ if self.activity.received + self.patience() <= now => {
                self.on_out_of_service(now);
                true
            }
            _ => false,
        }
    }

    /// Tells the application when three probes went unanswered on every path, and when that ends.
    pub(super) fn check_reachable(&mut self, now: Time) {
        let mut counted = self.paths.iter().filter(|path| path.lifecycle.is_proven()).peekable();
        let unreachable = counted.peek().is_some() && counted.all(|path| path.recovery.is_unreachable());
        drop(counted);
        match self.activity.unreachable_since {
            None if unreachable => {
                self.activity.unreachable_since = Some(now);
                self.events.push_back(Event::AllPathsDown);
                self.events.push_back(Event::PeerUnreachable);
                self.open_refused(now);
            }
            Some(since) if !unreachable => {
                self.activity.unreachable_since = None;
                // An outage during a graceful close does not count against its timeout.
                self.ending.extend(now.since(since));
                self.events.push_back(Event::PeerReachable);
            }
            _ => {}
        }
    }
}
