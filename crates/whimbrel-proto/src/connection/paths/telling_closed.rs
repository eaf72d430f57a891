//! Telling the peer of closed paths, and using one again that it has not heard of.

use super::path::Path;
use super::path_set::At;
use super::path_state::PathState;
use crate::connection::observe::path_cause::PathCause;
use crate::connection::state::Connection;
use crate::{Side, Time};

impl Connection {
    /// Handles that the peer has the answer to its challenge on a path, and so may send there.
    pub(in crate::connection) fn on_proven_there(&mut self, now: Time) {
        self.close_unwanted(now);
        self.tell_closed();
    }

    /// Tells the peer of closed paths once it has another on which it may send. The peer forgets a path that it is told
    /// of. On one that it has not validated, it could neither send nor ask where this end is.
    pub(super) fn tell_closed(&mut self) {
        let lasts =
            |path: &Path| path.proven_there.is_proven() && path.lifecycle.state() != PathState::Closed;
        if !self.paths.iter().any(lasts) {
            return;
        }
        let control = &mut self.control;
        let closed = |path: &&mut Path| path.lifecycle.state() == PathState::Closed;
        for path in self.paths.iter_mut().filter(closed) {
            path.closing_notice.tell(path.id(), control);
        }
    }

    /// Reopens a closed path if no path works, and the peer goes on there because it has not heard of the closing. What
    /// comes from here shows the peer a working path, so it looks for no other. Both ends have validated each other
    /// there, and both go on there unless a CLOSE_PATH that was already sent arrives.
    pub(in crate::connection) fn reopen(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        let untold = path.closing_notice.is_open(&self.control);
        let stuck = self.side == Side::Client && self.activity.unreachable_since.is_some();
        let proven = path.is_validated() && path.proven_there.is_proven();
        let closed = path.lifecycle.state() == PathState::Closed && untold;
        if !(closed && proven && stuck) || self.has_lost_address(at) {
            return;
        }
        let path = &mut self.paths[at];
        path.closing_notice.recall(&mut self.control);
        path.lifecycle.on_reopened();
        self.on_path_up(now, at);
    }

    /// Closes reopened paths whose CLOSE_PATH arrived after all: the peer has forgotten them, unless it had no other.
    /// This end does not know which paths the peer had. So a path is closed once another works there, and the peer is
    /// told once more.
    pub(super) fn close_recalled(&mut self, now: Time) {
        let ends = |connection: &Self, at: At| {
            let path = &connection.paths[at];
            let arrived = path.closing_notice.came_after_all(&connection.control);
            let stays = |other: &Path| {
                other.id() != path.id()
                    && other.lifecycle.state() != PathState::Closed
                    && other.proven_there.is_proven()
            };
            let is_closed = path.lifecycle.state() == PathState::Closed;
            arrived && (is_closed || connection.paths.iter().any(stays))
        };
        while let Some(at) = self.paths.all().find(|at| ends(self, *at)) {
            let path = &mut self.paths[at];
            let is_closed = path.lifecycle.state() == PathState::Closed;
            path.closing_notice.settle_recalled(is_closed);
            if !is_closed {
                self.close_at(now, at, PathCause::ForgottenByPeer);
            }
        }
    }
}
