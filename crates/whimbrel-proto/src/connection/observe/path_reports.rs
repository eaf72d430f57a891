//! Reports of paths: their states and addresses, losses, congestion control, and the choice of the primary.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::observer::Observer;
use super::path_cause::PathCause;
use super::qlog::Metrics;
use super::record_fields::{Perhaps, ShownLocal};
use super::report::{report, told};
use crate::connection::paths::path_state::PathState;
use crate::recovery::LossTrigger;
use crate::{PathId, Time};

/// The state of a path.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KnownPath {
    pub(super) id: PathId,
    pub(super) state: PathState,
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) metrics: Metrics,
    pub(super) control: ControllerState,
    /// The packet size in use: UDP payload.
    pub(super) mtu: u16,
    /// Whether probes went unanswered for so long that what is lost does not mean congestion.
    pub(super) is_blackout: bool,
    /// Packets lost so far, and how the latest losses were noticed.
    pub(super) lost: u64,
    pub(super) lost_by: LossTrigger,
    /// Numbers of lost packets already reported, and when.
    pub(super) told: (Time, Vec<u64>),
}

/// The phase of congestion control, and the figures behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ControllerState {
    pub(super) phase: &'static str,
    /// Bytes a second.
    pub(super) bandwidth: u64,
    pub(super) queue: Duration,
    pub(super) baseline_loss_ppm: u32,
}

impl Observer {
    /// Reports changes of a path's state since the last call. `lost` returns the numbers of packets just declared
    /// lost.
    pub(super) fn look_at_path(&mut self, now: Time, mut found: KnownPath, lost: impl FnOnce() -> Vec<u64>) {
        let id = found.id;
        let at = self.known.paths.iter().position(|known| known.id == id);
        let known = at.map(|at| self.known.paths[at].clone());
        let before = known.as_ref();
        if before.is_none_or(|before| (before.state, before.remote) != (found.state, found.remote)) {
            self.report_state(now, before, &found);
        }
        if before.is_none_or(|before| before.control.phase != found.control.phase) {
            self.report_phase(now, id, before.map_or("", |before| before.control.phase), found.control);
        }
        if let Some(before) = before {
            if before.is_blackout != found.is_blackout {
                self.report_blackout(now, &found);
            }
            if before.mtu != found.mtu {
                report!(
                    self,
                    now,
                    debug,
                    "whimbrel::path",
                    "packet size changed",
                    "whimbrel:mtu_updated",
                    path = id.0,
                    old = u32::from(before.mtu),
                    new = u32::from(found.mtu)
                );
            }
        }
        let told_now = before.filter(|before| before.told.0 == now).map(|before| &before.told.1);
        if before.is_some_and(|before| before.lost != found.lost) {
            let numbers = lost();
            let news = numbers.iter().filter(|number| told_now.is_none_or(|told| !told.contains(number)));
            for number in news {
                self.report_loss(now, id, *number, found.lost_by);
            }
            found.told = (now, numbers);
        } else if let Some(told) = told_now {
            found.told = (now, told.clone());
        }
        if before.is_none_or(|before| before.metrics != found.metrics) {
            let metrics = found.metrics;
            told!(self, trace, "whimbrel::congestion", path = id.0, ?metrics, "metrics");
            if let Some(qlog) = &mut self.qlog {
                qlog.metrics(now, id, &metrics);
            }
        }
        match at {
            Some(at) => self.known.paths[at] = found,
            None => self.known.paths.push(found),
        }
    }

    fn report_state(&mut self, now: Time, before: Option<&KnownPath>, found: &KnownPath) {
        let (old, moved) =
            (before.map(|before| before.state), before.is_some_and(|before| before.remote != found.remote));
        let cause = self.take_cause(found.id);
        let cause = cause.unwrap_or_else(|| PathCause::shown(old, found.state, moved));
        report!(
            self, now, debug, "whimbrel::path", "path changed", "whimbrel:path_updated",
            path = found.id.0, reason = cause.words();
            old = Perhaps(old.map(name)), new = name(found.state), remote = found.remote, local = ShownLocal(found.local)
        );
    }

    fn take_cause(&mut self, path: PathId) -> Option<PathCause> {
        let noted = self.causes.paths.iter().position(|(noted, _)| *noted == path)?;
        Some(self.causes.paths.swap_remove(noted).1)
    }

    fn report_phase(&mut self, now: Time, path: PathId, old: &'static str, control: ControllerState) {
        report!(
            self,
            now,
            debug,
            "whimbrel::congestion",
            "congestion control changed phase",
            "recovery:congestion_state_updated",
            path = path.0,
            old = old,
            new = control.phase,
            bandwidth = control.bandwidth,
            queue_us = control.queue.as_micros() as u64,
            baseline_loss_ppm = control.baseline_loss_ppm
        );
    }

    fn report_blackout(&mut self, now: Time, found: &KnownPath) {
        let reason = if found.is_blackout {
            "three probes were not answered: what is lost now does not mean congestion"
        } else {
            "the peer answers again"
        };
        report!(
            self,
            now,
            debug,
            "whimbrel::congestion",
            "persistent congestion",
            "whimbrel:persistent_congestion",
            path = found.id.0,
            begins = found.is_blackout,
            lost_packets = found.lost,
            reason = reason
        );
    }

