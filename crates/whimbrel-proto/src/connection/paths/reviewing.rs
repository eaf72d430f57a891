//! Judging paths by their recovery state, and choosing the primary.

use super::path_set::At;
use super::path_state::PathState;
use crate::Time;
use crate::connection::event::Event;
use crate::connection::packet::notes::Notes;
use crate::connection::state::Connection;
use crate::recovery::Fate;

impl Connection {
    /// Judges every path by its recovery state, moves what is in flight on one that fails, and chooses the primary.
    pub(in crate::connection) fn review(&mut self, now: Time) {
        self.steering.changeover.knows(self.paths[self.paths.main()].id());
        if self.paths.len() == 1
            && self.is_affordable(self.paths.main())
            && self.paths[self.paths.main()].lifecycle.state() == PathState::Active
        {
            self.check_reachable(now);
            if self.activity.unreachable_since.is_none() {
                self.steering.changeover.on_changed();
                self.tell_primary(now);
                return;
            }
        }
        let mut one_returned = false;
        for at in self.paths.all() {
            one_returned |= self.judge(now, at);
        }
        if one_returned {
            self.surrender_unusable(now);
        }
        if one_returned || self.paths.iter().any(|path| path.leaving.is_by_choice()) {
            self.close_unwanted(now);
        }
        self.check_reachable(now);
        self.ask_for_consent(now);
        let before = self.paths.main();
        let incumbent = self.incumbent(now);
        let wished = self.wished();
        let best = wished.map_or_else(|| self.best(now, incumbent), At::index);
        if self.paths.set_main(best) {
            self.steering.changeover.on_changed();
            self.note_primary(self.why_primary(before, incumbent, wished));
        }
        self.tell_primary(now);
    }

    fn tell_primary(&mut self, now: Time) {
        let primary = self.paths[self.paths.main()].id();
        if self.steering.changeover.tells(now, primary, &self.paths) {
            self.events.push_back(Event::PrimaryChanged(primary));
        }
    }

    /// Updates the state of a path. Returns whether it works again.
    fn judge(&mut self, now: Time, at: At) -> bool {
        let others_work = self.paths.all().any(|other| other != at && self.is_at_hand(other));
        let path = &mut self.paths[at];
        let id = path.id();
        let event = if path.recovery.is_unreachable() {
            path.lifecycle.on_unanswered().then_some(Event::PathDown(id))
        } else if path.recovery.is_silent() {
            // A path is suspected only if another works that can take over.
            (others_work && path.lifecycle.on_overdue()).then_some(Event::PathSuspect(id))
        } else {
            path.lifecycle.on_heard().then_some(Event::PathUp(id))
        };
        let fails = matches!(event, Some(Event::PathDown(_) | Event::PathSuspect(_)));
        if fails {
            path.on_failed(now);
        }
        let returned = matches!(event, Some(Event::PathUp(_)));
        self.events.extend(event);
        if fails && others_work {
            self.surrender(now, at);
        }
        returned
    }

    /// Counts what is in flight on a path as lost, so that it is sent on another.
    pub(super) fn surrender(&mut self, now: Time, at: At) {
        let (id, bytes) = (self.paths[at].id(), self.paths[at].recovery.in_flight());
        if let Some(observer) = self.observer.as_mut().filter(|_| bytes > 0) {
            observer.on_surrender(now, id, bytes);
        }
        let mut notes = Notes::default();
        let (session, control) = (&mut self.session, &mut self.control);
        self.paths[at].recovery.surrender(now, |item| {
            Self::settle(now, Fate::Lost, item, session, control, &mut notes);
        });
        self.take_notes(now, at, notes);
    }

    /// Moves what is in flight on paths that fail, now that another works. While none worked, probes on each of them
    /// carried the data that had waited longest.
    fn surrender_unusable(&mut self, now: Time) {
        for at in self.paths.all() {
            if matches!(self.paths[at].lifecycle.state(), PathState::Suspect | PathState::Down) {
                self.surrender(now, at);
            }
        }
    }
}
