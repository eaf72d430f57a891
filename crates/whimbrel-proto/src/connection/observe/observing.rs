//! Runs the observer on the current state of the connection.

use super::lifecycle_reports::Lifecycle;
use super::observer::Observer;
use super::path_cause::PathCause;
use super::path_reports::{ControllerState, KnownPath};
use super::primary_cause::PrimaryCause;
use super::qlog::Metrics;
use crate::connection::paths::path::Path;
use crate::connection::paths::path_set::Main;
use crate::connection::state::Connection;
use crate::{PathId, Time};

impl Connection {
    /// Returns what was recorded since the last call, as records of qlog. `None` if there is nothing, or
    /// [`TransportConfig::qlog`](crate::TransportConfig::qlog) is not set. Call this after each batch of packets. A
    /// recording holds no payload and no keys; it shows addresses, sizes and times.
    pub fn poll_qlog(&mut self) -> Option<String> {
        self.observer.as_mut()?.take_records()
    }

    /// Tells the observer, if there is one, why a path is about to change.
    pub(in crate::connection) fn note_path(&mut self, path: PathId, cause: PathCause) {
        if let Some(observer) = &mut self.observer {
            observer.note_path(path, cause);
        }
    }

    /// Tells the observer, if there is one, why the primary path is about to change.
    pub(in crate::connection) fn note_primary(&mut self, cause: PrimaryCause) {
        if let Some(observer) = &mut self.observer {
            observer.note_primary(cause);
        }
    }

    /// Runs the observer, if there is one.
    #[inline]
    pub(in crate::connection) fn observe(&mut self, now: Time) {
        if let Some(observer) = self.observer.take() {
            self.observe_with(now, observer);
        }
    }

    #[cold]
    fn observe_with(&mut self, now: Time, mut observer: Box<Observer>) {
        for note in self.session.take_notes() {
            observer.report_note(now, &note);
        }
        observer.look_at_lifecycle(
            now,
            &Lifecycle {
                established: self.keys.is_some(),
                proven: self.peer.confirmed,
                ending: self.ending.name(),
                key_updates: self.keys.as_ref().map_or(0, |keys| keys.updates()),
                main: self.paths[Main].id(),
                peer: self.peer.key,
                protocol: self.peer.protocol.as_deref().map_or(&[], |protocol| protocol),
                remote: self.paths[Main].remote(),
            },
        );
        for path in self.paths.iter() {
            observer.look_at_path(now, found(now, path), || path.recovery.lost_at(now));
        }
        observer.keep_paths(now, |id| self.paths.by_id(id).is_some());
        self.observer = Some(observer);
    }
}

fn found(now: Time, path: &Path) -> KnownPath {
    let recovery = &path.recovery;
    let congestion = recovery.controller().state();
    KnownPath {
        id: path.id(),
        state: path.lifecycle.state(),
        remote: path.remote(),
        local: path.local(),
        metrics: Metrics {
            min_rtt: recovery.rtt.min(),
            smoothed_rtt: recovery.rtt.smoothed(),
            latest_rtt: recovery.rtt.latest(),
            window: congestion.window,
            in_flight: recovery.in_flight(),
            pacing_rate: congestion.pacing_rate,
        },
        control: ControllerState {
            phase: congestion.phase,
            bandwidth: congestion.bandwidth,
            queue: congestion.queue,
            baseline_loss_ppm: congestion.baseline_loss_ppm,
        },
        mtu: path.mtu.current(),
        is_blackout: recovery.is_unreachable(),
        lost: recovery.counters().lost_packets,
        lost_by: recovery.lost_by(),
        told: (now, Vec::new()),
    }
}
