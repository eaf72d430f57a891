//! Several paths: opened, judged, given up. Everything here is about the set of them; what is about one is in `path`.

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
use super::validation::Validation;
use super::{pairing, scheduler};
use crate::connection::event::{EndpointEvent, Event};
use crate::connection::observe::stats::PathStats;
use crate::connection::packet::lengths::{CHALLENGE_LEN, OPENING_LEN};
use crate::connection::packet::notes::Notes;
use crate::connection::state::Connection;
use crate::crypto::ResetToken;
use crate::mutants::{Mutant, planted};
use crate::recovery::Fate;
use crate::wire::{Reader, Writer, block};
use crate::{ConnectionId, PathId, PeerMisbehaved, Side, Time};

/// Notices not acknowledged and ids not free yet, from which on no ids for further paths are given: a peer that opens and closes paths
/// without end waits for what it left behind.
const MOST_LOOSE_ENDS: usize = 32;

/// A server that no path works for challenges one again after a quarter of the silence there, within these.
const SOONEST_AGAIN: Duration = Duration::from_millis(250);
const LATEST_AGAIN: Duration = Duration::from_secs(10);

/// Why a path cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// The server does not open paths: announce the address instead, and the client will.
    #[error("only the side that connected opens paths; announce the address, and the client opens one to it")]
    NotClient,
    /// The handshake is not done, or the peer has given no ids for further paths yet.
    #[error("no further path can be opened yet: the peer has given no ids for one")]
    NotReady,
    /// As many as the settings allow.
    #[error("there are as many paths as `max_paths` allows")]
    TooMany,
    /// The connection is over, or its peer is out of reach or suspended.
    #[error("the connection is over or its peer away: open paths once it is reattached or resumed")]
    Away,
}

/// What a packet is for.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) enum Destination {
    Path(At),
    /// It would open this path.
    New(PathId),
}

