//! Changing who may connect while the endpoint runs. A key that is no longer allowed loses its connections and
//! sessions.

use std::collections::BTreeSet;

use whimbrel_proto::Time;
use whimbrel_proto::crypto::PublicKey;

use crate::endpoint::Endpoint;
use crate::endpoint_shared::EndpointShared;
use crate::lock::lock;
use crate::shared::Shared;

impl Endpoint {
    /// Replaces the list of keys that may connect. None opens the listener to every key except revoked ones.
    ///
    /// Connections accepted from keys that are not on the new list end at once. So do their sessions, even if suspended
    /// or unreachable. The handles of both ends close: here with [`CloseReason::Revoked`](crate::CloseReason::Revoked),
    /// at the peer with an abort of cause `Refused`. Tickets of those keys never become valid again. An heir that is
    /// not on the list loses the right to continue a session. A revoked key is allowed again if the list names it.
    ///
    /// Connections that this endpoint began are not affected. Returns how many connections and sessions ended.
    ///
    /// ```no_run
    /// # fn example(endpoint: &whimbrel::Endpoint, staff: Vec<whimbrel::PublicKey>) {
    /// let ended = endpoint.set_allow(Some(staff.into_iter().collect()));
    /// println!("{ended} connections of others have ended");
    /// # }
    /// ```
    pub fn set_allow(&self, allow: Option<BTreeSet<PublicKey>>) -> usize {
        let shared = &self.shared;
        lock(&shared.proto).set_allow(shared.clock.now(), allow);
        let ends = |connection: &Shared| shared.recheck_lists(shared.clock.now(), connection);
        shared.drive_those(ends)
    }

    /// Allows a revoked key again, and adds it to the list if there is one. The key starts afresh: nothing that it
    /// had is restored.
    pub fn allow(&self, key: PublicKey) {
        lock(&self.shared.proto).allow(key);
    }

    /// Revokes a key and ends everything it has here, no matter which side began it. That includes connections in any
    /// state, sessions that are suspended, unreachable or being dialled, tickets, and the right to continue others'
    /// sessions as their heir. The key stays refused until [`Endpoint::allow`] or [`Endpoint::set_allow`] names it.
    /// Returns how many connections and sessions ended.
    pub fn revoke(&self, key: &PublicKey) -> usize {
        let shared = &self.shared;
        let now = shared.clock.now();
        lock(&shared.proto).revoke(now, key);
        // The tickets that this peer gave to this endpoint are discarded, too.
        drop(lock(&shared.tickets).take(now, key));
        shared.drive_those(|connection| connection.lock().connection.revoke(now, key))
    }

    /// Checks every accepted connection and every heir again with the list and `admit`. Use it after the decisions of
    /// `admit` have changed. A refused key loses what it has, as with [`Endpoint::set_allow`], except for its
    /// tickets: only `admit` can prevent their use. Returns how many connections and sessions ended.
    pub fn recheck(&self) -> usize {
        let shared = &self.shared;
        let now = shared.clock.now();
        shared.drive_those(|connection| {
            let lets_in = &mut |key: &PublicKey, from| lock(&shared.proto).lets_in(key, from);
            connection.lock().connection.recheck(now, lets_in)
        })
    }
}

impl EndpointShared {
    /// Ends a connection whose key is no longer on the list. Asks the endpoint while the connection is locked, so
    /// that a connection just being accepted by the receive loop is checked either here or there.
    pub(crate) fn recheck_lists(&self, now: Time, connection: &Shared) -> bool {
        let lists = &mut |key: &PublicKey, _| lock(&self.proto).lists(key);
        connection.lock().connection.recheck(now, lists)
    }

    /// Drives all connections for which `ends` returns true. Returns how many there are.
    fn drive_those(&self, ends: impl Fn(&Shared) -> bool) -> usize {
        let ended = self.all().into_iter().filter(|connection| ends(connection));
        ended.map(|connection| connection.drive()).count()
    }
}
