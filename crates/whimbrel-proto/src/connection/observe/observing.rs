//! Runs the observer on the current state of the connection.

use super::observer::{KnownPath, Lifecycle};
use super::qlog::Metrics;
use crate::Time;
use crate::connection::paths::path::Path;
use crate::connection::state::Connection;

impl Connection {
    /// Returns what was recorded since the last call, as records of qlog. `None` if there is nothing, or
    /// [`TransportConfig::qlog`](crate::TransportConfig::qlog) is not set. Call this after each batch of packets. A
    /// recording holds no payload and no keys; it shows addresses, sizes and times.
    pub fn poll_qlog(&mut self) -> Option<String> {
        self.observer.as_mut()?.take_records()
    }

    /// Runs the observer, if there is one.
    pub(in crate::connection) fn observe(&mut self, now: Time) {
        let Some(mut observer) = self.observer.take() else { return };
        observer.look_at_lifecycle(
            now,
            Lifecycle {
                established: self.keys.is_some(),
                proven: self.peer.confirmed,
                ending: self.ending.name(),
                key_updates: self.keys.as_ref().map_or(0, |keys| keys.updates()),
                main: self.paths[self.paths.main()].id,
            },
        );
        for path in self.paths.iter() {
            observer.look_at_path(now, found(now, path), || path.recovery.lost_at(now));
        }
        observer.keep_paths(|id| self.paths.by_id(id).is_some());
        self.observer = Some(observer);
    }
}

fn found(now: Time, path: &Path) -> KnownPath {
    let recovery = &path.recovery;
    let congestion = recovery.controller().state();
    KnownPath {
        id: path.id,
        state: path.lifecycle.state(),
        remote: path.remote,
        metrics: Metrics {
            min_rtt: recovery.rtt.min(),
            smoothed_rtt: recovery.rtt.smoothed(),
            latest_rtt: recovery.rtt.latest(),
            window: congestion.window,
            in_flight: recovery.in_flight(),
            pacing_rate: congestion.pacing_rate,
        },
        phase: congestion.phase,
        lost: recovery.counters().lost_packets,
        told: (now, Vec::new()),
    }
}
