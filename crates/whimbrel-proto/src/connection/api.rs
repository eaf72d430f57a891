//! The interface of a connection to the application and the endpoint.

use std::net::SocketAddr;

use bytes::Bytes;

use super::datagram::Datagram;
use super::event::{EndpointAnswer, EndpointEvent, Event};
use super::handshake::export_error::ExportError;
use super::lifecycle::close::{CloseReason, Ending};
use super::observe::events::take_first;
use super::paths::path_set::Main;
use super::state::Connection;
use crate::crypto::{PublicKey, ResetToken};
use crate::session::Session;
use crate::wire::close::Reason;
use crate::{Cause, ConnectionId, Side, Time};

impl Connection {
    /// Handles the endpoint's answer to an [`EndpointEvent`].
    pub fn handle_answer(&mut self, answer: EndpointAnswer) {
        match answer {
            EndpointAnswer::Ticket(ticket) => self.handle_ticket(ticket),
            EndpointAnswer::Id(id, token) => self.handle_id(id, &token),
            EndpointAnswer::Wait(now, granted) => self.wait_for_peer(now, granted),
            EndpointAnswer::Dial(dial) => self.begin_dial(*dial),
        }
    }

    /// Returns the session, which holds the messages and streams.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Returns the session for reading.
    pub fn session_ref(&self) -> &Session {
        &self.session
    }

    /// Returns the session's id, under which it can be resumed. `None` if the client gave the session no id.
    pub fn session_id(&self) -> Option<[u8; 16]> {
        self.succession.attachment.session()
    }

    /// Returns whether the session is waiting without a connection: the peer suspended it, or is out of reach.
    pub fn is_waiting(&self) -> bool {
        self.ending.is_waiting()
    }

    /// Returns whether this end is the client or the server.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the connection id by which the peer addresses this end on the primary path.
    pub fn local_id(&self) -> ConnectionId {
        self.paths[Main].local_id()
    }

