//! Who may connect, changed while the endpoint runs: whoever is not let in any more loses what it has.

use std::collections::BTreeSet;

use whimbrel_proto::Time;
use whimbrel_proto::crypto::PublicKey;

use crate::endpoint::{Endpoint, EndpointShared};
use crate::shared::{Shared, lock};

impl Endpoint {
    /// Replaces the list of keys that may connect; None opens the listener to any key but those revoked. Connections that were accepted
    /// from keys which the new list does not name end at once, and so do their sessions that are suspended or out of reach: both ends' handles
    /// close, here with [`crate::CloseReason::Revoked`], there with an abort of cause `Refused`. Tickets of those keys never count again, and an
    /// heir that is not on the list loses the right to go on with a session. A key that was revoked is let in again if the list names it.
    ///
    /// Connections that this endpoint began stay. Returns how many connections and sessions ended.
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

    /// Lets a key in again that was revoked, or puts it on the list if there is one. It starts afresh: nothing that it had comes back.
    pub fn allow(&self, key: PublicKey) {
        lock(&self.shared.proto).allow(key);
    }

    /// Ends everything that a key has here, whoever began it: connections at whatever point they are, sessions that are suspended, out of
    /// reach or dialled for, tickets, and the right to go on with others' sessions as their heir. It is let in no more until
    /// [`Endpoint::allow`] or [`Endpoint::set_allow`] names it. Returns how many connections and sessions ended.
    pub fn revoke(&self, key: &PublicKey) -> usize {
        let shared = &self.shared;
        let now = shared.clock.now();
        lock(&shared.proto).revoke(now, key);
        // What the peer gave this endpoint goes, too.
        drop(lock(&shared.tickets).take(now, key));
        shared.drive_those(|connection| connection.lock().connection.revoke(now, key))
    }

    /// Asks the list and `admit` again about every connection that was accepted, and every heir: for an `admit` that has come to think otherwise.
    /// Whoever is refused loses what it has, as by [`Endpoint::set_allow`], but for its tickets: of those only `admit` can keep it from
    /// making use. Returns how many connections and sessions ended.
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
    /// Ends a connection whose key is on the list no more. Its own lock is held while the endpoint is asked, so that one that is being taken
    /// over from the receive loop is found here or there.
    pub(crate) fn recheck_lists(&self, now: Time, connection: &Shared) -> bool {
        let lists = &mut |key: &PublicKey, _| lock(&self.proto).lists(key);
        connection.lock().connection.recheck(now, lists)
    }

    /// Drives all connections that `ends` says have ended.
    fn drive_those(&self, ends: impl Fn(&Shared) -> bool) -> usize {
        let ended = self.all().into_iter().filter(|connection| ends(connection));
        ended.map(|connection| connection.drive()).count()
    }
}
