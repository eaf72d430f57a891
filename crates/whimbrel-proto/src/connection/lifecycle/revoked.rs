//! Revocation: a peer's key is no longer admitted.

use std::net::SocketAddr;

use super::close::CloseReason;
use super::resuming::Resuming;
use crate::connection::event::EndpointEvent;
use crate::connection::state::Connection;
use crate::crypto::PublicKey;
use crate::wire::close::Reason;
use crate::{Cause, Side, Time};

impl Connection {
    /// Ends everything that this key has here, whichever side began it. That is the connection, in any state, the session
    /// if it waits or is dialled for, and the right of an heir. [`Event::Closed`](crate::connection::event::Event::Closed)
    /// with [`CloseReason::Revoked`] reports the end. Returns whether the connection ended by this.
    pub fn revoke(&mut self, now: Time, key: &PublicKey) -> bool {
        self.strip(&mut |peer, _| peer != key);
        let peer = self.peer.key.or_else(|| self.opening.as_ref()?.server_key());
        peer == Some(*key) && self.end_revoked(now)
    }

    /// Ends a connection that this side accepted, or a session that waits for its peer, if `lets_in` refuses the peer's
    /// key and address. An heir that it refuses loses the right to resume the session. Connections that this side
    /// dialled stay. Returns whether the connection ended by this.
    pub fn recheck(&mut self, now: Time, lets_in: &mut dyn FnMut(&PublicKey, SocketAddr) -> bool) -> bool {
        self.strip(lets_in);
        let peer = self.peer.key.filter(|_| self.side == Side::Server && !self.ending.is_over());
        peer.is_some_and(|peer| !lets_in(&peer, self.remote())) && self.end_revoked(now)
    }

    /// Takes from refused keys what they have beside the connection: the right of an heir, and pending connections.
    fn strip(&mut self, lets_in: &mut dyn FnMut(&PublicKey, SocketAddr) -> bool) {
        let remote = self.remote();
        let gone = self.succession.strip(remote, lets_in);
        self.endpoint_events.extend(gone.into_iter().map(EndpointEvent::IdUnused));
    }

    fn end_revoked(&mut self, now: Time) -> bool {
        if self.ending.is_over() {
            return false;
        }
        if let (Some(observer), Some(key)) = (&mut self.observer, &self.peer.key) {
            observer.on_revoked(now, key);
        }
        // A peer that is suspended or out of reach cannot be told.
        let waits = self.ending.is_waiting();
        if waits {
            self.endpoint_events.push_back(EndpointEvent::WaitOver);
        }
        let reason = || Reason::new(0, "this key is not let in any more");
        self.finish(now, CloseReason::Revoked, (!waits).then(|| (Cause::Refused, reason())));
        self.endpoint_events.push_back(EndpointEvent::Revoked);
        true
    }
}

impl Resuming {
    /// Returns the key of the client that wants the session to go on.
    pub fn peer_key(&self) -> PublicKey {
        self.accepted.client_key
    }

    /// Returns the address of that client.
    pub fn remote(&self) -> SocketAddr {
        self.setup.remote
    }
}
