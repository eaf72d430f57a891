//! The connection that carries the session next, and who may ask for it.

use std::net::SocketAddr;

use super::attachment::Attachment;
use super::redial::Redial;
use super::suspended::Suspended;
use crate::connection::state::Connection;
use crate::crypto::PublicKey;
use crate::{ConnectionId, Time};

/// The most new connections for one session that were answered and have proven nothing yet.
const MOST_PENDING: usize = 4;

/// The state of suspending, resuming and reattaching.
#[derive(Default)]
pub(in crate::connection) struct Succession {
    pub(in crate::connection) attachment: Attachment,
    /// The heir that our SUSPEND named.
    own_heir: Option<Box<PublicKey>>,
    /// Whether RESUME was sent and is not answered yet.
    resuming: bool,
    /// Whether this pending connection only serves to refuse a RESUME.
    refusal: bool,
    /// Connections that may take this one's place.
    pending: Vec<Connection>,
    /// The handshake of the connection that is to carry the session next.
    dial: Option<Box<Redial>>,
    /// The suspended session, and when it was suspended.
    suspended: Option<Box<(Time, Suspended)>>,
}

/// A connection of which nothing more is needed: its id is free.
type FreeId = ConnectionId;

/// Suspending.
impl Succession {
    /// Names the heir for our SUSPEND.
    pub(in crate::connection) fn set_own_heir(&mut self, heir: Option<PublicKey>) {
        self.own_heir = heir.map(Box::new);
    }

    pub(in crate::connection) fn own_heir(&self) -> Option<&PublicKey> {
        self.own_heir.as_deref()
    }

    pub(in crate::connection) fn take_own_heir(&mut self) -> Option<PublicKey> {
        self.own_heir.take().map(|heir| *heir)
    }

    /// Keeps the session that was suspended at `now` for the application.
    pub(in crate::connection) fn keep(&mut self, now: Time, suspended: Suspended) {
        self.suspended = Some(Box::new((now, suspended)));
    }

    /// Returns the suspended session, and when it was suspended, once.
    pub(in crate::connection) fn take_suspended(&mut self) -> Option<(Time, Suspended)> {
        self.suspended.take().map(|kept| *kept)
    }
}

/// Resuming at the end that asks.
impl Succession {
    /// The handshake to come asks for the session.
    pub(in crate::connection) fn ask_for(&mut self, attachment: Attachment) {
        self.attachment = attachment;
        self.resuming = true;
    }

    pub(in crate::connection) fn is_resuming(&self) -> bool {
        self.resuming
    }

    /// The peer has answered. Returns whether a RESUME was under way.
    pub(in crate::connection) fn on_answer(&mut self) -> bool {
        std::mem::take(&mut self.resuming)
    }

    pub(in crate::connection) fn begin_dial(&mut self, dial: Redial) {
        self.dial = Some(Box::new(dial));
    }

    pub(in crate::connection) fn dial(&mut self) -> Option<&mut Redial> {
        self.dial.as_deref_mut()
    }

    pub(in crate::connection) fn dial_timeout(&self) -> Option<Time> {
        self.dial.as_deref()?.timeout()
    }

    /// Dials no more. Returns the handshake that was under way.
    pub(in crate::connection) fn end_dial(&mut self) -> Option<Redial> {
        self.dial.take().map(|dial| *dial)
    }
}

/// Resuming at the end that is asked.
impl Succession {
    /// The succession of a connection that was answered and has proven nothing yet. `refused`: it serves only to tell
    /// the peer so.
    pub(in crate::connection) fn answered(attachment: &Attachment, refused: bool) -> Self {
        Self { attachment: attachment.clone(), refusal: refused, ..Self::default() }
    }

    pub(in crate::connection) fn is_refusal(&self) -> bool {
        self.refusal
    }

    /// Returns whether the peer was granted another connection, and nothing has arrived on it yet.
    pub(in crate::connection) fn is_awaited(&self) -> bool {
        self.pending.iter().any(|pending| !pending.succession.refusal)
    }

    pub(in crate::connection) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Adds a connection that was answered.
    pub(in crate::connection) fn add(&mut self, fresh: Connection) {
        self.pending.push(fresh);
    }

    /// Makes room for another pending connection, which may displace one. A refusal never displaces one that was
    /// granted.
    ///
    /// # Errors
    /// There is no room.
    pub(in crate::connection) fn make_room(
        &mut self,
        for_refusal: bool,
    ) -> Result<Option<FreeId>, TooManyPending> {
        if self.pending.len() < MOST_PENDING {
            return Ok(None);
        }
        let refused = self.pending.iter().position(|pending| pending.succession.refusal);
        let index = refused.or((!for_refusal).then_some(0)).ok_or(TooManyPending)?;
        Ok(Some(self.pending.remove(index).local_id()))
    }

    /// The place of the pending connection with this id.
    pub(in crate::connection) fn find(&self, id: ConnectionId) -> Option<usize> {
        self.pending.iter().position(|pending| pending.local_id() == id)
    }

    pub(in crate::connection) fn pending(&mut self, index: usize) -> &mut Connection {
        &mut self.pending[index]
    }

    pub(in crate::connection) fn take_pending(&mut self, index: usize) -> Connection {
        self.pending.remove(index)
    }

    pub(in crate::connection) fn all_pending(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.pending.iter_mut()
    }

    /// Drops all pending connections.
    pub(in crate::connection) fn void_pending(&mut self) -> impl Iterator<Item = FreeId> {
        self.pending.drain(..).map(|pending| pending.local_id())
    }

    /// Drops pending connections of refused keys, and the right of a refused heir.
    pub(in crate::connection) fn strip(
        &mut self,
        remote: SocketAddr,
        lets_in: &mut dyn FnMut(&PublicKey, SocketAddr) -> bool,
    ) -> Vec<FreeId> {
        self.attachment.recheck_heir(|heir| lets_in(heir, remote));
        self.drop_if(|pending| pending.peer.key.is_some_and(|key| !lets_in(&key, pending.remote())))
    }

    /// Returns when the first connection that was granted and is not yet proven is given up.
    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        self.pending.iter().map(Connection::pending_until).min()
    }

    /// Drops pending connections that have been silent for too long.
    pub(in crate::connection) fn expire(&mut self, now: Time) -> Vec<FreeId> {
        self.drop_if(|pending| pending.pending_until() <= now)
    }

    fn drop_if(&mut self, mut is_over: impl FnMut(&Connection) -> bool) -> Vec<FreeId> {
        self.pending.extract_if(.., |pending| is_over(pending)).map(|pending| pending.local_id()).collect()
    }
}

/// The maximum number of connections is pending.
pub(in crate::connection) struct TooManyPending;
