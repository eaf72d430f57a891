//! Opening paths, on either side.

use std::net::{IpAddr, SocketAddr};

use super::destination::Destination;
use super::ids::{Ours, Theirs};
use super::path::{Ends, Path};
use super::path_set::At;
use super::path_state::PathLifecycle;
use crate::connection::event::{EndpointEvent, Event};
use crate::connection::observe::path_cause::PathCause;
use crate::connection::packet::lengths::{CHALLENGE_LEN, OPENING_LEN};
use crate::connection::state::Connection;
use crate::{ConnectionId, PathId, Side, Time};

/// Why a path cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenPathError {
    /// The server does not open paths. Announce the address instead, and the client opens a path to it.
    #[error("only the side that connected opens paths; announce the address, and the client opens one to it")]
    NotClient,
    /// The handshake is not complete, or the peer has given no ids for further paths yet.
    #[error("cannot open another path yet: the peer has not issued connection IDs for it")]
    NotReady,
    /// There are as many paths as the settings allow.
    #[error("the connection already has as many paths as `max_paths` allows")]
    TooMany,
    /// The connection is over, or its peer is out of reach or suspended.
    #[error("the connection has ended or its peer is away: open paths once it is reattached or resumed")]
    Away,
}

impl Connection {
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
        (!self.supply.is_retired(id)).then_some(Destination::Path(self.paths.main()))
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
        let challenge = self.supply.challenge();
        let length = self.opening_len();
        self.paths[at].ask(now, challenge, length);
        Ok(id)
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
        let challenge = self.supply.challenge();
        let path = &mut self.paths[at];
        path.on_opened_by_peer(now, challenge);
        Some(at)
    }

    pub(super) fn most_paths(&self) -> usize {
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

    /// Returns the length of the packets that open a path. If no path works, SACKs of the others may have been lost,
    /// and the answer should have room for them.
    pub(in crate::connection) fn opening_len(&self) -> usize {
        let works = |at: At| self.is_at_hand(at) && !self.has_lost_address(at);
        if self.paths.all().any(works) { CHALLENGE_LEN } else { OPENING_LEN }
    }

    /// Handles a path whose remote address has answered. Its stateless reset token counts from now on.
    pub(in crate::connection) fn on_path_up(&mut self, now: Time, at: At) {
        let path = &mut self.paths[at];
        path.pulse.on_eliciting(now);
        self.supply.on_path_up(path.local(), path.remote());
        self.endpoint_events.extend(path.token().map(EndpointEvent::PeerResetToken));
        self.events.push_back(Event::PathUp(path.id()));
        self.close_unwanted(now);
        self.review(now);
    }
}
