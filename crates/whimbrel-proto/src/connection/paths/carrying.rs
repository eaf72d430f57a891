//! Which paths may carry data now.

use super::cost::CostPolicy;
use super::path_set::At;
use super::scheduler::{Backlog, Scheduler, View};
use crate::connection::state::Connection;
use crate::mutants::{Mutant, planted};

impl Connection {
    /// Returns whether a path may carry data now.
    pub(in crate::connection) fn carries(&self, at: At) -> bool {
        let path = &self.paths[at];
        if !path.lifecycle.is_proven() {
            return planted(Mutant::DataBeforeChallenge);
        }
        if !self.is_affordable(at) {
            return false;
        }
        if self.paths.len() == 1 {
            return true;
        }
        if !self.paths.all().any(|at| self.is_at_hand(at)) {
            // All paths are silent. Whichever probe arrives first may as well carry data.
            return true;
        }
        if !self.is_at_hand(at) {
            return false;
        }
        let mut views = [View::NONE; crate::connection::paths::path_set::MOST_PATHS];
        let views = self.views(&mut views);
        let waiting = Backlog { bytes: self.session.backlog(), lost: self.session.has_lost() };
        self.config.scheduler.may_carry(views, at.index(), self.paths.main().index(), waiting)
    }

    /// Returns the path on which lost data is retransmitted first, and which carries no new data.
    pub(in crate::connection) fn mender(&self) -> Option<At> {
        if self.paths.len() == 1 || !self.session.has_lost() {
            return None;
        }
        let mut views = [View::NONE; crate::connection::paths::path_set::MOST_PATHS];
        let views = self.views(&mut views);
        let next = self.config.scheduler.mends(views, self.paths.main().index())?;
        self.paths.all().nth(next)
    }

    /// Writes the scheduler's views of all paths into `room`, and returns them.
    pub(super) fn views<'a>(
        &self,
        room: &'a mut [View; crate::connection::paths::path_set::MOST_PATHS],
    ) -> &'a [View] {
        for (view, at) in room.iter_mut().zip(self.paths.all()) {
            *view = self.view(at);
        }
        &room[..self.paths.len()]
    }

    /// Returns the scheduler's view of a path.
    pub(in crate::connection) fn view(&self, at: At) -> View {
        let view = self.paths[at].view();
        if !self.paths[at].lifecycle.is_proven() {
            // It ranks after all others.
            return View { usable: false, standby: true, cost: u32::MAX, ..view };
        }
        let cost = if self.config.cost_policy == CostPolicy::Ignore { 0 } else { view.cost };
        View { usable: self.is_at_hand(at), cost, ..view }
    }
}
