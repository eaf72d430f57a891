//! Collecting the statistics of a connection.

use super::stats::{ConnectionStats, Dropped, PathStats, Totals};
use crate::Time;
use crate::connection::packet::copies::DeadlineStats;
use crate::connection::paths::path_state::PathState;
use crate::connection::state::Connection;

impl Connection {
    /// Returns how many packets were dropped on arrival because they were not valid packets from the peer, for any
    /// reason.
    pub fn dropped_packets(&self) -> u64 {
        let Dropped { short, long, no_keys, forged, handshake, made_up: _ } = self.figures.dropped;
        short + long + no_keys + forged + handshake
    }
}

impl Connection {
    /// Returns the statistics as of `now`.
    pub fn stats(&self, now: Time) -> ConnectionStats {
        ConnectionStats {
            paths: self.path_stats(),
            total: self.totals(),
            dropped: self.figures.dropped,
            key_updates: self.keys.as_ref().map_or(0, |keys| keys.updates()),
            deadlines: DeadlineStats {
                saved: self.session.saved(),
                ..self.figures.deadlines.as_deref().copied().unwrap_or_default()
            },
            coding: self.coding.stats(),
            silent_for: now.since(self.activity.received),
        }
    }
}

impl Connection {
    /// Returns the totals over all present and past paths.
    pub(in crate::connection) fn totals(&self) -> Totals {
        let mut total = self.figures.past.as_deref().copied().unwrap_or_default();
        self.paths.iter().for_each(|path| total.add(path));
        total
    }

    fn path_stats(&self) -> Vec<PathStats> {
        let main = self.primary();
        let open = self.paths.all().filter(|at| self.paths[*at].lifecycle.state() != PathState::Closed);
        open.map(|at| PathStats { primary: at == main, ..self.paths[at].stats() }).collect()
    }
}
