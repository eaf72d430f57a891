//! PINGs: which clients are accepted, and by which connection.

use std::net::SocketAddr;
use std::sync::Arc;

use super::begun::Begun;
use super::handle::Handle;
use super::places::Place;
use super::routed::Routed;
use super::state::{ALIASES, Endpoint};
use super::told::{self, Limit};
use crate::connection::{Connection, Datagram, Setup};
use crate::crypto::PublicKey;
use crate::endpoint::agreeing::{AgreedPing, Agreeing};
use crate::handshake::{Accepted, Checked, Effort, Ping, Refusal};
use crate::{ConnectionId, Side, Time};

const NOT_LET_IN: &str = "its key is denied, or not on the list, or the application refused it";

impl Endpoint {
    /// Makes the cheap checks of a PING.
    pub(super) fn check_ping(&mut self, now: Time, datagram: Datagram, out: &mut Vec<u8>) -> Routed {
        let Some((acceptor, listen)) = &mut self.acceptor else { return self.refuse() };
        // A full listener still answers peers of waiting sessions, which take no further place.
        let full = self.accepted >= listen.max_connections && self.waiting.is_empty();
        let (from, bytes) = (datagram.from, &datagram.bytes);
        let mut afford = |effort| {
            let agrees = matches!(effort, Effort::Cookie { .. } | Effort::Ticket(_));
            let granted = !(full && agrees) && self.gate.affords(now, effort, from, listen);
            self.stats.agreements += u64::from(agrees && granted);
            self.stats.over_budget += u64::from(effort != Effort::SynAck && !granted);
            if !granted {
                let limit = match effort {
                    Effort::SynAck => Limit::Syns,
                    _ if full && agrees => Limit::Connections,
                    _ => Limit::Agreements,
                };
                self.told.on_limit(now, limit, Some(from));
            }
            granted
        };
        match acceptor.check_ping(now, from, bytes, &mut self.rng, &mut afford, out) {
            Ok(Checked::Agree(agreement)) => {
                let known = agreement.has_ticket() || self.gate.knows(from);
                Routed::Agreeing(Box::new(Agreeing { agreement, datagram, known }))
            }
            Ok(Checked::UnderWay) => Routed::Nothing,
            Ok(Checked::Repeated { server_id }) => self.repeat_pong(server_id, datagram),
            Ok(Checked::Answered(reason)) => {
                told::ticket_declined(from, reason);
                Routed::Reply
            }
            Err(refusal) => {
                told::ping_refused(from, refusal);
                self.refuse()
            }
        }
    }

    /// Handles the key agreements of a PING that [`Endpoint::handle_datagram_deferring`] returned. `out` must be
    /// empty; an answer appended to it goes back to where the PING came from.
    pub fn handle_agreed(&mut self, now: Time, agreed: AgreedPing, out: &mut Vec<u8>) -> Routed {
        let AgreedPing { agreed, datagram } = agreed;
        let Some((acceptor, listen)) = &mut self.acceptor else { return self.refuse() };
        let from = datagram.from;
        let mut afford = |effort| self.gate.affords(now, effort, from, listen);
        match acceptor.conclude(now, agreed, &mut afford, out) {
            Ok(Ping::New(accepted)) => match accepted.params.resume {
                Some(proof) if listen.lets_in(&accepted.client_key, from) => {
                    self.accept_resume(*accepted, proof.session, &datagram, out)
                }
                Some(_) => {
                    told::resume_refused(from, &accepted.client_key, NOT_LET_IN);
                    self.refuse()
                }
                None => self.accept(now, *accepted, datagram),
            },
            Ok(Ping::Repeated { server_id }) => self.repeat_pong(server_id, datagram),
            Ok(Ping::Answered(reason)) => {
                told::ticket_declined(from, reason);
                Routed::Reply
            }
            Err(refusal) => {
                told::ping_refused(from, refusal);
                self.stats.forged += u64::from(refusal == Refusal::Forged);
                self.refuse()
            }
        }
    }

    /// Gives up the key agreements of a PING for want of time. The PING may succeed when it is repeated.
    pub fn abandon(&mut self, agreeing: &Agreeing) {
        self.stats.agreements -= 1;
        self.stats.over_budget += 1;
        told::ping_refused(agreeing.datagram.from, "no thread had time for its key agreements");
        if let Some((acceptor, _)) = &mut self.acceptor {
            acceptor.abandon(&agreeing.agreement);
        }
    }

    fn repeat_pong(&self, server_id: ConnectionId, datagram: Datagram) -> Routed {
        match self.routes.get(&server_id) {
            Some(handle) => Routed::RepeatedPing(*handle, datagram),
            None => Routed::Nothing,
        }
    }