    fn report_loss(&mut self, now: Time, path: PathId, number: u64, trigger: LossTrigger) {
        told!(
            self,
            trace,
            "whimbrel::packet",
            path = path.0,
            number,
            reason = noticed(trigger),
            "packet lost"
        );
        if let Some(qlog) = &mut self.qlog {
            qlog.lost(now, path, number, trigger);
        }
    }

    /// Forgets paths that no longer exist. Of those that were not known to be closed, it reports the end.
    pub(super) fn keep_paths(&mut self, now: Time, is_there: impl Fn(PathId) -> bool) {
        while let Some(at) = self.known.paths.iter().position(|known| !is_there(known.id)) {
            let gone = self.known.paths.swap_remove(at);
            if gone.state != PathState::Closed {
                self.report_state(now, Some(&gone), &KnownPath { state: PathState::Closed, ..gone.clone() });
            }
        }
        // Paths that came and went between two looks.
        self.causes.paths.clear();
    }

    /// Reports another primary path.
    pub(super) fn look_at_primary(&mut self, now: Time, path: PathId) {
        let cause = self.causes.primary.take();
        if self.known.main == Some(path) {
            return;
        }
        let Some(old) = self.known.main.replace(path) else {
            report!(
                self, now, debug, "whimbrel::path", "primary path changed", "whimbrel:primary_updated",
                path = path.0, reason = "it is the first"; old = "none"
            );
            return;
        };
        let reason = cause.map_or("unknown", |cause| cause.words());
        report!(
            self, now, info, "whimbrel::path", "primary path changed", "whimbrel:primary_updated",
            path = path.0, reason = reason; old = old.0
        );
    }

    /// Reports that what was in flight on a path is sent on others.
    pub(in crate::connection) fn on_surrender(&mut self, now: Time, path: PathId, bytes: u64) {
        report!(
            self,
            now,
            debug,
            "whimbrel::path",
            "what is in flight goes another way",
            "whimbrel:flight_surrendered",
            path = path.0,
            bytes = bytes
        );
    }

    /// Reports a challenge to an address from which the peer's packets come.
    pub(in crate::connection) fn on_challenge(&mut self, now: Time, path: PathId, remote: SocketAddr) {
        report!(
            self, now, debug, "whimbrel::path", "address challenged", "whimbrel:address_challenged",
            path = path.0, reason = "packets come from there"; remote = remote
        );
    }

    /// Reports an address that answered no challenge.
    pub(in crate::connection) fn on_challenge_failed(
        &mut self,
        now: Time,
        path: PathId,
        remote: SocketAddr,
        copied: bool,
    ) {
        let reason = if copied { "somebody relays the peer's packets" } else { "no answer came from there" };
        report!(
            self, now, debug, "whimbrel::path", "challenge failed", "whimbrel:challenge_failed",
            path = path.0, reason = reason; remote = remote
        );
    }

    /// Reports an address that came or went, at this end or at the peer's.
    pub(in crate::connection) fn on_address(
        &mut self,
        now: Time,
        whose: &'static str,
        what: &'static str,
        address: SocketAddr,
    ) {
        report!(
            self, now, debug, "whimbrel::path", "address changed", "whimbrel:address_updated",
            whose = whose, what = what; address = address
        );
    }

    /// Reports the operating system's word that a link came up.
    pub(in crate::connection) fn on_link_up(&mut self, now: Time) {
        report!(
            self,
            now,
            debug,
            "whimbrel::path",
            "silent paths are probed",
            "whimbrel:link_up",
            reason = "the system reports that a link came up"
        );
    }

    /// Reports that the application must allow a path before it carries data.
    pub(in crate::connection) fn on_consent_asked(&mut self, now: Time, path: PathId, cost: u32) {
        report!(
            self,
            now,
            info,
            "whimbrel::path",
            "a path waits for consent, since it costs something",
            "whimbrel:consent_asked",
            path = path.0,
            cost = cost
        );
    }

    /// Reports that no path works any more, or that one does again after this time.
    pub(in crate::connection) fn on_reachability(&mut self, now: Time, outage: Option<Duration>) {
        match outage {
            None => report!(
                self,
                now,
                info,
                "whimbrel::connection",
                "the peer is out of reach",
                "whimbrel:peer_unreachable",
                reason = "on every path three probes were not answered"
            ),
            Some(outage) => report!(
                self,
                now,
                info,
                "whimbrel::connection",
                "the peer is within reach again",
                "whimbrel:peer_reachable",
                outage_ms = outage.as_millis() as u64
            ),
        }
    }
}

const fn name(state: PathState) -> &'static str {
    match state {
        PathState::Opening => "Opening",
        PathState::Active => "Active",
        PathState::Standby => "Standby",
        PathState::Suspect => "Suspect",
        PathState::Down => "Down",
        PathState::Closed => "Closed",
    }
}

#[cfg(feature = "tracing")]
const fn noticed(trigger: LossTrigger) -> &'static str {
    match trigger {
        LossTrigger::Acknowledgement => "later packets were acknowledged",
        LossTrigger::Deadline => "its deadline has passed",
    }
}
