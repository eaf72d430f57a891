//! Asking the application whether a path that costs something may be used.

use super::cost::CostPolicy;
use super::path_set::At;
use crate::connection::event::Event;
use crate::connection::state::Connection;
use crate::{PathId, Time};

impl Connection {
    /// Answers [`Event::PathCostAsked`]. The answer may be changed at any time.
    pub fn allow_path(&mut self, now: Time, id: PathId, allowed: bool) {
        if let Some(at) = self.paths.by_id(id) {
            self.paths[at].cost.on_answer(allowed);
            self.review(now);
        }
    }

    /// Returns whether the cost policy permits the path to carry data.
    pub(in crate::connection) fn is_affordable(&self, at: At) -> bool {
        self.paths[at].cost.is_affordable(self.config.cost_policy)
    }

    /// Returns whether a path works and may be used. A path that is left by choice may not, once another works.
    pub(in crate::connection) fn is_at_hand(&self, at: At) -> bool {
        let works = |at: At| self.paths[at].lifecycle.is_usable() && self.is_affordable(at);
        let stays = |at: At| works(at) && !self.paths[at].leaving.is_wanted();
        works(at) && !(self.paths[at].leaving.is_by_choice() && self.paths.all().any(stays))
    }

    /// Asks the application about each path that it was not asked about yet.
    pub(in crate::connection) fn ask_for_consent(&mut self, now: Time) {
        if self.config.cost_policy != CostPolicy::Ask {
            return;
        }
        for path in self.paths.iter_mut() {
            if path.lifecycle.is_usable() && path.cost.ask() {
                let (path, cost) = (path.id(), path.cost.value());
                if let Some(observer) = &mut self.observer {
                    observer.on_consent_asked(now, path, cost);
                }
                self.events.push_back(Event::PathCostAsked { path, cost });
            }
        }
    }
}