    fn accept(&mut self, now: Time, accepted: Accepted, datagram: Datagram) -> Routed {
        if let Some(reason) = self.objection(now, &accepted, datagram.from) {
            told::client_refused(datagram.from, &accepted.client_key, reason, &accepted.params.protocol);
            return self.refuse();
        }
        let issues_tickets = self.acceptor.as_ref().is_some_and(|(_, listen)| listen.early_from_tickets);
        let local_id = accepted.server_id;
        let (session, client) = (accepted.params.session, accepted.client_key);
        if let Some(handle) = session.and_then(|session| self.begun(&session, client)) {
            // The early data of the first PING was delivered, and a second connection would deliver it again. A
            // ticket does not prove an address either.
            if accepted.unvalidated().is_some() {
                told::ping_refused(datagram.from, "the session has begun, and a ticket proves no address");
                return self.refuse();
            }
            told::session_begun_again(datagram.from, local_id);
            return self.begin_again(handle, local_id, datagram);
        }
        let place = Place::new(&client, datagram.from.ip());
        if !self.has_room(now, place, datagram.from) {
            return self.refuse();
        }
        // Checked last, because it records the session as begun.
        if accepted.offers_early() && !self.may_begin(now, session, &accepted) {
            self.stats.begun_before += 1;
            told::ping_refused(datagram.from, "its early data may have been delivered before");
            return self.refuse();
        }
        let is_open = self.acceptor.as_ref().is_some_and(|(_, listen)| listen.allow.is_none());
        let setup = Setup {
            local: datagram.to,
            remote_id: accepted.client_id,
            issues_tickets,
            budgets: self.shares.enter(place, is_open, &self.budgets),
            ..self.setup(Side::Server, datagram.from, local_id, Arc::clone(&self.transport))
        };
        let mut connection = Connection::new(now, setup);
        if connection.accept_with(now, accepted).is_err() {
            self.shares.leave(place);
            told::ping_refused(datagram.from, "its early data broke the protocol");
            return self.refuse();
        }
        self.stats.accepted += 1;
        told::client_accepted(datagram.from, &client, local_id);
        let handle = self.register(local_id, true);
        self.take_place(handle, place);
        if let (Some(session), Some(ids)) = (session, self.connections.get_mut(&handle)) {
            ids.begun_by = Some(client);
            self.name_session(handle, session);
        }
        Routed::Accepted(handle, Box::new(connection))
    }

    /// Returns why a client gets no connection by the listener's settings. The lists and `admit` are checked last.
    fn objection(&mut self, now: Time, accepted: &Accepted, from: SocketAddr) -> Option<&'static str> {
        let Some((_, listen)) = &self.acceptor else { return Some("nobody listens") };
        if !listen.protocols.is_empty() && !listen.protocols.contains(&accepted.params.protocol) {
            return Some("its protocol is not served here");
        }
        if self.accepted >= listen.max_connections {
            self.told.on_limit(now, Limit::Connections, Some(from));
            return Some("there are as many connections as may be");
        }
        if self.resumes_only {
            return Some("only peers of waiting sessions are admitted");
        }
        (!listen.lets_in(&accepted.client_key, from)).then_some(NOT_LET_IN)
    }

    /// The connection over which an earlier PING of this client began the session.
    fn begun(&self, session: &[u8; 16], client: PublicKey) -> Option<Handle> {
        let handle = self.waiting.find(session)?;
        (self.connections.get(&handle)?.begun_by == Some(client)).then_some(handle)
    }

    /// Returns whether early data of this PING cannot have been delivered before. A session without an id is
    /// identified by the client's id, which all its PINGs contain.
    fn may_begin(&mut self, now: Time, session: Option<[u8; 16]>, accepted: &Accepted) -> bool {
        let session = session.unwrap_or_else(|| {
            let mut id = [0; 16];
            id[..ConnectionId::LEN].copy_from_slice(&accepted.client_id.to_bytes());
            id
        });
        let rate = self.acceptor.as_ref().map_or(0, |(_, listen)| listen.handshakes_per_second);
        self.begun.begin(now, &session, &accepted.client_key, Begun::bound(rate))
    }

    /// Handles a PING with a valid cookie for a session that an earlier PING began.
    fn begin_again(&mut self, handle: Handle, alias: ConnectionId, datagram: Datagram) -> Routed {
        if !self.add_alias(handle, alias) {
            return self.refuse();
        }
        Routed::SecondPing(handle, datagram)
    }

    /// Routes repetitions of the PING with this id to the connection. Beyond [`ALIASES`] the oldest is dropped,
    /// because a client repeats its latest PING.
    pub(super) fn add_alias(&mut self, handle: Handle, alias: ConnectionId) -> bool {
        let Some(ids) = self.connections.get_mut(&handle) else { return false };
        let aliases = &mut ids.rare.get_or_insert_default().aliases;
        if aliases.len() >= ALIASES {
            let oldest = aliases.remove(0);
            self.routes.remove(&oldest);
        }
        aliases.push(alias);
        self.routes.insert(alias, handle);
        true
    }
}
