//! Resuming: a session that goes on over another connection. The handle stays; keys and paths are new.

use super::{
    CloseReason, Connection, Datagram, Ending, EndpointEvent, Event, Main, Setup, multipath::Target,
};
use crate::handshake::{Accepted, Params, Resumed};
use crate::session::Session;
use crate::wire::packet::destination;
use crate::{ConnectionId, Time};

/// New connections for one session that were answered and have proven nothing yet.
const MOST_PENDING: usize = 4;

/// A client that wants a session to go on: for [`Connection::handle_resume`].
pub struct Resuming {
    pub(crate) accepted: Accepted,
    pub(crate) setup: Setup,
}

impl Connection {
    /// Somebody wants the session to go on over another connection. That is answered, and done once a packet under the new keys came:
    /// an answer that got lost locks nobody out.
    pub fn handle_resume(&mut self, now: Time, resuming: Resuming) {
        let Resuming { accepted, setup } = resuming;
        let answer = self.weigh_claim(&accepted);
        let mut fresh = Self::new(now, setup);
        fresh.attachment = self.attachment.clone();
        let Ok(()) = fresh.accept_resuming(now, accepted, answer) else { return };
        if self.pending.len() >= MOST_PENDING {
            let oldest = self.pending.remove(0);
            self.endpoint_events.push_back(EndpointEvent::IdUnused(oldest.local_id()));
        }
        fresh.refusal = answer != Resumed::Yes;
        self.pending.push(fresh);
    }

    fn weigh_claim(&self, accepted: &Accepted) -> Resumed {
        let (Some(proof), Some(claim)) = (accepted.params.resume, self.claim()) else {
            return Resumed::Unknown;
        };
        let heir = self.attachment.heir.as_deref();
        if self.peer_key != Some(accepted.client_key) && heir != Some(&accepted.client_key) {
            Resumed::Unknown
        } else if self.ending.is_over() {
            Resumed::Expired
        } else if proof.epoch <= claim.epoch {
            Resumed::Already
        } else if accepted.proves(&claim) && !matches!(self.ending, Ending::Suspending { .. }) {
            Resumed::Yes
        } else {
            Resumed::Unknown
        }
    }

    /// A datagram for a connection that would take this one's place. True: it was dealt with, or this is that connection now.
    pub(super) fn handle_pending(&mut self, now: Time, datagram: &Datagram) -> bool {
        let Some((_, id)) = destination(&datagram.bytes) else { return false };
        let Some(index) = self.pending.iter().position(|pending| pending.local_id() == id) else {
            return false;
        };
        let pending = &mut self.pending[index];
        let at = pending.paths.main();
        let opens = pending.open(now, Target::Path(at), datagram.bytes.clone()).is_some();
        if opens && !pending.refusal && !self.ending.is_over() {
            let fresh = self.pending.remove(index);
            self.attach(now, fresh);
            return false;
        }
        true
    }

    pub(super) fn pending_id(&self, datagram: &Datagram) -> Option<usize> {
        let (_, id) = destination(&datagram.bytes)?;
        self.pending.iter().position(|pending| pending.local_id() == id)
    }

    /// The session goes over to `fresh`, and what carried it before is fenced off.
    fn attach(&mut self, now: Time, mut fresh: Self) {
        self.abandon_all(now);
        let Some(claim) = self.claim() else { return };
        if let Some(keys) = &fresh.keys {
            fresh.attachment.claim = Some(Box::new(claim.next(&keys.keys().resumption(fresh.side))));
        }
        let limits = fresh.session.peer_limits();
        std::mem::swap(&mut fresh.session, &mut self.session);
        fresh.session.set_peer_limits(limits);
        fresh.peer_key = fresh.peer_key.or(self.peer_key);
        fresh.events.retain(|event| *event != Event::Connected);
        fresh.events.push_front(Event::PeerResumed { from: self.remote(), to: fresh.remote() });
        while let Some(event) = self.events.pop_back() {
            fresh.events.push_front(event);
        }
        fresh.endpoint_events.push_front(EndpointEvent::Reattached { id: fresh.local_id() });
        while let Some(event) = self.endpoint_events.pop_back() {
            fresh.endpoint_events.push_front(event);
        }
        *self = fresh;
    }

    /// The server said whether it goes on with the session.
    pub(super) fn on_resumed(&mut self, now: Time, params: &Params) -> bool {
        if !self.resuming {
            return true;
        }
        self.resuming = false;
        let why = match params.resumed {
            Some(Resumed::Yes) => {
                if let (Some(claim), Some(keys)) = (self.claim(), &self.keys) {
                    let fresh = keys.keys().resumption(self.side);
                    self.attachment.claim = Some(Box::new(claim.next(&fresh)));
                }
                return true;
            }
            Some(Resumed::Already) => CloseReason::AlreadyResumed,
            Some(Resumed::Expired) => CloseReason::ResumeExpired,
            Some(Resumed::Unknown) | None => CloseReason::UnknownSession,
        };
        self.finish(now, why, None);
        false
    }

    /// Goes on with a session that was restored.
    pub(crate) fn begin_resume(&mut self, session: Session, attachment: super::suspend::Attachment) {
        self.session = session;
        self.attachment = attachment;
        self.resuming = true;
    }

    /// Waits for the peer of a restored session to resume it.
    pub(crate) fn begin_standby(
        &mut self,
        now: Time,
        session: Session,
        attachment: super::suspend::Attachment,
        peer_key: crate::crypto::PublicKey,
    ) {
        self.session = session;
        self.attachment = attachment;
        self.peer_key = Some(peer_key);
        self.ending = Ending::Standby { until: now + self.config.standby_time };
    }

    /// The id of the pending connection that a PING was for; its answer goes again.
    pub(super) fn repeat_pending(&mut self, ping: &Datagram) -> bool {
        let Some(index) = self.pending_id(ping) else { return false };
        let pending = &mut self.pending[index];
        if ping.from == pending.paths[Main].remote {
            pending.pong_due = true;
        }
        true
    }

    /// Pending connections that came to nothing.
    pub(super) fn expire_pending(&mut self, now: Time) {
        let patience = self.config.handshake_timeout;
        let is_over = |pending: &Self| pending.last_received + patience <= now;
        let over: Vec<ConnectionId> = self
            .pending
            .iter()
            .filter(|pending| is_over(pending))
            .map(|pending| pending.local_id())
            .collect();
        self.pending.retain(|pending| !is_over(pending));
        self.endpoint_events.extend(over.into_iter().map(EndpointEvent::IdUnused));
    }
}
