//! Opening, judging and closing paths. This file is about the set of paths; `path` is about a single one.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;

use super::addresses::{Change, LocalAddress, read_add};
use super::cost::CostPolicy;
use super::ids::{Ours, Theirs, read_new_cid, read_path, write_new_cid};
use super::path::{Ends, Path};
use super::path_set::At;
use super::path_state::{PathLifecycle, PathState};
use super::scheduler::{Scheduler, View, Waiting};
use super::{pairing, scheduler};
use crate::connection::event::{EndpointEvent, Event};
use crate::connection::observe::path_cause::PathCause;
use crate::connection::observe::primary_cause::PrimaryCause;
use crate::connection::observe::stats::PathStats;
use crate::connection::packet::lengths::{CHALLENGE_LEN, OPENING_LEN};
use crate::connection::packet::notes::Notes;
use crate::connection::state::Connection;
use crate::crypto::ResetToken;
use crate::expected::Expected;
use crate::mutants::{Mutant, planted};
use crate::recovery::Fate;
use crate::wire::{Reader, block};
use crate::{ConnectionId, PathId, PeerMisbehaved, Side, Time};

/// With this many notices not acknowledged yet, or ids not free yet, no ids for further paths are given. A peer that
/// opens and closes paths without end must wait until what it left behind is cleared.
const MOST_LOOSE_ENDS: usize = 32;

/// If no path works, a server challenges one again after a quarter of the silence there, within these limits.
const SOONEST_AGAIN: Duration = Duration::from_millis(250);
const LATEST_AGAIN: Duration = Duration::from_secs(10);

/// Why a path cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// The server does not open paths. Announce the address instead, and the client opens a path to it.
    #[error("only the side that connected opens paths; announce the address, and the client opens one to it")]
    NotClient,
    /// The handshake is not complete, or the peer has given no ids for further paths yet.
    #[error("no further path can be opened yet: the peer has given no ids for one")]
    NotReady,
    /// There are as many paths as the settings allow.
    #[error("there are as many paths as `max_paths` allows")]
    TooMany,
    /// The connection is over, or its peer is out of reach or suspended.
    #[error("the connection is over or its peer away: open paths once it is reattached or resumed")]
    Away,
}

/// The path that a packet is for.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) enum Destination {
    Path(At),
    /// The packet would open this path.
    New(PathId),
}

impl Connection {
    /// Sets all addresses of this host. Call it whenever they change: the peer is told, and a client opens and closes
    /// paths accordingly. A path whose address is gone is kept until another works, since the address may come back.
    pub fn set_local_addresses(&mut self, now: Time, addresses: &[LocalAddress]) {
        let detached = self.ending.is_waiting();
        // A connection that is closing must still deliver what is queued, wherever the host moves meanwhile.
        if self.ending.is_over() {
            return;
        }
        let (control, events) = (&mut self.control, &mut self.events);
        let mut observer = self.observer.as_deref_mut();
        self.supply.addresses.set_ours(addresses, |change, block| {
            control.notice(block);
            if let Some(observer) = &mut observer {
                observer.on_address(now, "ours", change.word(), change.address());
            }
            events.push_back(match change {
                Change::Added(address) => Event::LocalAddressAdded(address),
                Change::Removed(address) => Event::LocalAddressRemoved(address),
            });
        });
        if detached {
            self.dial_now(now);
            return;
        }
        for at in self.paths.all() {
            let path = &mut self.paths[at];
            if let Some(settings) = self.supply.addresses.settings(path.local()) {
                path.cost.set(settings.cost);
                path.standby_wanted(settings.standby);
            }
        }
        let ours = &self.supply.addresses;
        self.supply.attempts.keep(|ip| ours.has(ip));
        self.close_unwanted(now);
        self.open_missing(now);
        self.review(now);
    }

