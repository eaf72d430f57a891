//! What an application and an endpoint ask of a connection.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::datagram::Datagram;
use super::event::{EndpointAnswer, EndpointEvent, Event};
use super::lifecycle::close::{CloseReason, Ending};
use super::paths::path_set::Main;
use super::state::Connection;
use crate::crypto::{PublicKey, ResetToken};
use crate::session::Session;
use crate::wire::close::Reason;
use crate::{Cause, ConnectionId, Side, Time};
impl Connection {
    /// Takes the endpoint's answer to one of the connection's events.
    pub fn handle_answer(&mut self, answer: EndpointAnswer) {
        match answer {
            EndpointAnswer::Ticket(ticket) => self.handle_ticket(ticket),
            EndpointAnswer::Id(id, token) => self.handle_id(id, &token),
            EndpointAnswer::Wait(now, granted) => self.wait_for_peer(now, granted),
            EndpointAnswer::Dial(dial) => self.begin_dial(*dial),
        }
    }

    /// Messages and streams.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Messages and streams, to look at.
    pub fn session_ref(&self) -> &Session {
        &self.session
    }

    /// The session's id, by which it can be resumed.
    pub fn session_id(&self) -> Option<[u8; 16]> {
        self.succession.attachment.session
    }

    /// The session waits without a connection: the peer suspended it, or is out of reach.
    pub fn is_waiting(&self) -> bool {
        self.ending.is_waiting()
    }

    /// Which end this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The id by which the peer addresses this end on its first path.
    pub fn local_id(&self) -> ConnectionId {
        self.paths[Main].local_id
    }

    /// The peer's key: its identity. None until a client learns it.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.peer.key
    }

    /// Where the peer is.
    pub fn remote(&self) -> SocketAddr {
        self.paths[Main].remote
    }

    /// Established, and nothing is in flight: what is sent now goes out at once.
    pub fn is_idle(&self) -> bool {
        self.keys.is_some() && self.in_flight() == 0
    }

    /// The handshake is done.
    pub fn is_established(&self) -> bool {
        self.keys.is_some()
    }

    /// The peer has sent a packet under the final keys: it is who it says, and has the pre-shared key if there is one.
    pub fn is_peer_proven(&self) -> bool {
        self.peer.confirmed
    }

    /// Over: nothing more is sent or delivered.
    pub fn is_closed(&self) -> bool {
        self.ending.is_over()
    }

    /// What the application should hear.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What the endpoint should hear.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        take_first(&mut self.endpoint_events)
    }

    /// Bytes of one message that travel in one packet at the present size.
    pub fn max_unfragmented(&self) -> usize {
        // Head, tag, DATA with everything set: 9 + 4 + 16 + 2 + 8 + 8 + 1 + 8 + 1 + 4.
        usize::from(self.paths.mtu()).saturating_sub(62)
    }

    /// Closes politely: what is queued is delivered first, then FIN. Nothing more can be sent. Before the handshake is done, what is
    /// queued waits for it; without anything queued it is given up at once. A suspended session that the peer has not given back is not
    /// closed: it can be resumed again.
    pub fn close(&mut self, now: Time, code: u64, text: &str) {
        if self.is_waiting() && !self.is_awaited() {
            self.finish(now, CloseReason::Local, None);
            return;
        }
        if self.is_waiting() {
            // Its peer is on its way back: what is queued for it is delivered first.
            self.stop_waiting();
        }
        if !self.is_established() && (self.succession.resuming || self.session.is_drained()) {
            self.abort(now, code, text);
            return;
        }
        if self.ending.on_close(now, Reason::new(code, text), self.config.close_timeout) {
            self.session.begin_close();
            self.issue_last_ticket();
        }
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.paths.iter().map(|path| path.recovery.in_flight()).sum()
    }

    /// Gives back memory kept for speed: the connection has been idle for a while.
    pub(super) fn trim(&mut self) {
        self.session.trim();
        for path in self.paths.iter_mut() {
            path.recovery.trim();
            path.received.trim();
        }
        self.building.items = Vec::new();
        self.supply.ids.trim();
        self.building.carried = Vec::new();
        self.building.sack = None;
    }

    /// Ends at once; what was not delivered is lost, and its outcome Unknown.
    pub fn abort(&mut self, now: Time, code: u64, text: &str) {
        self.finish(now, CloseReason::Local, Some((Cause::Application, Reason::new(code, text))));
    }

    /// The peer sent this stateless reset token. Of a path that is closed it says nothing: there the peer may have forgotten the id only.
    pub fn handle_reset(&mut self, now: Time, token: &ResetToken) {
        if !self.paths.iter().any(|path| path.token.as_ref() == Some(token)) {
            return;
        }
        if self.may_detach() {
            // It may have the session yet, and say so when it is dialled, or come back by itself.
            self.detach(now);
        } else if self.is_awaited() {
            // It has lost this connection because it goes on over another, which its next packet shows.
        } else if matches!(self.ending, Ending::Suspending { .. }) {
            // Nobody is left to answer.
            self.finish_suspend(now, None);
        } else if matches!(self.ending, Ending::FinAckSent { .. }) {
            // It closed, and nothing was left to deliver either way: it forgot the connection before it could say that FIN-ACK came.
            self.finish_peer_closed(now);
        } else if !self.ending.is_waiting() {
            self.finish(now, CloseReason::PeerRestarted, None);
        }
    }

    /// The peer repeated PING: it missed PONG.
    pub fn handle_repeated_ping(&mut self, ping: &Datagram) {
        if self.repeat_pending(ping) {
            return;
        }
        // Wherever it came from, PONG goes to where the first came from; what another sends buys that address nothing.
        if ping.from == self.paths[Main].remote {
            self.paths[Main].validation.on_received(ping.bytes.len());
        }
        self.pong.due = self.pong.packet.is_some() && !self.peer.confirmed;
    }

    /// The peer missed every PONG and sent another PING, whose cookie proves where it is now.
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
        if let Some((cause, reason)) = tell {
            self.prepare_farewell(now, cause, &reason);
        }
        self.ending = Ending::Over { until: now + self.paths.drain_time() };
        self.opening = None;
        self.succession.dial = None;
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

/// Takes the first. News are rare: who has heard all of them keeps no room for more.
pub(super) fn take_first<T>(news: &mut VecDeque<T>) -> Option<T> {
    let first = news.pop_front();
    if news.is_empty() {
        *news = VecDeque::new();
    }
    first
}
