//! Who may connect, changed while the endpoint runs.
//!
//! The endpoint changes its lists and forgets tickets; the connections are the driver's. After each change it goes through them and calls
//! [`crate::Connection::revoke`] or [`crate::Connection::recheck`]. A connection that it takes over from [`super::Routed`] after the change
//! may have been let in before, so it is asked about once more when it is in its place.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::settings::ListenConfig;
use super::state::Endpoint;
use crate::Time;
use crate::crypto::PublicKey;

impl ListenConfig {
    /// By the two lists; `admit` is not asked.
    pub(super) fn lists(&self, key: &PublicKey) -> bool {
        !self.deny.contains(key) && self.allow.as_ref().is_none_or(|allow| allow.contains(key))
    }
}

impl Endpoint {
    /// Replaces the listener's list of keys that may connect; None opens it to any key but those denied. A key that the new list names is
    /// denied no more. Tickets of keys that lose by this never count again, not even when the key is let in later. Nothing is changed
    /// where nobody listens.
    ///
    /// The driver then calls [`crate::Connection::recheck`] of every connection with [`Endpoint::lists`].
    pub fn set_allow(&mut self, now: Time, allow: Option<BTreeSet<PublicKey>>) {
        let Some((acceptor, listen)) = &mut self.acceptor else { return };
        if let Some(allow) = &allow {
            listen.deny.retain(|key| !allow.contains(key));
        }
        match (&listen.allow, &allow) {
            (Some(before), Some(after)) => {
                before.difference(after).for_each(|key| acceptor.void_tickets_of(now, key));
            }
            // Who had one is not known.
            (None, Some(_)) => acceptor.void_tickets(now),
            (_, None) => {}
        }
        listen.allow = allow;
    }

    /// Lets a key in again, or for the first time: it is denied no more and, if there is a list, on it. What it had before it was
    /// revoked does not come back.
    pub fn allow(&mut self, key: PublicKey) {
        let Some((_, listen)) = &mut self.acceptor else { return };
        listen.deny.remove(&key);
        if let Some(allow) = &mut listen.allow {
            allow.insert(key);
        }
    }

    /// Lets a key in no more: it is denied, and off the list if there is one. Its tickets never count again.
    ///
    /// The driver then calls [`crate::Connection::revoke`] of every connection.
    pub fn revoke(&mut self, now: Time, key: &PublicKey) {
        let Some((acceptor, listen)) = &mut self.acceptor else { return };
        listen.deny.insert(*key);
        if let Some(allow) = &mut listen.allow {
            allow.remove(key);
        }
        acceptor.void_tickets_of(now, key);
    }

    /// Whether the listener's lists have this key; true where nobody listens.
    pub fn lists(&self, key: &PublicKey) -> bool {
        self.acceptor.as_ref().is_none_or(|(_, listen)| listen.lists(key))
    }

    /// Whether the listener lets this key in from this address: by its lists, and by what `admit` says.
    pub fn lets_in(&self, key: &PublicKey, from: SocketAddr) -> bool {
        self.acceptor.as_ref().is_none_or(|(_, listen)| listen.lets_in(key, from))
    }
}