    /// Returns the peer's public key, which is its identity. `None` until a client learns it.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.peer.key
    }

    /// Returns the application protocol that the client named when it connected; empty if it named none. A session that was resumed in
    /// another process does not know it.
    pub fn protocol(&self) -> Bytes {
        self.peer.protocol.as_deref().cloned().unwrap_or_default()
    }

    pub(crate) fn name_protocol(&mut self, protocol: &Bytes) {
        self.peer.on_protocol(protocol);
    }

    /// Fills `out` with keying material that both ends of the connection have and nobody else, told apart by `label` and
    /// `context` (as RFC 5705). It can bind something else to the connection, for example. It changes when the session
    /// goes on over another connection, not when packet keys are updated.
    ///
    /// # Errors
    /// [`ExportError`].
    pub fn export_keying_material(
        &self,
        out: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportError> {
        let is_proven = self.side == Side::Client || self.peer.confirmed;
        let ring = self.keys.as_ref().filter(|_| is_proven).ok_or(ExportError::NotProven)?;
        if ring.keys().export(self.side, label, context, out) { Ok(()) } else { Err(ExportError::TooLong) }
    }

    /// Returns the peer's address on the primary path.
    pub fn remote(&self) -> SocketAddr {
        self.paths[Main].remote()
    }

    /// Returns whether the connection is established and nothing is in flight. A message sent now goes out at once.
    pub fn is_idle(&self) -> bool {
        self.keys.is_some() && self.in_flight() == 0
    }

    /// Returns whether the handshake has produced the final keys. On a server this is before the client has proven
    /// itself.
    pub fn is_established(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns whether the peer has proven its identity, and that it knows the pre-shared key if there is one. A client
    /// knows this from PONG, a server from the first packet under the final keys.
    pub fn is_peer_proven(&self) -> bool {
        self.peer.confirmed
    }

    /// Returns whether the connection is over: no more messages are sent or delivered.
    pub fn is_closed(&self) -> bool {
        self.ending.is_over()
    }

    /// Returns the next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the next event for the endpoint.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        take_first(&mut self.endpoint_events)
    }

    /// Returns the length in bytes of the largest message that travels in one packet at the current packet size.
    pub fn max_unfragmented(&self) -> usize {
        // The packet's head, number and tag, and DATA with every field: 9 + 4 + 16 + 2 + 8 + 8 + 1 + 8 + 1 + 4 = 61.
        // One byte is to spare.
        usize::from(self.paths.mtu()).saturating_sub(62)
    }

    /// Closes the connection gracefully: what is queued is delivered first, then FIN is sent. Nothing more can be sent.
    ///
    /// Before the handshake is complete, the close waits for it if anything is queued; otherwise the connection is
    /// aborted at once. While this end is resuming a session, or waits for its peer, the session is not closed at the
    /// peer: it can be resumed again.
    pub fn close(&mut self, now: Time, code: u64, text: &str) {
        if self.is_waiting() && !self.is_awaited() {
            self.finish(now, CloseReason::Local, None);
            return;
        }
        if self.is_waiting() {
            // The peer is on its way back: what is queued for it is delivered first.
            self.stop_waiting();
        }
        if !self.is_established() && (self.succession.is_resuming() || self.session.is_drained()) {
            self.abort(now, code, text);
            return;
        }
        let reason = Reason::new(code, text);
        if self.ending.on_close(now, reason.clone(), self.config.close_timeout) {
            if let Some(observer) = &mut self.observer {
                observer.on_closing(now, "this end", &reason);
            }
            self.session.begin_close();
            self.issue_last_ticket();
        }
    }

    /// Returns why the peer closes, while its graceful close is under way. Nothing more can be sent then.
    pub fn peer_closing(&self) -> Option<&Reason> {
        self.ending.peer_reason()
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.paths.iter().map(|path| path.recovery.in_flight()).sum()
    }

    /// Frees memory that is kept for speed, because the connection has been idle for a while.
    pub(super) fn trim(&mut self) {
        self.session.trim();
        for path in self.paths.iter_mut() {
            path.recovery.trim();
            path.received.trim();
        }
        self.building.trim();
        self.coding.trim();
        self.supply.ids.trim();
    }

    /// Ends the connection at once. What was not delivered is lost, and its outcome is Unknown.
    pub fn abort(&mut self, now: Time, code: u64, text: &str) {
        self.finish(now, CloseReason::Local, Some((Cause::Application, Reason::new(code, text))));
    }

    /// Handles a stateless reset token that the peer sent. The token of a closed path is ignored: the peer may have
    /// forgotten only the id of that path.
    pub fn handle_reset(&mut self, now: Time, token: &ResetToken) {
        if !self.paths.iter().any(|path| path.token().as_ref() == Some(token)) {
            return;
        }
        if let Some(observer) = self.observer.as_mut().filter(|_| !self.ending.is_over()) {
            observer.on_reset_received(now, self.ending.name());
        }
        if self.may_detach() {
            // The peer may still have the session. It says so when it is dialled, or comes back by itself.
            self.detach(now, "the peer lost the connection");
        } else if self.is_awaited() {
            // The peer lost this connection because it goes on over another, as its next packet shows.
        } else if matches!(self.ending, Ending::Suspending { .. }) {
            // Nobody is left to answer.
            self.finish_suspend(now, None);
        } else if matches!(self.ending, Ending::FinAckSent { .. }) {
            // The peer closed, and nothing was left to deliver in either direction. It forgot the connection before it
            // could confirm our FIN-ACK.
            self.finish_peer_closed(now);
        } else if !self.ending.is_waiting() {
            self.finish(now, CloseReason::PeerRestarted, None);
        }
    }

    /// Handles a repetition of the first PING: the peer has not received PONG.
    pub fn handle_repeated_ping(&mut self, ping: &Datagram) {
        if self.repeat_pending(ping) {
            return;
        }
        // PONG goes to the address of the first PING, wherever this copy came from. Only a copy from that address
        // raises its amplification limit.
        if ping.from == self.paths[Main].remote() {
            self.paths[Main].earn(ping.bytes.len());
        }
        self.pong.due = self.pong.packet.is_some() && !self.peer.confirmed;
    }

    /// Handles another PING from a peer that received no PONG. Its cookie proves the peer's current address.
    pub fn handle_second_ping(&mut self, ping: &Datagram) {
        if self.pong.packet.is_some() && !self.peer.confirmed {
            self.paths[Main].move_to(ping.from, ping.to);
            self.pong.due = true;
            self.pong.sent = 0;
        }
    }

    pub(super) fn finish(&mut self, now: Time, why: CloseReason, tell: Option<(Cause, Reason)>) {
        if self.ending.is_over() {
            return;
        }
        if let Some(observer) = &mut self.observer {
            observer.on_closed(now, &why, tell.as_ref());
        }
        if let Some((cause, reason)) = tell {
            self.prepare_farewell(now, cause, &reason);
        }
        self.coding.trim();
        self.ending = Ending::Over { until: now + self.paths.drain_time() };
        self.opening = None;
        self.succession.end_dial();
        self.session.end();
        if why != CloseReason::PeerRestarted {
            self.refresh_ticket();
        }
        self.events.push_back(Event::Closed(why));
    }

    pub(super) fn finish_peer_closed(&mut self, now: Time) {
        if let Ending::FinAckSent { reason, .. } = &mut self.ending {
            let reason = std::mem::take(reason);
            self.finish(now, CloseReason::Peer(reason), None);
        }
    }
}
