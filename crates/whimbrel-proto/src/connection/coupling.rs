//! Which paths share a bottleneck, found out while they carry, and what their controllers are told of each other.

use std::time::Duration;

use super::path::Path;
use super::{At, Connection};
use crate::congestion::{Calls, Delays, Member, company, share_queue};
use crate::{PathId, Time};

/// Round trips are compared in spans of this long, or the longest round trip where that is longer: paths of different length see the same
/// queue at different times.
const SHORTEST_SPAN: Duration = Duration::from_millis(100);

/// A path that carries less than this part of all is no company: it is probed, or waits for others to fail.
const LEAST_PART: u64 = 32;

/// What a path carried in the running span and before.
#[derive(Debug, Default)]
pub(super) struct Load {
    delays: Delays,
    acked_bytes: u64,
    /// Bytes a second, of about the last four spans.
    rate: u64,
    coupled: bool,
    calls: Calls,
}

impl Load {
    pub(super) fn is_coupled(&self) -> bool {
        self.coupled
    }

    fn end_span(&mut self, acked_bytes: u64, span: Duration) {
        let bytes = acked_bytes - std::mem::replace(&mut self.acked_bytes, acked_bytes);
        let rate = (bytes as f64 / span.as_secs_f64().max(0.001)) as u64;
        self.rate = (self.rate * 3 + rate) / 4;
        self.delays.end_span();
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Coupling {
    span_began: Time,
    /// Pairs that were seen not to share a bottleneck.
    apart: Vec<(PathId, PathId)>,
}

impl Coupling {
    fn are_apart(&self, a: PathId, b: PathId) -> bool {
        self.apart.contains(&(a.min(b), a.max(b)))
    }

    fn judge(&mut self, a: &Path, b: &Path) {
        let pair = (a.id.min(b.id), a.id.max(b.id));
        let (Some(mine), Some(theirs)) = (&a.load, &b.load) else { return };
        match share_queue(&mine.delays, &theirs.delays) {
            Some(true) => self.apart.retain(|known| *known != pair),
            Some(false) if !self.apart.contains(&pair) => self.apart.push(pair),
            _ => {}
        }
    }
}

impl Connection {
    /// Something was acknowledged on a path.
    pub(super) fn couple(&mut self, now: Time, at: At) {
        if self.paths.len() == 1 || !self.config.coupled {
            return;
        }
        let path = &mut self.paths[at];
        let load = path.load.get_or_insert_default();
        load.delays.on_sample(path.recovery.rtt.latest());
        let called = load.calls != path.recovery.controller().calls();
        let span = now.since(self.coupling.span_began);
        let longest = self.paths.iter().map(|path| path.recovery.rtt.smoothed()).max().unwrap_or_default();
        if span >= longest.max(SHORTEST_SPAN) {
            self.coupling.span_began = now;
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
                self.coupling.judge(&self.paths[a], &self.paths[b]);
            }
        }
    }

    /// A path is no more.
    pub(super) fn part_company(&mut self, now: Time, id: PathId) {
        self.coupling.apart.retain(|(a, b)| *a != id && *b != id);
        self.tell_company(now);
    }

    /// Tells each path's controller what the others through its bottleneck do.
    fn tell_company(&mut self, now: Time) {
        let all: u64 = self.paths.iter().map(Path::load_rate).sum();
        for path in self.paths.iter_mut() {
            let calls = path.recovery.controller().calls();
            path.load.iter_mut().for_each(|load| load.calls = calls);
        }
        for me in self.paths.all() {
            let mine = self.paths[me].id;
            let with_me = |path: &&Path| {
                let carries = path.lifecycle.is_usable() && path.load_rate() > all / LEAST_PART;
                path.id == mine || carries && !self.coupling.are_apart(path.id, mine)
            };
            let (ids, members): (Vec<PathId>, Vec<Member>) =
                self.paths.iter().filter(with_me).map(|path| (path.id, path.member())).unzip();
            let place = ids.iter().position(|id| *id == mine).unwrap_or_default();
            let company = company(&members, place);
            self.paths[me].load.iter_mut().for_each(|load| load.coupled = company.is_some());
            self.paths[me].recovery.on_company(now, company);
        }
    }
}

impl Path {
    /// Bytes a second that were acknowledged of late.
    fn load_rate(&self) -> u64 {
        self.load.as_ref().map_or(0, |load| load.rate)
    }

    fn member(&self) -> Member {
        let state = self.recovery.controller().state();
        Member {
            rate: self.load_rate(),
            window: state.window,
            rtt: self.recovery.rtt.smoothed(),
            base: state.min_rtt,
            calls: self.recovery.controller().calls(),
        }
    }
}
