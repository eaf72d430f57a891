//! The timers of a connection: their table, when the next one fires, and what each does.

use std::time::Duration;

use super::event::{EndpointEvent, Event};
use super::lifecycle::close::{CloseReason, Ending};
use super::packet::notes::Notes;
use super::paths::path_set::{At, Main};
use super::state::Connection;
use crate::Time;

/// The interval at which an end that waits for credit, and has nothing else to send, probes the peer. The peer may be
/// sending the grant to an address that a NAT has dropped. Only a packet from this end shows it the new address.
const BLOCKED_INTERVAL: Duration = Duration::from_secs(2);

/// The timers of a connection, in the order in which they fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    /// The time limit of a pending connection, which a returning peer was granted and has not proven itself on.
    Pending,
    /// The time limit of a close, a suspension or a wait. After the connection's end, the time when its ids are freed.
    End,
    /// The idle timeout: the peer has sent nothing for that long, so the connection ends.
    Idle,
    /// The next dial of a peer that is out of reach.
    Dial,
    /// The retransmission of a handshake packet, or the handshake timeout.
    Opening,
    /// The earliest timer of the session: the end of a lifetime, the bandwidth cap of a tag, a gap of unreliable
    /// messages, or a stall to report.
    Session,
    /// The earliest timer of the paths. For each path: a SACK, the deadline of a packet, a probe, the pacer or a
    /// challenge. For all: the next attempt at a failed pair of addresses, the quota of new paths, and the return of data
    /// to a recovered path.
    Paths,
    /// The time when the id of a closed path is freed.
    Retired,
    /// The next comparison of the connection's quality with the application's thresholds.
    Quality,
    /// The keep-alive: both ends were silent for so long that a NAT may drop its mapping.
    KeepAlive,
    /// The time from which packets under the early keys are no longer accepted.
    EarlyKeys,
}

impl Timer {
    const ALL: [Self; 11] = [
        Self::Pending,
        Self::End,
        Self::Idle,
        Self::Dial,
        Self::Opening,
        Self::Session,
        Self::Paths,
        Self::Retired,
        Self::Quality,
        Self::KeepAlive,
        Self::EarlyKeys,
    ];

    /// Returns whether the timer runs while the peer is away.
    fn runs_detached(self) -> bool {
        matches!(self, Self::Pending | Self::End | Self::Dial | Self::Session)
    }
}

