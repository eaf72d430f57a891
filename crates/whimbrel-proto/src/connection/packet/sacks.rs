//! SACKs of several paths. Each goes on its own path, or on the best one where its own is suspect, since a path may be
//! dead in one direction only.

use super::lengths::SACK_LEN;
use super::sent_block::SentBlock;
use crate::Time;
use crate::connection::paths::path_set::At;
use crate::connection::paths::path_state::PathState;
use crate::connection::state::Connection;
use crate::wire::Writer;

impl Connection {
    /// Returns whether SACKs sent on this path may not arrive.
    fn is_stranded(&self, at: At) -> bool {
        matches!(self.paths[at].lifecycle.state(), PathState::Suspect | PathState::Down | PathState::Closed)
    }

    /// Returns whether packets on `at` report what came on `of`. Packets on the path itself do, or those on the best
    /// path if SACKs on `of` may not arrive.
    fn reports(&self, at: At, of: At) -> bool {
        let best = self.paths.main();
        if self.is_stranded(of) && self.paths[best].lifecycle.is_usable() { at == best } else { at == of }
    }

    /// Returns whether a SACK is due that packets on `at` carry.
    pub(in crate::connection) fn is_sack_due(&self, now: Time, at: At) -> bool {
        let fits = self.paths[at].room() >= SACK_LEN;
        fits && self.paths.all().any(|of| self.paths[of].received.is_sack_due(now) && self.reports(at, of))
    }

    /// Returns whether a packet on `at` carries a SACK of `of`. It does if something is not reported yet.
    ///
    /// - What a suspect path reports of itself, the best path still reports, too.
    /// - While no path works, a `probe` and the answer to one repeat the SACKs of each failed path. One path may work
    ///   in this direction and another in that.
    /// - The answer on a new path does the same. The client that opens it may have lost the other paths, and would
    ///   retransmit what has long arrived.
    fn has_sack(&self, at: At, of: At, probe: bool) -> bool {
        let unreported = self.paths[of].received.has_unreported() && (self.reports(at, of) || at == of);
        let asks = probe || self.is_stranded(at);
        let none_works = asks && !self.paths[self.paths.main()].lifecycle.is_usable();
        let greets = self.paths[at].lifecycle.state() == PathState::Opening;
        unreported || none_works && self.is_stranded(of) || greets && at != of
    }

    /// Returns whether a packet on `at` carries any SACK.
    pub(in crate::connection) fn has_sacks(&self, at: At, probe: bool) -> bool {
        self.paths.all().any(|of| self.has_sack(at, of, probe))
    }

    /// Writes the SACKs that a packet on `at` carries.
    pub(in crate::connection) fn write_sacks(
        &mut self,
        now: Time,
        at: At,
        probe: bool,
        writer: &mut Writer<'_>,
    ) {
        for of in self.paths.all() {
            if !self.has_sack(at, of, probe) {
                continue;
            }
            let reports = self.reports(at, of);
            let path = &mut self.paths[of];
            let Some(largest) = path.received.write_sack(now, path.id().0, reports, writer) else { continue };
            path.pulse.on_sack_sent(now);
            self.building.add(if at == of {
                SentBlock::Sack(largest)
            } else {
                SentBlock::SackOf(path.id(), largest)
            });
        }
    }

    /// Returns whether a SACK that goes out now should ask for acknowledgement. What a path brings says nothing of the
    /// other direction, so nobody would notice that SACKs are lost there.
    pub(in crate::connection) fn sack_probes(&self, now: Time, at: At) -> bool {
        let path = &self.paths[at];
        self.paths.len() > 1
            && path.lifecycle.is_proven()
            && path.recovery.in_flight() == 0
            && path.pulse.unasked_for(now) > self.config.probe_interval
    }
}
