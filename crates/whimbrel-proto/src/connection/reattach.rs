//! Re-attaching: the connection is given up, the session is not. Both ends keep it, and the one that connected dials until it is answered.

use std::net::SocketAddr;

use rand_chacha::ChaCha20Rng;

use super::suspend::Attachment;
use super::{
    CloseReason, Connection, Datagram, Ending, EndpointEvent, Event, Main, Opening, Setup, Transmit,
};
use crate::handshake::ClientHandshake;
use crate::wire::block;
use crate::wire::packet::CLEAR_BIT;
use crate::{ConnectionId, Side, Time};

/// Addresses of the peer that are dialled at once.
const MOST_REMOTES: usize = 4;

/// What an endpoint gives to dial with.
pub struct Dial {
    pub(crate) now: Time,
    pub(crate) handshake: ClientHandshake,
    pub(crate) local_id: ConnectionId,
    pub(crate) rng: ChaCha20Rng,
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dial {{ {:?} }}", self.local_id)
    }
}

/// A handshake that is to carry the session on.
pub(super) struct Redial {
    fresh: Connection,
    /// Where the peer may be.
    remotes: Vec<SocketAddr>,
    /// Of them, those that the SYN sent last goes to as well.
    rest: Vec<SocketAddr>,
}

impl Connection {
    /// Nothing was heard for the idle timeout.
    pub(super) fn on_out_of_service(&mut self, now: Time) {
        self.events.push_back(Event::OutOfService);
        let (Some(keep), Some(peer)) = (self.config.reattach, self.peer_key) else {
            self.finish(now, CloseReason::TimedOut, None);
            return;
        };
        if !self.ending.is_open() || !self.confirmed || self.claim().is_none() {
            self.finish(now, CloseReason::TimedOut, None);
            return;
        }
        self.ending = Ending::Detached { until: now + keep };
        self.events.push_back(Event::Detached);
        let bytes = self.session.stats().queue_bytes + self.session.unread_bytes();
        self.endpoint_events.push_back(EndpointEvent::StandbyWanted { peer, bytes });
        if self.side == Side::Client {
            self.endpoint_events.push_back(EndpointEvent::DialWanted { peer });
        }
    }

    /// The endpoint gave what it takes.
    pub(super) fn begin_dial(&mut self, dial: Dial) {
        let Dial { now, mut handshake, local_id, rng } = dial;
        let Ending::Detached { until } = self.ending else { return };
        let Some(claim) = self.claim() else { return };
        handshake.resume(claim.clone());
        let mut remotes = vec![self.remote()];
        let known = self.paths.iter().map(|path| path.remote).chain(self.addresses.theirs());
        for remote in known.filter(|remote| self.addresses.has_answered(*remote)) {
            if remotes.len() < MOST_REMOTES && !remotes.contains(&remote) {
                remotes.push(remote);
            }
        }
        let setup = Setup {
            side: Side::Client,
            config: std::sync::Arc::clone(&self.config),
            remote: remotes[0],
            local: None,
            local_id,
            remote_id: ConnectionId(0),
            issues_tickets: false,
            rng,
        };
        let mut fresh = Self::new(now, setup);
        let claim = Some(Box::new(claim));
        fresh.attach_to(Attachment { claim, ..self.attachment.clone() });
        let params = Self::own_params(&self.config);
        // It ends when the session does.
        let patience = until.since(now) + self.config.handshake_timeout;
        fresh.open_with(now, Opening::new(now, handshake, params, false, patience, None));
        self.dial = Some(Box::new(Redial { fresh, remotes, rest: Vec::new() }));
    }

    pub(super) fn transmit_dial(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let Redial { fresh, remotes, rest } = &mut **self.dial.as_mut()?;
        if let Some(remote) = rest.pop() {
            let asking = fresh.opening.as_ref()?.asking();
            out.extend_from_slice(asking);
            return Some(Transmit { destination: remote, ..fresh.paths[Main].transmit(asking.len(), None) });
        }
        let start = out.len();
        let sent = fresh.transmit_single(now, out)?;
        if out.get(start) == Some(&(CLEAR_BIT | block::SYN)) {
            rest.extend(remotes.iter().filter(|remote| **remote != sent.destination));
        }
        Some(sent)
    }

    pub(super) fn dial_timeout(&self) -> Option<Time> {
        let dial = self.dial.as_deref()?;
        let due = dial.fresh.opening.as_ref()?.timeout();
        Some(if dial.rest.is_empty() { due } else { Time::ZERO })
    }

    /// There may be a way again.
    pub(super) fn dial_now(&mut self, now: Time) {
        if let Some(opening) = self.dial.as_mut().and_then(|dial| dial.fresh.opening.as_mut()) {
            opening.hurry(now);
        }
    }

    /// A packet of the handshake came, while there is no connection.
    pub(super) fn handle_dialled(&mut self, now: Time, datagram: Datagram) {
        let Some(Redial { fresh, remotes, rest }) = self.dial.as_deref_mut() else {
            self.dropped.handshake += 1;
            return;
        };
        let asks = |fresh: &Self| fresh.opening.as_ref().is_some_and(|opening| opening.is_asking());
        let (asked, from) = (asks(fresh), datagram.from);
        fresh.handle_clear(now, datagram);
        if asked && !asks(fresh) && remotes.contains(&from) {
            fresh.paths[Main].remote = from;
            rest.clear();
        }
        if fresh.is_closed() {
            let why = fresh.events.drain(..).find_map(|event| match event {
                Event::Closed(why) => Some(why),
                _ => None,
            });
            self.finish(now, refusal(why), None);
        } else if fresh.is_established()
            && let Some(dial) = self.dial.take()
        {
            self.attach(now, dial.fresh);
        }
    }

    /// A packet of the connection that was given up: it works again, and the other end may not even know.
    pub(super) fn revive(&mut self) {
        self.ending = Ending::Open;
        if let Some(dial) = self.dial.take() {
            self.endpoint_events.push_back(EndpointEvent::IdUnused(dial.fresh.local_id()));
        }
        self.endpoint_events.push_back(EndpointEvent::StandbyOver);
        self.events.push_back(Event::Reattached { from: self.remote(), to: self.remote() });
    }
}

/// What it means that the peer does not go on.
fn refusal(why: Option<CloseReason>) -> CloseReason {
    match why {
        Some(CloseReason::UnknownSession) => CloseReason::PeerRestarted,
        Some(CloseReason::ResumeExpired) | None => CloseReason::TimedOut,
        Some(why) => why,
    }
}