impl Connection {
    /// This host's addresses, all of them, whenever they change: the peer is told, and a client opens and closes paths by them. A path
    /// that is left alone is kept, since its address may only be gone for a moment.
    pub fn set_local_addresses(&mut self, now: Time, addresses: &[LocalAddress]) {
        let detached = self.ending.is_waiting();
        // Who closes has to deliver yet what is queued, wherever the host goes meanwhile.
        if self.ending.is_over() {
            return;
        }
        let (control, events) = (&mut self.control, &mut self.events);
        self.supply.addresses.set_ours(addresses, |change, block| {
            control.notice(block);
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
            if let Some(settings) = self.supply.addresses.settings(path.local) {
                path.cost = settings.cost;
                path.standby_wanted(settings.standby);
            }
        }
        let ours = &self.supply.addresses;
        self.supply.attempts.keep(|ip| ours.has(ip));
        self.close_unwanted(now);
        self.open_missing(now);
        self.review(now);
    }

    /// Opens a path from `local` (none: wherever the system sends from) to `remote`, beside those there are.
    ///
    /// # Errors
    /// Not now: the error says what has to happen first.
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

    /// Gives a path up: it takes nothing more, and is closed once what is out on it has arrived, or goes another way. The last one that works
    /// stays until another does, which can tell the other end; and it is the client's to say: if each end closed another one at the same time
    /// none would be left.
    pub fn close_path(&mut self, now: Time, id: PathId) {
        if self.side == Side::Client
            && let Some(at) = self.paths.by_id(id)
        {
            let path = &mut self.paths[at];
            path.unwanted = true;
            path.lingers = true;
            self.supply.attempts.refuse(path.local, path.remote);
            self.close_unwanted(now);
            self.review(now);
        }
    }

    /// Which path a packet to `id` is for. None: one that is no more.
    pub(in crate::connection) fn target(&self, id: ConnectionId) -> Option<Destination> {
        if let Some(at) = self.paths.by_local_id(id) {
            return Some(Destination::Path(at));
        }
        if let Some(path) = self.supply.ids.expected(id) {
            let room = self.paths.len() < self.most_paths();
            return (self.side == Side::Server && room).then_some(Destination::New(path));
        }
        // An id of a PING that began the session again is the first path's.
        (!self.supply.retired.contains(id)).then_some(Destination::Path(self.paths.main()))
    }

    /// The client opened a path: its first packet opened under our keys.
    pub(in crate::connection) fn accept_path(
        &mut self,
        now: Time,
        id: PathId,
        remote: SocketAddr,
        local: Option<IpAddr>,
    ) -> Option<At> {
        let at = self.add_path(now, id, remote, local)?;
        let challenge = self.supply.challenges.draw();
        let path = &mut self.paths[at];
        path.validation = Validation::UNPROVEN;
        path.challenge(now, challenge);
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
        path.cost = settings.map_or(0, |settings| settings.cost);
        path.token = Some(token);
        path.announced = (self.side == Side::Client && self.control.holds_notice(told)).then_some(told);
        path.mtu.limit(self.peer.max_packet);
        self.ask_for_ids();
        Some(self.paths.push(path))
    }

    /// The path's far address has answered: a reset from there counts from now on.
    pub(in crate::connection) fn on_path_up(&mut self, now: Time, at: At) {
        let path = &mut self.paths[at];
        path.last_eliciting = now;
        self.supply.attempts.on_answered(path.local, path.remote);
        self.endpoint_events.extend(path.token.map(EndpointEvent::PeerResetToken));
        self.events.push_back(Event::PathUp(path.id));
        self.close_unwanted(now);
        self.review(now);
    }

    /// Closes the paths that are not wanted, and those from addresses that this host has no longer, as long as another works to tell the
    /// peer on: it may know of no other, and an address that comes back finds its path. Where there is a choice, the other one works only
    /// once the peer may send there, too: until then it goes on here, and would take answers from here for a path that is in order.
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
            self.close_at(now, at);
        }
    }

    fn is_unwanted(&self, at: At) -> bool {
        let path = &self.paths[at];
        path.lifecycle.state() != PathState::Closed && (path.unwanted || self.has_lost_address(at))
    }

    fn has_lost_address(&self, at: At) -> bool {
        let lost = |local: IpAddr| {
            self.supply.addresses.ours().next().is_some() && !self.supply.addresses.has(local)
        };
        self.paths[at].local.is_some_and(lost)
    }

    /// Who has no path that works may have lost SACKs of others: the answer should have room for them.
    pub(in crate::connection) fn opening_len(&self) -> usize {
        let works = |at: At| self.is_at_hand(at) && !self.has_lost_address(at);
        if self.paths.all().any(works) { CHALLENGE_LEN } else { OPENING_LEN }
    }

    /// What is under way on a path that is left by choice is about to be acknowledged, and need not be sent again.
    fn is_draining(&self, at: At) -> bool {
        let path = &self.paths[at];
        let under_way = path.lifecycle.is_usable() && path.recovery.in_flight() > 0;
        path.lingers && under_way && !self.has_lost_address(at)
    }

    /// Carries nothing more on a path, and tells the peer. What the peer sends there until it knows is taken.
    fn close_at(&mut self, now: Time, at: At) {
        self.surrender(now, at);
        let path = &mut self.paths[at];
        if path.lingers {
            self.supply.attempts.refuse(path.local, path.remote);
        }
        path.lifecycle.on_closed();
        path.on_closed();
        // Once the peer knows, it forgets the id, and answers as if it had lost the connection.
        self.endpoint_events.extend(path.token.take().map(EndpointEvent::PeerTokenUnused));
        self.events.push_back(Event::PathClosed(Box::new(path.stats())));
        self.tell_closed();
    }

    /// The peer has the answer to its challenge on a path: it may send there.
    pub(in crate::connection) fn on_proven_there(&mut self, now: Time) {
        self.close_unwanted(now);
        self.tell_closed();
    }

    /// Tells the peer of closed paths, once it has another that it may send on: it forgets what it is told of, and on a path that it has
    /// not proven it could neither send nor ask where this end is.
    fn tell_closed(&mut self) {
        let lasts =
            |path: &Path| path.proven_there.is_proven() && path.lifecycle.state() != PathState::Closed;
        if !self.paths.iter().any(lasts) {
            return;
        }
        let control = &mut self.control;
        let closed = |path: &&mut Path| path.lifecycle.state() == PathState::Closed && path.told.is_none();
        for path in self.paths.iter_mut().filter(closed) {
            path.told = Some(match path.recalled.take() {
                Some(recalled) if control.holds_notice(recalled) => {
                    control.renew(recalled);
                    recalled
                }
                _ => control.notice(write_close_path(path.id)),
            });
        }
    }

    /// No path works, and the peer goes on where one was closed, of which it has not heard: what comes from here shows it a path that is in
    /// order, so it looks for no other. Both have proven each other there, and both go on there, unless what was sent of CLOSE_PATH
    /// arrives yet.
    pub(in crate::connection) fn reopen(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        let untold = path.told.is_none_or(|told| self.control.holds_notice(told));
        let stuck = self.side == Side::Client && self.activity.unreachable_since.is_some();
        let proven = path.validation == Validation::Proven && path.proven_there.is_proven();
        let closed = path.lifecycle.state() == PathState::Closed && untold;
        if !(closed && proven && stuck) || self.has_lost_address(at) {
            return;
        }
        let path = &mut self.paths[at];
        path.recalled = path.told.take();
        if let Some(recalled) = path.recalled {
            self.control.withdraw(recalled);
        }
        path.lifecycle.on_reopened();
        self.on_path_up(now, at);
    }

    /// The peer has heard of something: a path that was opened before it knew our id for it could not be answered, and asks again.
    pub(in crate::connection) fn ask_again(&mut self, now: Time) {
        for path in self.paths.iter_mut() {
            if path.announced.is_some_and(|told| !self.control.holds_notice(told)) {
                path.announced = None;
                path.hurry(now);
            }
        }
    }

    /// CLOSE_PATH of a path that is used again arrived after all: the peer has forgotten the path.
    fn close_recalled(&mut self, now: Time) {
        let arrived = |connection: &Self, at: At| {
            connection.paths[at].recalled.is_some_and(|recalled| !connection.control.holds_notice(recalled))
        };
        while let Some(at) = self.paths.all().find(|at| arrived(self, *at)) {
            let recalled = self.paths[at].recalled.take();
            let id = self.paths[at].id;
            let stays = |path: &Path| path.id != id && path.lifecycle.state() != PathState::Closed;
            // The peer keeps the only path it has.
            if self.paths.iter().any(stays) {
                self.paths[at].told = recalled;
                self.close_at(now, at);
            }
        }
    }

    /// Forgets paths that the peer knows to be closed.
    pub(in crate::connection) fn forget_closed(&mut self, now: Time) {
        self.close_recalled(now);
        let known = |connection: &Self, at: At| {
            let told = connection.paths[at].told;
            told.is_some_and(|told| !connection.control.holds_notice(told))
        };
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
        // Whether it was given up by choice or its network is gone cannot be told from here.
        if at == self.paths.main() {
            self.steering.changeover.on_failed(now, &self.paths[at]);
        }
        let mut path = self.paths.remove(at);
        if path.lifecycle.state() != PathState::Opening {
            // It can be asked again when nothing else works.
            self.supply.addresses.on_answered(path.remote);
        }
        path.lifecycle.on_closed();
        self.figures.past.get_or_insert_default().add(&path);
        self.supply.retired.0.push((path.local_id, now + path.drain_time()));
        self.endpoint_events.extend(path.token.map(EndpointEvent::PeerTokenUnused));
        let stats = path.stats();
        let (session, control) = (&mut self.session, &mut self.control);
        let mut notes = Notes::default();
        path.recovery.abandon(|item| Self::settle(now, Fate::Lost, item, session, control, &mut notes));
        self.part_company(now, stats.id);
        Box::new(stats)
    }

    /// Asks the endpoint for ids of paths that may come.
    pub(in crate::connection) fn ask_for_ids(&mut self) {
        let backlog = self.control.notices().max(self.supply.retired.0.len());
        if self.config.max_paths > 1 && self.peer.confirmed && backlog < MOST_LOOSE_ENDS {
            for _ in 0..self.supply.ids.ask() {
                self.endpoint_events.push_back(EndpointEvent::IdWanted);
            }
        }
    }

    /// The endpoint issued an id.
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

    /// The first packet of a path may bring the client's id for it before anything else does: no other path may work.
    pub(in crate::connection) fn introduce(&mut self, path: PathId, blocks: &[u8]) {
        if self.supply.ids.knows(path) || blocks.first() != Some(&block::NEW_CID) {
            return;
        }
        let mut reader = Reader::new(Bytes::copy_from_slice(&blocks[1..]));
        if let Ok((of, theirs)) = read_new_cid(&mut reader)
            && of == path
        {
            // What is wrong with it is found where all blocks are taken.
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
                // The client has another, or goes on here: CLOSE_PATH was under way when it had to use the path again.
                return Ok(());
            }
            let stats = self.forget(now, at);
            self.events.push_back(Event::PathClosed(stats));
            self.review(now);
        } else if let Some(unused) = self.supply.ids.give_up(id) {
            // Nothing of it has come, and may yet.
            self.supply.retired.0.push((unused.id, now + self.paths.drain_time()));
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
        self.on_change(change);
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
        self.on_change(change);
        if let Some(Change::Removed(address)) = change {
            for path in self.paths.iter_mut().filter(|path| path.remote == address) {
                path.unwanted = true;
            }
            self.close_unwanted(now);
        }
        Ok(())
    }

    fn on_change(&mut self, change: Option<Change>) {
        self.events.extend(change.map(|change| match change {
            Change::Added(address) => Event::PeerAddressAdded(address),
            Change::Removed(address) => Event::PeerAddressRemoved(address),
        }));
    }

    /// Opens what pairs of addresses are worth a path.
    fn open_missing(&mut self, now: Time) {
        if self.side == Side::Server || !self.peer.confirmed || self.ending.is_detached() {
            return;
        }
        let main = self.paths[self.paths.main()].remote;
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

    /// Pairs of addresses that a path should be on, and none is.
    fn missing_pairs(&self) -> Vec<(IpAddr, SocketAddr)> {
        let locals: Vec<IpAddr> = self.supply.addresses.ours().map(|ours| ours.address.ip()).collect();
        let wanted = self.paths.iter().filter(|path| !path.unwanted);
        let mut remotes: Vec<SocketAddr> = wanted.map(|path| path.remote).collect();
        remotes.extend(self.supply.addresses.theirs());
        remotes.sort_unstable();
        remotes.dedup();
        // A path that was closed does not come back, though the peer may not know yet, but its addresses may.
        let there = self.paths.iter().filter(|path| path.lifecycle.state() != PathState::Closed);
        let mut taken: Vec<_> = there.map(|path| (path.local, path.remote)).collect();
        taken.extend(self.supply.attempts.waiting());
        pairing::missing(&locals, &remotes, &taken)
    }

    /// No path works: those that the application closed are opened again, until another works.
    pub(in crate::connection) fn open_refused(&mut self, now: Time) {
        if self.side == Side::Server || !self.peer.confirmed || self.ending.is_detached() {
            return;
        }
        let refused: Vec<_> = self.supply.attempts.refused().collect();
        for (local, remote) in refused {
            let is_there = |path: &Path| {
                path.local == local && path.remote == remote && path.lifecycle.state() != PathState::Closed
            };
            if self.paths.iter().any(is_there) || local.is_some_and(|local| !self.supply.addresses.has(local))
            {
                continue;
            }
            let Ok(id) = self.open_path(now, local, remote) else { break };
            if let Some(at) = self.paths.by_id(id) {
                self.paths[at].unwanted = true;
                self.paths[at].lingers = true;
            }
        }
    }

    /// A challenge of this path's own address came to nothing.
    pub(in crate::connection) fn on_unanswered(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        if self.side == Side::Client && path.lifecycle.state() == PathState::Opening {
            self.supply.attempts.on_failed(now, path.local, path.remote);
        }
    }

    /// Gives up paths whose far address did not answer, to try again later; one that may be all there is is asked again instead.
    pub(in crate::connection) fn close_unanswered(&mut self, now: Time) {
        if self.supply.attempts.handle_timeout(now) | self.supply.quota.handle_timeout(now) {
            self.open_missing(now);
        }
        for at in self.paths.all() {
            let path = &self.paths[at];
            if path.lifecycle.state() != PathState::Opening || path.rebinding.is_some() {
                continue;
            }
            let (local, remote) = (path.local, path.remote);
            if self.side == Side::Server {
                self.ask_while_none_works(now, at);
                continue;
            }
            if self.paths.all().any(|other| self.is_at_hand(other)) {
                self.close_at(now, at);
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

    /// No path works, no id is left to open another with, and the peer cannot be told to send more: one that was asked in vain is asked from
    /// and to addresses that no path has. An observer of both networks may link them by its id.
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
        (path.local, path.remote) = (Some(local), remote);
        // What the address costs, and whether it is in reserve, goes with it.
        path.cost = settings.map_or(0, |settings| settings.cost);
        path.standby_wanted(settings.is_some_and(|settings| settings.standby));
        path.ask(now, challenge, length);
        true
    }

    /// A server mostly waits for the client to say something on a path. But if none works, the client may be sending to an address that a
    /// NAT here has given up: only a packet from here shows the new one. The longer nothing came, the less often, and within what the
    /// client's packets paid for.
    fn ask_while_none_works(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        if path.validation.room() < CHALLENGE_LEN || self.paths.all().any(|other| self.is_at_hand(other)) {
            return;
        }
        let silence = now.since(path.last_received);
        let then = now + (silence / 4).clamp(SOONEST_AGAIN, LATEST_AGAIN);
        let challenge = self.supply.challenges.draw();
        self.paths[at].challenge(then, challenge);
    }

    /// The operating system says that a link came up: what is silent is probed at once, and what was in vain is tried again.
    pub fn handle_link_up(&mut self, now: Time) {
        for at in self.paths.all() {
            self.paths[at].on_link_up(now);
            self.ask_anew(now, at);
        }
        self.supply.attempts.clear();
        self.open_missing(now);
        self.close_unanswered(now);
        self.dial_now(now);
    }

    /// A link comes up in steps, and each is news: all challenges may be spent before there is a way. An address that has answered before may
    /// be asked more often.
    fn ask_anew(&mut self, now: Time, at: At) {
        let path = &self.paths[at];
        let opens = self.side == Side::Client && path.lifecycle.state() == PathState::Opening;
        if opens && path.is_spent() && self.supply.addresses.has_answered(path.remote) {
            let challenge = self.supply.challenges.draw();
            let length = self.opening_len();
            self.paths[at].ask(now, challenge, length);
        }
    }

    /// Judges every path by what its recovery knows, moves what is out on a suspect one, and chooses the primary.
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
        if one_returned || self.paths.iter().any(|path| path.lingers) {
            self.close_unwanted(now);
        }
        self.check_reachable(now);
        self.ask_for_consent();
        let incumbent = self.incumbent(now);
        let mut views = [View::NONE; crate::connection::paths::path_set::MOST_PATHS];
        let views = self.views(&mut views);
        let best = self.wished().map_or_else(|| scheduler::primary(views, incumbent.index()), At::index);
        if self.paths.set_main(best) {
            self.events.push_back(Event::PrimaryChanged(self.paths[self.paths.main()].id));
        }
    }

    /// Returns whether it works again.
    fn judge(&mut self, now: Time, at: At) -> bool {
        let others_work = self.paths.all().any(|other| other != at && self.is_at_hand(other));
        let path = &mut self.paths[at];
        let id = path.id;
        let event = if path.recovery.is_unreachable() {
            path.lifecycle.on_unanswered().then_some(Event::PathDown(id))
        } else if path.recovery.is_silent() {
            // Alone it has nobody to be suspected in favour of.
            (others_work && path.lifecycle.on_overdue()).then_some(Event::PathSuspect(id))
        } else {
            path.lifecycle.on_heard().then_some(Event::PathUp(id))
        };
        let fails = matches!(event, Some(Event::PathDown(_) | Event::PathSuspect(_)));
        if let Some(former) = path.former.as_deref_mut().filter(|_| fails) {
            former.on_silence(now);
        }
        if fails {
            // The last SACK may not have got there; the next takes another way.
            path.received.report_again();
        }
        let returned = matches!(event, Some(Event::PathUp(_)));
        self.events.extend(event);
        if fails && others_work {
            self.surrender(now, at);
        }
        returned
    }

    /// What is out on a path goes another way.
    fn surrender(&mut self, now: Time, at: At) {
        let mut notes = Notes::default();
        let (session, control) = (&mut self.session, &mut self.control);
        self.paths[at].recovery.surrender(now, |item| {
            Self::settle(now, Fate::Lost, item, session, control, &mut notes);
        });
        self.take_notes(now, at, notes);
    }

    /// While none worked, probes on each brought what waited longest: now that one does, it goes there.
    fn surrender_unusable(&mut self, now: Time) {
        for at in self.paths.all() {
            if matches!(self.paths[at].lifecycle.state(), PathState::Suspect | PathState::Down) {
                self.surrender(now, at);
            }
        }
    }

    /// Whether a path may carry data now.
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
            // All are silent: whichever probe arrives first may as well bring something.
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

    /// The path that what was lost goes on before others, and that carries no new data.
    pub(in crate::connection) fn mender(&self) -> Option<At> {
        if self.paths.len() == 1 || !self.session.has_lost() {
            return None;
        }
        let mut views = [View::NONE; crate::connection::paths::path_set::MOST_PATHS];
        let views = self.views(&mut views);
        let next = self.config.scheduler.mends(views, self.paths.main().index())?;
        self.paths.all().nth(next)
    }

    /// What a scheduler sees of all paths, in `room`.
    fn views<'a>(&self, room: &'a mut [View; crate::connection::paths::path_set::MOST_PATHS]) -> &'a [View] {
        for (view, at) in room.iter_mut().zip(self.paths.all()) {
            *view = self.view(at);
        }
        &room[..self.paths.len()]
    }

    /// What a scheduler sees of a path.
    pub(in crate::connection) fn view(&self, at: At) -> View {
        let view = self.paths[at].view();
        if !self.paths[at].lifecycle.is_proven() {
            // After all others.
            return View { usable: false, standby: true, cost: u32::MAX, ..view };
        }
        let cost = if self.config.cost_policy == CostPolicy::Ignore { 0 } else { view.cost };
        View { usable: self.is_at_hand(at), cost, ..view }
    }

    /// Ids whose last packets have arrived by now.
    pub(in crate::connection) fn free_retired(&mut self, now: Time) {
        let events = &mut self.endpoint_events;
        self.supply.retired.0.retain(|(id, until)| {
            if *until <= now {
                events.push_back(EndpointEvent::IdUnused(*id));
            }
            *until > now
        });
        self.ask_for_ids();
    }
}

pub(in crate::connection) fn write_close_path(id: PathId) -> Vec<u8> {
    let mut out = Vec::with_capacity(6);
    let mut writer = Writer::new(&mut out, usize::MAX);
    writer.u8(block::CLOSE_PATH);
    writer.varint(u64::from(id.0));
    out
}