impl Connection {
    /// Returns when [`Connection::handle_timeout`] is due next. `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<Time> {
        Timer::ALL.into_iter().filter_map(|timer| self.due(timer)).min()
    }

    /// Returns when a timer fires. `None` if it does not run.
    fn due(&self, timer: Timer) -> Option<Time> {
        if self.ending.is_over() {
            return self.ending.timeout().filter(|_| timer == Timer::End);
        }
        if self.ending.is_detached() && !timer.runs_detached() {
            return None;
        }
        match timer {
            Timer::Pending => self.succession.timeout(),
            Timer::End => self.ending.timeout().filter(|_| self.is_close_timed()),
            Timer::Idle => Some(self.activity.received + self.patience()),
            Timer::Dial => self.succession.dial_timeout().filter(|_| self.ending.is_detached()),
            Timer::Opening => self.opening.as_ref().map(|opening| opening.timeout()),
            Timer::Session => self.session.poll_timeout(),
            Timer::Paths => self.paths_timeout(),
            Timer::Retired => self.supply.free_at(),
            Timer::Quality => self.next_quality_check(),
            Timer::KeepAlive => self.keep_alive_at(),
            Timer::EarlyKeys => self.early_keys.until,
        }
    }

    fn paths_timeout(&self) -> Option<Time> {
        let of_paths = self.paths.iter().filter_map(|path| path.timeout(self.keys.is_some())).min();
        let candidates =
            [of_paths, self.other_probes_at(), self.supply.timeout(), self.steering.changeover.timeout()];
        candidates.into_iter().flatten().min()
    }

    /// Handles every timer that is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        for timer in Timer::ALL {
            if self.due(timer).is_some_and(|due| due <= now) {
                self.fire(now, timer);
            }
        }
        if let Some(keys) = &mut self.keys {
            keys.expire(now);
        }
        self.observe(now);
    }

    fn fire(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::Pending => self.expire_pending(now),
            Timer::End => self.handle_end(now),
            Timer::Idle => self.on_out_of_service(now),
            // What is due is sent when the connection is next polled.
            Timer::Dial => {}
            Timer::Opening => self.handle_opening_timeout(now),
            Timer::Session => self.session.handle_timeout(now),
            Timer::Paths => self.handle_paths_timeout(now),
            Timer::Retired => self.free_retired(now),
            Timer::Quality => self.check_quality(now),
            Timer::KeepAlive => self.handle_keep_alive(now),
            Timer::EarlyKeys => self.handle_early_keys_over(),
        }
    }

    fn handle_paths_timeout(&mut self, now: Time) {
        for at in self.paths.all() {
            self.handle_path_timeout(now, at);
        }
        self.ask_left(now);
        self.review(now);
        self.close_unanswered(now);
    }

    fn handle_keep_alive(&mut self, now: Time) {
        self.activity.eliciting = now;
        self.paths[Main].pulse.want_answer();
        self.trim_if_idle();
    }

    fn handle_early_keys_over(&mut self) {
        self.early_keys.until = None;
        self.early_keys.open = None;
        // The memory that the handshake needed is not needed soon.
        self.trim_if_idle();
    }

    fn trim_if_idle(&mut self) {
        if self.in_flight() == 0 {
            self.trim();
        }
    }

    /// Returns whether the close timeout is running. It does not run while the peer is unreachable, nor before the peer
    /// has answered at all, for which the handshake has its own limit.
    fn is_close_timed(&self) -> bool {
        let leaves = self.ending.is_waiting() || matches!(self.ending, Ending::Suspending { .. });
        leaves || self.keys.is_some() && self.activity.unreachable_since.is_none()
    }

    /// Returns how long a silence must last to end the connection. A client that is not proven yet has the handshake
    /// timeout, however short the idle timeout is. It may miss several PONGs, and its early data is delivered by this
    /// connection or by none.
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
            path.pulse.on_eliciting(now);
            path.pulse.want_answer();
        }
        if let Some(rtt) = path.take_believed(now) {
            self.follow(now, at, rtt);
        }
        if let Some((remote, copied)) = self.paths[at].expire_challenge(now) {
            if let Some(observer) = &mut self.observer {
                observer.on_challenge_failed(now, self.paths[at].id(), remote, copied);
            }
            self.on_unanswered(now, at);
        }
    }

    /// Ends the connection, a wait or a suspension whose time is over.
    fn handle_end(&mut self, now: Time) {
        match &self.ending {
            Ending::Open => {}
            Ending::Over { .. } => {
                if !self.farewell.drained {
                    self.farewell.drained = true;
                    self.endpoint_events.push_back(EndpointEvent::Drained);
                }
                // No timer is due any more.
                self.ending = Ending::Over { until: Time::MAX };
            }
            Ending::Suspending { .. } => self.finish_suspend(now, None),
            Ending::Waiting { .. } => {
                self.finish(now, CloseReason::WaitExpired, None);
                self.farewell.last = None;
            }
            Ending::Detached { .. } => self.finish(now, CloseReason::TimedOut, None),
            // Whatever is still queued is given up.
            Ending::PeerFin { reason, .. } | Ending::FinAckSent { reason, .. } => {
                let why = CloseReason::Peer(reason.clone());
                self.finish(now, why, Some((crate::Cause::Shutdown, Default::default())));
            }
            Ending::Draining { .. } | Ending::FinSent { .. } => {
                self.finish(now, CloseReason::Local, Some((crate::Cause::Shutdown, Default::default())));
            }
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
                if let Some(observer) = &mut self.observer {
                    observer.on_reachability(now, None);
                }
                self.events.push_back(Event::AllPathsDown);
                self.events.push_back(Event::PeerUnreachable);
                self.open_refused(now);
            }
            Some(since) if !unreachable => {
                self.activity.unreachable_since = None;
                if let Some(observer) = &mut self.observer {
                    observer.on_reachability(now, Some(now.since(since)));
                }
                // An outage during a graceful close does not count against its timeout.
                self.ending.extend(now.since(since));
                self.events.push_back(Event::PeerReachable);
            }
            _ => {}
        }
    }
}
