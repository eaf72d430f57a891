//! The states of a path: what it may be used for, and the named transitions between them.

/// The state of a path. The order of the variants is the order of use: an active path comes before a standby one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathState {
    /// The remote address has not answered a challenge yet. The path carries no data.
    Opening,
    /// In use.
    Active,
    /// Works, and is used when no active path works.
    Standby,
    /// Packets sent on it are overdue. It is probed, and what is in flight on it is sent another way.
    Suspect,
    /// Three probes went unanswered. It is probed less and less often.
    Down,
    /// Given up, and reported with its final statistics. Packets that still come are accepted until the other end
    /// knows.
    Closed,
}

/// A path's state, and whether it returns to active or standby when it answers.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct PathLifecycle {
    state: PathState,
    standby: bool,
}

impl PathLifecycle {
    /// The path of the handshake, whose address has answered.
    pub(in crate::connection) fn proven() -> Self {
        Self { state: PathState::Active, standby: false }
    }

    /// A new path that is being challenged.
    pub(in crate::connection) fn opening(standby: bool) -> Self {
        Self { state: PathState::Opening, standby }
    }

    pub(in crate::connection) fn state(self) -> PathState {
        self.state
    }

    /// Returns whether the remote address has answered and the path was not given up.
    pub(in crate::connection) fn is_proven(self) -> bool {
        !matches!(self.state, PathState::Opening | PathState::Closed)
    }

    /// Returns whether the path works now.
    pub(in crate::connection) fn is_usable(self) -> bool {
        matches!(self.state, PathState::Active | PathState::Standby)
    }

    pub(in crate::connection) fn is_standby(self) -> bool {
        self.standby
    }

    fn working(self) -> PathState {
        if self.standby { PathState::Standby } else { PathState::Active }
    }

    /// Records that the challenge was answered. Returns whether the state changed.
    pub(in crate::connection) fn on_validated(&mut self) -> bool {
        self.change(&[PathState::Opening], self.working())
    }

    /// Records that packets sent on the path are overdue. Returns whether the state changed.
    pub(in crate::connection) fn on_overdue(&mut self) -> bool {
        self.change(&[PathState::Active, PathState::Standby], PathState::Suspect)
    }

    /// Records that three probes went unanswered. Returns whether the state changed.
    pub(in crate::connection) fn on_unanswered(&mut self) -> bool {
        self.change(&[PathState::Active, PathState::Standby, PathState::Suspect], PathState::Down)
    }

    /// Records that something sent on the path was acknowledged. Returns whether the state changed.
    pub(in crate::connection) fn on_heard(&mut self) -> bool {
        self.change(&[PathState::Suspect, PathState::Down], self.working())
    }

    /// Sets whether the path is held in reserve. Returns whether the state changed.
    pub(in crate::connection) fn on_preference(&mut self, standby: bool) -> bool {
        self.standby = standby;
        self.change(&[PathState::Active, PathState::Standby], self.working())
    }

    /// Gives the path up. Returns whether the state changed.
    pub(in crate::connection) fn on_closed(&mut self) -> bool {
        use PathState::{Active, Down, Opening, Standby, Suspect};
        self.change(&[Opening, Active, Standby, Suspect, Down], PathState::Closed)
    }

    /// Takes a closed path into use again, because the peer goes on with it. Returns whether the state changed.
    pub(in crate::connection) fn on_reopened(&mut self) -> bool {
        self.change(&[PathState::Closed], self.working())
    }

    fn change(&mut self, from: &[PathState], to: PathState) -> bool {
        let changes = from.contains(&self.state) && self.state != to;
        if changes {
            self.state = to;
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::PathState::{Active, Closed, Down, Opening, Standby, Suspect};
    use super::*;

    type Transition = fn(&mut PathLifecycle) -> bool;

    /// Tries every transition in every state. `None` where it changes nothing.
    #[test]
    fn every_arrow() {
        let states = [Opening, Active, Standby, Suspect, Down, Closed];
        let transitions: [(&str, Transition, [Option<PathState>; 6]); 8] = [
            ("reopened", PathLifecycle::on_reopened, [None, None, None, None, None, Some(Active)]),
            ("validated", PathLifecycle::on_validated, [Some(Active), None, None, None, None, None]),
            ("overdue", PathLifecycle::on_overdue, [None, Some(Suspect), Some(Suspect), None, None, None]),
            (
                "unanswered",
                PathLifecycle::on_unanswered,
                [None, Some(Down), Some(Down), Some(Down), None, None],
            ),
            ("heard", PathLifecycle::on_heard, [None, None, None, Some(Active), Some(Active), None]),
            ("standby", |s| s.on_preference(true), [None, Some(Standby), None, None, None, None]),
            ("in use", |s| s.on_preference(false), [None, None, Some(Active), None, None, None]),
            (
                "closed",
                PathLifecycle::on_closed,
                [Some(Closed), Some(Closed), Some(Closed), Some(Closed), Some(Closed), None],
            ),
        ];
        for (name, transition, leads) in transitions {
            for (state, lead) in states.into_iter().zip(leads) {
                let mut lifecycle = PathLifecycle { state, standby: false };
                assert_eq!(transition(&mut lifecycle), lead.is_some(), "{name} of {state:?}");
                assert_eq!(lifecycle.state(), lead.unwrap_or(state), "{name} of {state:?}");
            }
        }
    }

    #[test]
    fn a_standby_path_comes_back_as_one() {
        let mut lifecycle = PathLifecycle::opening(true);
        assert!(lifecycle.on_validated());
        assert_eq!(lifecycle.state(), Standby);
        assert!(lifecycle.on_overdue());
        assert!(!lifecycle.is_usable());
        assert!(lifecycle.on_heard());
        assert_eq!(lifecycle.state(), Standby, "from suspicion");
        assert!(lifecycle.on_unanswered());
        assert!(lifecycle.on_heard());
        assert_eq!(lifecycle.state(), Standby, "from being down");
    }

    #[test]
    fn a_path_comes_back_as_what_is_wanted_by_then() {
        let mut lifecycle = PathLifecycle::opening(true);
        assert!(lifecycle.on_validated());
        assert!(lifecycle.on_unanswered());
        assert!(!lifecycle.on_preference(false), "a path that is down stays down whatever is wanted of it");
        assert!(lifecycle.on_heard());
        assert_eq!(lifecycle.state(), Active);
    }
}
