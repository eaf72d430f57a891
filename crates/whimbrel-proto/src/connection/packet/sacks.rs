//! SACKs of several paths: each returns on its own path, and where that is suspect on the best one, since a path may be dead in one
//! direction only.

use super::lengths::SACK_LEN;
use super::sent_block::SentBlock;
use crate::Time;
use crate::connection::paths::path_set::At;
use crate::connection::paths::path_state::PathState;
use crate::connection::state::Connection;
use crate::wire::Writer;

impl Connection {
    /// SACKs on it may not come through.
    fn is_stranded(&self, at: At) -> bool {
        matches!(self.paths[at].lifecycle.state(), PathState::Suspect | PathState::Down | PathState::Closed)
    }

    /// Packets on `at` report what came on `of`: its own do, those of the best path if its own may not come through.
    fn reports(&self, at: At, of: At) -> bool {
        let best = self.paths.main();
        if self.is_stranded(of) && self.paths[best].lifecycle.is_usable() { at == best } else { at == of }
    }

    /// A SACK of any path is due that packets on `at` carry.
    pub(in crate::connection) fn is_sack_due(&self, now: Time, at: At) -> bool {
        let fits = self.paths[at].validation.room() >= SACK_LEN;
        fits && self.paths.all().any(|of| self.paths[of].received.is_sack_due(now) && self.reports(at, of))
    }

    /// A packet on `at` has a SACK of `of`: what is not reported yet. What a suspect path says of itself, the best one still has to say;
    /// while none works, a `probe`, and the answer to one, repeats what came on each, since one may work this way and another that; and so
    /// does what answers on a new path: who opens it may have lost the others, and would send again what has long arrived.
    fn has_sack(&self, at: At, of: At, probe: bool) -> bool {
        let unreported = self.paths[of].received.has_unreported() && (self.reports(at, of) || at == of);
        let asks = probe || self.is_stranded(at);
        let none_works = asks && !self.paths[self.paths.main()].lifecycle.is_usable();
        let greets = self.paths[at].lifecycle.state() == PathState::Opening;
        unreported || none_works && self.is_stranded(of) || greets && at != of
    }

    /// A packet on `at` has SACKs.
    pub(in crate::connection) fn has_sacks(&self, at: At, probe: bool) -> bool {
        self.paths.all().any(|of| self.has_sack(at, of, probe))
    }

    /// Writes SACKs.
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
            let Some(largest) = path.received.write_sack(now, path.id.0, reports, writer) else { continue };
            path.last_sack = now;
            self.building.items.push(if at == of {
                SentBlock::Sack(largest)
            } else {
                SentBlock::SackOf(path.id, largest)
            });
        }
    }

    /// A SACK that goes out now should ask for acknowledgement: what a path brings says nothing of the other direction, and nobody would
    /// miss SACKs that are lost there.
    pub(in crate::connection) fn sack_probes(&self, now: Time, at: At) -> bool {
        let path = &self.paths[at];
        self.paths.len() > 1
            && path.lifecycle.is_proven()
            && path.recovery.in_flight() == 0
            && now.since(path.last_eliciting) > self.config.probe_interval
    }
}
