//! Changes at run time to the keys that may connect.
//!
//! The endpoint changes its lists and voids tickets; the connections belong to the driver. After each change the driver
//! calls [`Connection::revoke`](crate::Connection::revoke) or [`Connection::recheck`](crate::Connection::recheck) on
//! every connection. A connection that it takes from [`super::Routed`] after the change may have been accepted before.
//! So the driver checks it once more after storing it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::settings::ListenConfig;
use super::state::Endpoint;
use super::told;
use crate::Time;
use crate::crypto::PublicKey;

impl ListenConfig {
    /// Checks the two lists only, and does not ask `admit`.
    pub(super) fn lists(&self, key: &PublicKey) -> bool {
        !self.deny.contains(key) && self.allow.as_ref().is_none_or(|allow| allow.contains(key))
    }
}

impl Endpoint {
    /// Replaces the listener's list of keys that may connect; `None` admits any key that is not denied. A key on the
    /// new list is no longer denied. Tickets of keys that drop off the list are void for good, even if the key is
    /// allowed again later. Without a listener nothing changes.
    ///
    /// Afterwards the driver calls [`Connection::recheck`](crate::Connection::recheck) on every connection with
    /// [`Endpoint::lists`].
    pub fn set_allow(&mut self, now: Time, allow: Option<BTreeSet<PublicKey>>) {
        let Some((acceptor, listen)) = &mut self.acceptor else { return };
        if let Some(allow) = &allow {
            listen.deny.retain(|key| !allow.contains(key));
        }
        match (&listen.allow, &allow) {
            (Some(before), Some(after)) => {
                before.difference(after).for_each(|key| acceptor.void_tickets_of(now, key));
            }
            // There was no list, so it is not known which keys had tickets.
            (None, Some(_)) => acceptor.void_tickets(now),
            (_, None) => {}
        }
        told::list_replaced(allow.as_ref().map(BTreeSet::len));
        listen.allow = allow;
    }

    /// Allows a key, again or for the first time: it is no longer denied and, if there is a list, is put on it.
    /// Tickets and sessions from before it was revoked do not come back.
    pub fn allow(&mut self, key: PublicKey) {
        let Some((_, listen)) = &mut self.acceptor else { return };
        listen.deny.remove(&key);
        if let Some(allow) = &mut listen.allow {
            allow.insert(key);
        }
        told::key_allowed(&key);
    }

    /// Revokes a key: it is denied and taken off the list, if there is one. Its tickets are void for good.
    ///
    /// Afterwards the driver calls [`Connection::revoke`](crate::Connection::revoke) on every connection.
    pub fn revoke(&mut self, now: Time, key: &PublicKey) {
        let Some((acceptor, listen)) = &mut self.acceptor else { return };
        listen.deny.insert(*key);
        if let Some(allow) = &mut listen.allow {
            allow.remove(key);
        }
        acceptor.void_tickets_of(now, key);
        told::key_revoked(key);
    }

    /// Returns whether the listener's lists admit this key; true without a listener.
    pub fn lists(&self, key: &PublicKey) -> bool {
        self.acceptor.as_ref().is_none_or(|(_, listen)| listen.lists(key))
    }

    /// Returns whether the listener admits this key from this address, by its lists and by `admit`.
    pub fn lets_in(&self, key: &PublicKey, from: SocketAddr) -> bool {
        self.acceptor.as_ref().is_none_or(|(_, listen)| listen.lets_in(key, from))
    }
}
