//! Leaving a primary path that no longer works, and returning to it.

use super::path_set::{At, MOST_PATHS};
use super::scheduler::{Comparison, View, compare};
use crate::Time;
use crate::connection::observe::primary_cause::PrimaryCause;
use crate::connection::paths::path_state::PathState;
use crate::connection::state::Connection;

impl Connection {
    /// Returns the path that stays primary unless another is clearly better. That is the current primary or, once, the
    /// earlier one that works again.
    pub(in crate::connection) fn incumbent(&mut self, now: Time) -> At {
        let main = self.paths.main();
        if !self.is_at_hand(main) && !self.paths[main].leaving.is_wanted() {
            self.steering.changeover.on_failed(now, &self.paths[main]);
        }
        let Some(left) = &self.steering.changeover.left else { return main };
        let Some(at) = left.find(&self.paths).filter(|at| self.is_at_hand(*at)) else {
            self.steering.changeover.on_works_not();
            return main;
        };
        let returns = self.steering.changeover.on_works(now, at == main, &self.paths[at]);
        if returns { at } else { main }
    }

    /// Returns the index of the path to use as the primary, if neither end chose one.
    pub(in crate::connection) fn best(&mut self, now: Time, incumbent: At) -> usize {
        let mut views = [View::NONE; MOST_PATHS];
        let compared = compare(self.views(&mut views), incumbent.index());
        let slower = matches!(compared, Comparison::Slower(_));
        let long = self.steering.changeover.is_slower_for_long(now, slower);
        match compared {
            Comparison::Outranked(best) => best,
            Comparison::Slower(best) if long => best,
            Comparison::Slower(_) | Comparison::Stays => incumbent.index(),
        }
    }

    /// Returns the primary path as the application knows it. While it may only be held, another stands in for it.
    pub(in crate::connection) fn primary(&self) -> At {
        let told = self.steering.changeover.told().and_then(|told| self.paths.by_id(told));
        told.unwrap_or_else(|| self.paths.main())
    }

    /// Returns why the primary path has just become another than `before`.
    pub(in crate::connection) fn why_primary(
        &self,
        before: At,
        incumbent: At,
        wished: Option<At>,
    ) -> PrimaryCause {
        let main = self.paths.main();
        let former = &self.paths[before];
        if wished == Some(main) {
            let by_peer = self.steering.choice.by_peer;
            if by_peer { PrimaryCause::WishedByPeer } else { PrimaryCause::Wished }
        } else if incumbent == main {
            PrimaryCause::Returned
        } else if former.leaving.is_wanted() || former.lifecycle.state() == PathState::Closed {
            PrimaryCause::Left
        } else if !self.is_at_hand(before) {
            PrimaryCause::Failed
        } else {
            PrimaryCause::Better
        }
    }

    /// Probes the failed path when its time is over.
    pub(in crate::connection) fn ask_left(&mut self, now: Time) {
        if let Some(at) = self.steering.changeover.ask(now, &self.paths) {
            self.paths[at].pulse.want_answer();
        }
    }
}
