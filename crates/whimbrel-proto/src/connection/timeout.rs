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

impl Connection {
    /// Returns when [`Connection::handle_timeout`] is due next. `None` if no timer runs.
    pub fn poll_timeout(&self) -> Option<Time> {
        Time::earliest(self.timers().map(|(_, due)| due))
    }

    /// Returns all timers, and when each fires. `None`: it does not run. While no connection carries the session, most
    /// do not, and after the connection's end only one does.
    ///
    /// This is asked several times a packet. Built as an array, it takes no call for each timer.
    #[inline]
    fn timers(&self) -> [(Timer, Option<Time>); 11] {
        let (lives, carries) = (!self.ending.is_over(), !self.ending.is_detached());
        [
            (Timer::Pending, self.succession.timeout().filter(|_| lives)),
            (Timer::End, self.ending.timeout().filter(|_| !lives || self.is_close_timed())),
            (Timer::Idle, carries.then(|| self.activity.received + self.patience())),
            (Timer::Dial, self.succession.dial_timeout().filter(|_| lives && !carries)),
            (Timer::Opening, self.opening.as_ref().filter(|_| carries).map(|opening| opening.timeout())),
            (Timer::Session, if lives { self.session.poll_timeout() } else { None }),
            (Timer::Paths, if carries { self.paths_timeout() } else { None }),
            (Timer::Retired, self.supply.free_at().filter(|_| carries)),
            (Timer::Quality, if carries { self.next_quality_check() } else { None }),
            (Timer::KeepAlive, if carries { self.keep_alive_at() } else { None }),
            (Timer::EarlyKeys, self.early_keys.until.filter(|_| carries)),
        ]
    }

    fn paths_timeout(&self) -> Option<Time> {
        let of_paths = self.paths.iter().filter_map(|path| path.timeout(self.keys.is_some())).min();
        let changeover = self.steering.changeover.timeout();
        Time::earliest([of_paths, self.other_probes_at(), self.supply.timeout(), changeover])
    }

    /// Handles every timer that is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        let mut timers = self.timers();
        for place in 0..timers.len() {
            let (timer, due) = timers[place];
            if due.is_some_and(|due| due <= now) {
                self.fire(now, timer);
                // It may have stopped or started those after it.
                timers = self.timers();
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
        self.keys.as_ref()?;
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
        let stopped = stopped.filter(|_| keep_alive.is_some());
        Time::earliest(
            [keep_alive, blocked, stopped].map(|interval| interval.map(|interval| quiet_since + interval)),
        )
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
