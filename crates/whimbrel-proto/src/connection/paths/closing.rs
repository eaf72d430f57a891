//! Closing paths, and telling the peer.

use super::ids::read_path;
use super::path_set::At;
use super::path_state::PathState;
use crate::connection::event::{EndpointEvent, Event};
use crate::connection::observe::path_cause::PathCause;
use crate::connection::observe::primary_cause::PrimaryCause;
use crate::connection::observe::stats::PathStats;
use crate::connection::packet::notes::Notes;
use crate::connection::state::Connection;
use crate::recovery::Fate;
use crate::wire::Reader;
use crate::{PathId, PeerMisbehaved, Side, Time};

impl Connection {
    /// Closes a path. It carries nothing new, and is closed once what is in flight on it has arrived or been moved to
    /// another. On a server this does nothing.
    ///
    /// The last path that works stays until another works, on which the peer can be told. Only the client closes paths:
    /// if each end closed another one at the same time, none would be left.
    pub fn close_path(&mut self, now: Time, id: PathId) {
        if self.side == Side::Client
            && let Some(at) = self.paths.by_id(id)
        {
            let path = &mut self.paths[at];
            path.leaving.on_chosen();
            self.supply.refuse(path.local(), path.remote());
            self.close_unwanted(now);
            self.review(now);
        }
    }

    /// Closes the paths that are not wanted, and those from addresses that this host has lost. Another path must work
    /// on which the peer can be told: the peer may know of no other, and an address that comes back finds its path.
    ///
    /// While the local address is still there, that other path must also be validated by the peer. Until then the peer
    /// goes on here, and would take answers from here for a sign that this path is in order.
    pub(super) fn close_unwanted(&mut self, now: Time) {
        let may_close = |connection: &Self, at: At| {
            let lost = connection.has_lost_address(at);
            let both_ways = |other: At| lost || connection.paths[other].proven_there.is_proven();
            let works = |other: At| {
                connection.is_at_hand(other) && !connection.is_unwanted(other) && both_ways(other)
            };
            connection.is_unwanted(at) && !connection.is_draining(at) && connection.paths.all().any(works)
        };
        while self.side == Side::Client
            && let Some(at) = self.paths.all().find(|at| may_close(self, *at))
        {
            self.close_at(now, at, self.why_unwanted(at));
        }
    }

    fn why_unwanted(&self, at: At) -> PathCause {
        match (self.has_lost_address(at), self.paths[at].leaving.is_by_choice()) {
            (true, _) => PathCause::InterfaceGone,
            (false, true) => PathCause::ClosedByApplication,
            (false, false) => PathCause::AddressWithdrawn,
        }
    }

    fn is_unwanted(&self, at: At) -> bool {
        let path = &self.paths[at];
        path.lifecycle.state() != PathState::Closed && (path.leaving.is_wanted() || self.has_lost_address(at))
    }

    /// Returns whether a path that is left by choice still has packets in flight. They are about to be acknowledged,
    /// and need not be sent again.
    fn is_draining(&self, at: At) -> bool {
        let path = &self.paths[at];
        let under_way = path.lifecycle.is_usable() && path.recovery.in_flight() > 0;
        path.leaving.is_by_choice() && under_way && !self.has_lost_address(at)
    }

    /// Stops sending on a path, and tells the peer. What the peer sends there until it knows is still accepted.
    pub(super) fn close_at(&mut self, now: Time, at: At, cause: PathCause) {
        self.note_path(self.paths[at].id(), cause);
        self.surrender(now, at);
        let path = &mut self.paths[at];
        if path.leaving.is_by_choice() {
            self.supply.refuse(path.local(), path.remote());
        }
        path.lifecycle.on_closed();
        path.on_closed();
        // Once the peer knows, it forgets the id. It then answers with a stateless reset, which must not end the
        // connection, not even if the path is used again: the CLOSE_PATH may have arrived.
        self.endpoint_events.extend(path.drop_token().map(EndpointEvent::PeerTokenUnused));
        self.events.push_back(Event::PathClosed(Box::new(path.stats())));
        self.tell_closed();
    }

    pub(in crate::connection) fn on_close_path(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let id = read_path(reader)?;
        if self.side == Side::Client {
            return Ok(());
        }
        if let Some(at) = self.paths.by_id(id) {
            if self.paths.len() == 1 {
                // The client has another path, or goes on with this one: CLOSE_PATH was in flight when the client had
                // to use the path again.
                return Ok(());
            }
            self.note_path(id, PathCause::ClosedByPeer);
            let stats = self.forget(now, at);
            self.events.push_back(Event::PathClosed(stats));
            self.review(now);
        } else if self.supply.give_up(id, now + self.paths.drain_time()) {
            // Nothing of the path has come, but it may yet.
            self.ask_for_ids();
        }
        Ok(())
    }

    /// Forgets the closed paths of which the peer knows that they are closed.
    pub(in crate::connection) fn forget_closed(&mut self, now: Time) {
        self.close_recalled(now);
        let known =
            |connection: &Self, at: At| !connection.paths[at].closing_notice.is_open(&connection.control);
        let mut any = false;
        while let Some(at) = self.paths.all().find(|at| known(self, *at)) {
            self.forget(now, at);
            any = true;
        }
        if any {
            self.open_missing(now);
        }
    }

    fn forget(&mut self, now: Time, at: At) -> Box<PathStats> {
        // It is not known here whether the path was closed by choice or its network is gone.
        if at == self.paths.main() {
            self.steering.changeover.on_failed(now, &self.paths[at]);
            self.note_primary(PrimaryCause::Left);
        }
        let mut path = self.paths.remove(at);
        if path.lifecycle.state() != PathState::Opening {
            // Its address can be tried again when nothing else works.
            self.supply.addresses.on_answered(path.remote());
        }
        path.lifecycle.on_closed();
        self.figures.past.get_or_insert_default().add(&path);
        self.supply.retire(path.local_id(), now + path.drain_time());
        self.endpoint_events.extend(path.token().map(EndpointEvent::PeerTokenUnused));
        let stats = path.stats();
        let (session, control) = (&mut self.session, &mut self.control);
        let mut notes = Notes::default();
        path.recovery.abandon(|item| Self::settle(now, Fate::Lost, item, session, control, &mut notes));
        self.part_company(now, stats.id);
        Box::new(stats)
    }
}
