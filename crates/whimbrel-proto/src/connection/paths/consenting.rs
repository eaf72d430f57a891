//! Asking the application whether a path that costs something may be used.

use super::cost::{Consent, CostPolicy};
use super::path_set::At;
use crate::connection::event::Event;
use crate::connection::state::Connection;
use crate::{PathId, Time};

impl Connection {
    /// Answers [`Event::PathCostAsked`]. The answer may be changed at any time.
    pub fn allow_path(&mut self, now: Time, id: PathId, allowed: bool) {
        if let Some(at) = self.paths.by_id(id) {
            self.paths[at].consent = if allowed { Consent::Given } else { Consent::Refused };
            self.review(now);
        }
    }

    /// Returns whether the cost policy permits the path to carry data.
    pub(in crate::connection) fn is_affordable(&self, at: At) -> bool {
        let path = &self.paths[at];
        match self.config.cost_policy {
            CostPolicy::Ignore | CostPolicy::CheapFirst => true,
            CostPolicy::NeverAbove(most) => path.cost <= most,
            CostPolicy::Ask => path.cost == 0 || path.consent == Consent::Given,
        }
    }

    /// Returns whether a path works and may be used. A path that is left by choice may not, once another works.
    pub(in crate::connection) fn is_at_hand(&self, at: At) -> bool {
        let works = |at: At| self.paths[at].lifecycle.is_usable() && self.is_affordable(at);
        let stays = |at: At| works(at) && !self.paths[at].unwanted;
        works(at) && !(self.paths[at].lingers && self.paths.all().any(stays))
    }

    /// Asks the application about each path that it was not asked about yet.
    pub(in crate::connection) fn ask_for_consent(&mut self, now: Time) {
        if self.config.cost_policy != CostPolicy::Ask {
            return;
        }
        for path in self.paths.iter_mut() {
            if path.cost > 0 && path.consent == Consent::Unasked && path.lifecycle.is_usable() {
                path.consent = Consent::Asked;
                if let Some(observer) = &mut self.observer {
                    observer.on_consent_asked(now, path.id, path.cost);
                }
                self.events.push_back(Event::PathCostAsked { path: path.id, cost: path.cost });
            }
        }
    }
}
