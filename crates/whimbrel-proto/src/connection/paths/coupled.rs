//! Coupling the congestion controllers of paths that share a bottleneck.

use super::coupling::{LEAST_PART, SHORTEST_SPAN};
use super::path::Path;
use super::path_set::At;
use crate::congestion::{Member, company};
use crate::connection::state::Connection;
use crate::expected::Expected;
use crate::{PathId, Time};

impl Connection {
    /// Updates the coupling after an acknowledgement on a path.
    pub(in crate::connection) fn couple(&mut self, now: Time, at: At) {
        if self.paths.len() == 1 || !self.config.coupled {
            return;
        }
        let path = &mut self.paths[at];
        let load = path.load.get_or_insert_default();
        load.delays.on_sample(path.recovery.rtt.latest());
        let called = load.calls != path.recovery.controller().calls();
        let span = now.since(self.steering.coupling.span_began);
        let longest = self.paths.iter().map(|path| path.recovery.rtt.smoothed()).max().unwrap_or_default();
        if span >= longest.max(SHORTEST_SPAN) {
            self.steering.coupling.span_began = now;
            for path in self.paths.iter_mut() {
                let acked_bytes = path.recovery.counters().acked_bytes;
                path.load.get_or_insert_default().end_span(acked_bytes, span);
            }
            self.judge_pairs();
            self.tell_company(now);
        } else if called {
            self.tell_company(now);
        }
    }

    fn judge_pairs(&mut self) {
        for a in self.paths.all() {
            for b in self.paths.all().filter(|b| b.index() > a.index()) {
                self.steering.coupling.judge(&self.paths[a], &self.paths[b]);
            }
        }
    }

    /// Removes a path that is gone from the coupling.
    pub(in crate::connection) fn part_company(&mut self, now: Time, id: PathId) {
        self.steering.coupling.apart.retain(|(a, b)| *a != id && *b != id);
        self.tell_company(now);
    }

    /// Tells each path's controller about the other paths through its bottleneck.
    fn tell_company(&mut self, now: Time) {
        let all: u64 = self.paths.iter().map(Path::load_rate).sum();
        for path in self.paths.iter_mut() {
            let calls = path.recovery.controller().calls();
            path.load.iter_mut().for_each(|load| load.calls = calls);
        }
        for me in self.paths.all() {
            let mine = self.paths[me].id();
            let with_me = |path: &&Path| {
                let carries = path.lifecycle.is_usable() && path.load_rate() > all / LEAST_PART;
                path.id() == mine || carries && !self.steering.coupling.are_apart(path.id(), mine)
            };
            let (ids, members): (Vec<PathId>, Vec<Member>) =
                self.paths.iter().filter(with_me).map(|path| (path.id(), path.member())).unzip();
            let place = ids.iter().position(|id| *id == mine).expected("a path in its own company");
            let place = place.unwrap_or_default();
            let company = company(&members, place);
            self.paths[me].load.iter_mut().for_each(|load| load.coupled = company.is_some());
            self.paths[me].recovery.on_company(now, company);
        }
    }
}