    /// Opens a path from `local` to `remote`, beside the existing ones. Without `local`, the system chooses the
    /// address.
    ///
    /// # Errors
    /// [`OpenPathError`] if no path can be opened now. It says what has to happen first.
    pub fn open_path(
        &mut self,
        now: Time,
        local: Option<IpAddr>,
        remote: SocketAddr,
    ) -> Result<PathId, OpenPathError> {
        if self.side == Side::Server {
            return Err(OpenPathError::NotClient);
        }
        if self.ending.is_detached() {
            return Err(OpenPathError::Away);
        }
        if self.paths.len() >= self.most_paths() {
            return Err(OpenPathError::TooMany);
        }
        let id = self.supply.ids.ready().filter(|_| self.peer.confirmed).ok_or(OpenPathError::NotReady)?;
        let at = self.add_path(now, id, remote, local).ok_or(OpenPathError::NotReady)?;
        let challenge = self.supply.challenges.draw();
        let length = self.opening_len();
        self.paths[at].ask(now, challenge, length);
        Ok(id)
    }

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
            self.supply.attempts.refuse(path.local(), path.remote());
            self.close_unwanted(now);
            self.review(now);
        }
    }

    /// Returns which path a packet to `id` is for. `None` if that path is gone.
    pub(in crate::connection) fn target(&self, id: ConnectionId) -> Option<Destination> {
        if let Some(at) = self.paths.by_local_id(id) {
            return Some(Destination::Path(at));
        }
        if let Some(path) = self.supply.ids.expected(id) {
            let room = self.paths.len() < self.most_paths();
            return (self.side == Side::Server && room).then_some(Destination::New(path));
        }
        // The id of a PING that began the session again stands for the primary path.
        (!self.supply.retired.contains(id)).then_some(Destination::Path(self.paths.main()))
    }

    /// Accepts a path that the client opened: its first packet opened under our keys.
    pub(in crate::connection) fn accept_path(
        &mut self,
        now: Time,
        id: PathId,
        remote: SocketAddr,
        local: Option<IpAddr>,
    ) -> Option<At> {
        let at = self.add_path(now, id, remote, local)?;
        self.note_path(id, PathCause::OpenedByPeer);
        let challenge = self.supply.challenges.draw();
        let path = &mut self.paths[at];
        path.on_opened_by_peer(now, challenge);
        Some(at)
    }

    fn most_paths(&self) -> usize {
        usize::from(self.config.max_paths).min(crate::connection::paths::path_set::MOST_PATHS)
    }

    fn add_path(&mut self, now: Time, id: PathId, remote: SocketAddr, local: Option<IpAddr>) -> Option<At> {
        let (Ours { id: local_id, told, .. }, Theirs { id: remote_id, token }) = self.supply.ids.open(id)?;
        let settings = self.supply.addresses.settings(local);
        let lifecycle = PathLifecycle::opening(settings.is_some_and(|settings| settings.standby));
        let ends = Ends { id, remote, local, local_id, remote_id };
        let mut path = Path::new(now, ends, &self.config, lifecycle);
        path.cost.set(settings.map_or(0, |settings| settings.cost));
        path.on_token(token);
        if self.side == Side::Client && self.control.holds_notice(told) {
            path.on_announced(told);
        }
        path.mtu.limit(self.peer.max_packet);
        self.ask_for_ids();
        Some(self.paths.push(path))
    }

    /// Handles a path whose remote address has answered. Its stateless reset token counts from now on.
    pub(in crate::connection) fn on_path_up(&mut self, now: Time, at: At) {
        let path = &mut self.paths[at];
        path.pulse.on_eliciting(now);
        self.supply.attempts.on_answered(path.local(), path.remote());
        self.endpoint_events.extend(path.token().map(EndpointEvent::PeerResetToken));
        self.events.push_back(Event::PathUp(path.id()));
        self.close_unwanted(now);
        self.review(now);
    }

    /// Closes the paths that are not wanted, and those from addresses that this host has lost. Another path must work
    /// on which the peer can be told: the peer may know of no other, and an address that comes back finds its path.
    ///
    /// While the local address is still there, that other path must also be validated by the peer. Until then the peer
    /// goes on here, and would take answers from here for a sign that this path is in order.
    fn close_unwanted(&mut self, now: Time) {
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

    pub(in crate::connection) fn has_lost_address(&self, at: At) -> bool {
        let lost = |local: IpAddr| {
            self.supply.addresses.ours().next().is_some() && !self.supply.addresses.has(local)
        };
        self.paths[at].local().is_some_and(lost)
    }

    /// Returns the length of the packets that open a path. If no path works, SACKs of the others may have been lost,
    /// and the answer should have room for them.
    pub(in crate::connection) fn opening_len(&self) -> usize {
        let works = |at: At| self.is_at_hand(at) && !self.has_lost_address(at);
        if self.paths.all().any(works) { CHALLENGE_LEN } else { OPENING_LEN }
    }

    /// Returns whether a path that is left by choice still has packets in flight. They are about to be acknowledged,
    /// and need not be sent again.
    fn is_draining(&self, at: At) -> bool {
        let path = &self.paths[at];
        let under_way = path.lifecycle.is_usable() && path.recovery.in_flight() > 0;
        path.leaving.is_by_choice() && under_way && !self.has_lost_address(at)
    }

    /// Stops sending on a path, and tells the peer. What the peer sends there until it knows is still accepted.
    fn close_at(&mut self, now: Time, at: At, cause: PathCause) {
        self.note_path(self.paths[at].id(), cause);
        self.surrender(now, at);
        let path = &mut self.paths[at];
        if path.leaving.is_by_choice() {
            self.supply.attempts.refuse(path.local(), path.remote());
        }
        path.lifecycle.on_closed();
        path.on_closed();
        // Once the peer knows, it forgets the id. It then answers with a stateless reset, which must not end the
        // connection, not even if the path is used again: the CLOSE_PATH may have arrived.
        self.endpoint_events.extend(path.drop_token().map(EndpointEvent::PeerTokenUnused));
        self.events.push_back(Event::PathClosed(Box::new(path.stats())));
        self.tell_closed();
    }

    /// Handles that the peer has the answer to its challenge on a path, and so may send there.
    pub(in crate::connection) fn on_proven_there(&mut self, now: Time) {
        self.close_unwanted(now);
        self.tell_closed();
    }

    /// Tells the peer of closed paths once it has another on which it may send. The peer forgets a path that it is told
    /// of. On one that it has not validated, it could neither send nor ask where this end is.
    fn tell_closed(&mut self) {
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

    /// Challenges paths again whose announcement the peer has acknowledged. A path that was opened before the peer knew
    /// our id for it could not be answered.
    pub(in crate::connection) fn ask_again(&mut self, now: Time) {
        for path in self.paths.iter_mut() {
            if path.announced().is_some_and(|told| !self.control.holds_notice(told)) {
                path.on_announcement_known(now);
            }
        }
    }

    /// Closes reopened paths whose CLOSE_PATH arrived after all: the peer has forgotten them, unless it had no other.
    /// This end does not know which paths the peer had. So a path is closed once another works there, and the peer is
    /// told once more.
    fn close_recalled(&mut self, now: Time) {
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
        self.supply.retired.retire(path.local_id(), now + path.drain_time());
        self.endpoint_events.extend(path.token().map(EndpointEvent::PeerTokenUnused));
        let stats = path.stats();
        let (session, control) = (&mut self.session, &mut self.control);
        let mut notes = Notes::default();
        path.recovery.abandon(|item| Self::settle(now, Fate::Lost, item, session, control, &mut notes));
        self.part_company(now, stats.id);
        Box::new(stats)
    }

    /// Requests ids for future paths from the endpoint.
    pub(in crate::connection) fn ask_for_ids(&mut self) {
        let backlog = self.control.notices().max(self.supply.retired.len());
        if self.config.max_paths > 1 && self.peer.confirmed && backlog < MOST_LOOSE_ENDS {
            for _ in 0..self.supply.ids.ask() {
                self.endpoint_events.push_back(EndpointEvent::IdWanted);
            }
        }
    }

    /// Handles an id that the endpoint issued.
    pub(in crate::connection) fn handle_id(&mut self, id: ConnectionId, token: &ResetToken) {
        let control = &mut self.control;
        self.supply.ids.issue(id, |path| control.notice(write_new_cid(path, id, token)));
    }

    pub(in crate::connection) fn on_new_cid(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let (path, theirs) = read_new_cid(reader)?;
        if self.supply.ids.take(path, theirs)? {
            self.open_missing(now);
        }
        Ok(())
    }

    /// Takes the client's id for a path from the start of that path's first packet. No other path may work to bring it.
    pub(in crate::connection) fn introduce(&mut self, path: PathId, blocks: &[u8]) {
        if self.supply.ids.knows(path) || blocks.first() != Some(&block::NEW_CID) {
            return;
        }
        let mut reader = Reader::new(Bytes::copy_from_slice(&blocks[1..]));
        if let Ok((of, theirs)) = read_new_cid(&mut reader)
            && of == path
        {
            // An error in it is found when all blocks are handled.
            self.supply.ids.take(path, theirs).ok();
        }
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
        } else if let Some(unused) = self.supply.ids.give_up(id) {
            // Nothing of the path has come, but it may yet.
            self.supply.retired.retire(unused.id, now + self.paths.drain_time());
            self.ask_for_ids();
        }
        Ok(())
    }

    pub(in crate::connection) fn on_add_address(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let (sequence, address) = read_add(reader)?;
        let change = self.supply.addresses.add_theirs(sequence, address);
        self.on_change(now, change);
        self.open_missing(now);
        Ok(())
    }

    pub(in crate::connection) fn on_delete_address(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let sequence = reader.varint()?;
        let change = self.supply.addresses.remove_theirs(sequence);
        self.on_change(now, change);
        if let Some(Change::Removed(address)) = change {
            for path in self.paths.iter_mut().filter(|path| path.remote() == address) {
                path.leaving.on_withdrawn();
            }
            self.close_unwanted(now);
        }
        Ok(())
    }

    fn on_change(&mut self, now: Time, change: Option<Change>) {
        if let (Some(observer), Some(change)) = (&mut self.observer, change) {
            observer.on_address(now, "the peer's", change.word(), change.address());
        }
        self.events.extend(change.map(|change| match change {
            Change::Added(address) => Event::PeerAddressAdded(address),
            Change::Removed(address) => Event::PeerAddressRemoved(address),
        }));
    }

    /// Opens paths on the address pairs that are worth one.
    fn open_missing(&mut self, now: Time) {
        if self.side == Side::Server || !self.peer.confirmed || self.ending.is_detached() {
            return;
        }
        let main = self.paths[self.paths.main()].remote();
        if self.supply.addresses.ours().next().is_none() {
            return;
        }
        self.supply.addresses.on_answered(main);
        for (local, remote) in self.missing_pairs() {
            let known = self.supply.addresses.has_answered(remote);
            if !known && !self.supply.quota.may_open(now) {
                continue;
            }
            if self.open_path(now, Some(local), remote).is_err() {
                break;
            }
            if !known {
                self.supply.quota.on_opened();
            }
        }
        if self.activity.unreachable_since.is_some() {
            self.open_refused(now);
        }
    }

    /// Returns the address pairs that should have a path and have none.
    fn missing_pairs(&self) -> Vec<(IpAddr, SocketAddr)> {
        let locals: Vec<IpAddr> = self.supply.addresses.ours().map(|ours| ours.address.ip()).collect();
        let wanted = self.paths.iter().filter(|path| !path.leaving.is_wanted());
        let mut remotes: Vec<SocketAddr> = wanted.map(|path| path.remote()).collect();
        remotes.extend(self.supply.addresses.theirs());
        remotes.sort_unstable();
        remotes.dedup();
        // A closed path does not come back, although the peer may not know of the closing yet. Its addresses may come
        // back.
        let there = self.paths.iter().filter(|path| path.lifecycle.state() != PathState::Closed);
        let mut taken: Vec<_> = there.map(|path| (path.local(), path.remote())).collect();
        taken.extend(self.supply.attempts.waiting());
        pairing::missing(&locals, &remotes, &taken)
    }

    /// Opens paths again on the pairs that the application closed, while no path works.
    pub(in crate::connection) fn open_refused(&mut self, now: Time) {
        if self.side == Side::Server || !self.peer.confirmed || self.ending.is_detached() {
            return;
        }
        let refused: Vec<_> = self.supply.attempts.refused().collect();
        for (local, remote) in refused {
            let is_there = |path: &Path| {
                path.local() == local
                    && path.remote() == remote
                    && path.lifecycle.state() != PathState::Closed
            };
            if self.paths.iter().any(is_there) || local.is_some_and(|local| !self.supply.addresses.has(local))
            {
                continue;
            }
            let Ok(id) = self.open_path(now, local, remote) else { break };
            if let Some(at) = self.paths.by_id(id).expected("a path that was just opened") {
                self.paths[at].leaving.on_chosen();
            }
        }
    }

    /// Handles a challenge of the path's own address that was not answered.
    pub(in crate::connection) fn on_unanswered(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        if self.side == Side::Client && path.lifecycle.state() == PathState::Opening {
            self.supply.attempts.on_failed(now, path.local(), path.remote());
        }
    }

    /// Closes paths whose remote address did not answer, to try again later. One that may be the only way is challenged
    /// again instead.
    pub(in crate::connection) fn close_unanswered(&mut self, now: Time) {
        if self.supply.attempts.handle_timeout(now) | self.supply.quota.handle_timeout(now) {
            self.open_missing(now);
        }
        for at in self.paths.all() {
            let path = &self.paths[at];
            if path.lifecycle.state() != PathState::Opening || path.rebinding().is_some() {
                continue;
            }
            let (local, remote) = (path.local(), path.remote());
            if self.side == Side::Server {
                self.ask_while_none_works(now, at);
                continue;
            }
            if self.paths.all().any(|other| self.is_at_hand(other)) {
                self.close_at(now, at, PathCause::ChallengeFailed);
            } else if !self.aim_elsewhere(now, at) && !self.supply.attempts.is_waiting(local, remote) {
                let known = self.supply.addresses.has_answered(remote);
                if known || self.supply.quota.may_open(now) {
                    let challenge = self.supply.challenges.draw();
                    let length = self.opening_len();
                    self.paths[at].ask(now, challenge, length);
                    if !known {
                        self.supply.quota.on_opened();
                    }
                } else {
                    self.supply.attempts.on_failed(now, local, remote);
                }
            }
        }
    }

    /// Moves an unanswered path to an address pair that has no path, and challenges that. This is for when no path
    /// works and no id is left for another: the peer cannot be told to give more. An observer of both networks may link
    /// them by the path's id. Returns whether there was such a pair.
    fn aim_elsewhere(&mut self, now: Time, at: At) -> bool {
        if self.supply.ids.ready().is_some() {
            return false;
        }
        let may_ask = self.supply.quota.may_open(now);
        let asked =
            |(_, remote): &(IpAddr, SocketAddr)| may_ask || self.supply.addresses.has_answered(*remote);
        let Some((local, remote)) = self.missing_pairs().into_iter().find(asked) else { return false };
        if !self.supply.addresses.has_answered(remote) {
            self.supply.quota.on_opened();
        }
        let challenge = self.supply.challenges.draw();
        let length = self.opening_len();
        let settings = self.supply.addresses.settings(Some(local));
        let path = &mut self.paths[at];
        path.aim_at(local, remote);
        // The cost and the standby setting are those of the new address.
        path.cost.set(settings.map_or(0, |settings| settings.cost));
        path.standby_wanted(settings.is_some_and(|settings| settings.standby));
        path.ask(now, challenge, length);
        let id = path.id();
        self.note_path(id, PathCause::AimedElsewhere);
        true
    }

    /// Challenges the client on a path if no path works. A server mostly waits for the client to send. But the client
    /// may be sending to an address that a NAT at this end has dropped, and only a packet from here shows it the new
    /// one. Challenges become rarer the longer nothing comes, and stay within the amplification limit.
    fn ask_while_none_works(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        if path.room() < CHALLENGE_LEN || self.paths.all().any(|other| self.is_at_hand(other)) {
            return;
        }
        let silence = path.pulse.unheard_for(now);
        let then = now + (silence / 4).clamp(SOONEST_AGAIN, LATEST_AGAIN);
        let challenge = self.supply.challenges.draw();
        self.paths[at].challenge(then, challenge);
    }

    /// Handles a report of the operating system that a link came up: silent paths are probed at once, and failed
    /// address pairs are tried again.
    pub fn handle_link_up(&mut self, now: Time) {
        if let Some(observer) = &mut self.observer {
            observer.on_link_up(now);
        }
        for at in self.paths.all() {
            self.paths[at].on_link_up(now);
            self.ask_anew(now, at);
        }
        self.supply.attempts.clear();
        self.open_missing(now);
        self.close_unanswered(now);
        self.dial_now(now);
    }

    /// Challenges an opening path again if all its challenges are spent. A link comes up in steps, each reported by
    /// itself, so the challenges may be spent before packets get through. An address that has answered before may be
    /// challenged more often.
    fn ask_anew(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        let opens = self.side == Side::Client && path.lifecycle.state() == PathState::Opening;
        if opens && path.is_spent() && self.supply.addresses.has_answered(path.remote()) {
            let challenge = self.supply.challenges.draw();
            let length = self.opening_len();
            self.paths[at].ask(now, challenge, length);
        }
    }

    /// Judges every path by its recovery state, moves what is in flight on one that fails, and chooses the primary.
    pub(in crate::connection) fn review(&mut self, now: Time) {
        if self.paths.len() == 1
            && self.is_affordable(self.paths.main())
            && self.paths[self.paths.main()].lifecycle.state() == PathState::Active
        {
            self.check_reachable(now);
            if self.activity.unreachable_since.is_none() {
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
        let mut views = [View::NONE; crate::connection::paths::path_set::MOST_PATHS];
        let views = self.views(&mut views);
        let wished = self.wished();
        let best = wished.map_or_else(|| scheduler::primary(views, incumbent.index()), At::index);
        if self.paths.set_main(best) {
            self.note_primary(self.why_primary(before, incumbent, wished));
            self.events.push_back(Event::PrimaryChanged(self.paths[self.paths.main()].id()));
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
    fn surrender(&mut self, now: Time, at: At) {
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
        let waiting = Waiting { bytes: self.session.backlog(), lost: self.session.has_lost() };
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
    fn views<'a>(&self, room: &'a mut [View; crate::connection::paths::path_set::MOST_PATHS]) -> &'a [View] {
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

    /// Frees retired ids whose last packets must have arrived by now.
    pub(in crate::connection) fn free_retired(&mut self, now: Time) {
        self.endpoint_events.extend(self.supply.retired.take_over(now).map(EndpointEvent::IdUnused));
        self.ask_for_ids();
    }
}
