//! The client's half of the handshake: SYN until it is answered, PING until it is answered.

use std::time::Duration;

use super::{CloseReason, Connection, Datagram, Event, Item, Notes};
use crate::connection::keys::KeyRing;
use crate::handshake::{Accepted, ClientHandshake, Established, HandshakeError, Params};
use crate::recovery::{Fate, Recovery};
use crate::session::PeerLimits;
use crate::wire::packet::{CLEAR_BIT, CLEAR_LEN};
use crate::wire::sack::Sack;
use crate::wire::{Reader, Writer, block};
use crate::{Cause, ConnectionId, PeerMisbehaved, Time};

/// SYN is repeated after 50, 100, 200 ms …
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// PINGs without an answer that mean that the SYN-ACK was forged or damaged: it is asked for again. To the server that is another
/// connection, so no earlier.
const PINGS: u8 = 4;

/// What the client asks for and offers.
pub(crate) struct Opening {
    handshake: ClientHandshake,
    params: Params,
    trust_shown_key: bool,
    packet: Vec<u8>,
    stage: Stage,
    /// Packets sent in this stage.
    tries: u8,
    first_sent: Option<Time>,
    next: Time,
    wait: Duration,
    give_up: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Syn,
    Ping,
}

impl Opening {
    pub(crate) fn new(
        now: Time,
        handshake: ClientHandshake,
        params: Params,
        trust_shown_key: bool,
        patience: Duration,
    ) -> Self {
        Self {
            packet: handshake.syn(),
            handshake,
            params,
            trust_shown_key,
            stage: Stage::Syn,
            tries: 0,
            first_sent: None,
            next: now,
            wait: FIRST_WAIT,
            give_up: now + patience,
        }
    }

    /// SYN or PING, if it is time to send it (again).
    pub(super) fn poll_packet(&mut self, now: Time) -> Option<&[u8]> {
        if now < self.next {
            return None;
        }
        if self.stage == Stage::Ping && self.tries >= PINGS {
            self.stage = Stage::Syn;
            self.packet = self.handshake.syn();
            self.wait = FIRST_WAIT;
            self.first_sent = None;
            self.tries = 0;
        }
        self.first_sent.get_or_insert(now);
        self.tries = self.tries.saturating_add(1);
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Some(&self.packet)
    }

    pub(super) fn timeout(&self) -> Time {
        self.next.min(self.give_up)
    }

    pub(super) fn is_given_up(&self, now: Time) -> bool {
        now >= self.give_up
    }

    fn begin_ping(&mut self, now: Time, packet: Vec<u8>, wait: Duration) {
        self.stage = Stage::Ping;
        self.tries = 0;
        self.packet = packet;
        self.next = now;
        self.wait = wait;
    }
}

/// PONG is of the connection that was begun with this id.
fn answers(pong: &[u8], server_id: ConnectionId) -> bool {
    pong[CLEAR_LEN..].starts_with(&server_id.to_bytes())
}

impl Connection {
    pub(crate) fn open_with(&mut self, now: Time, opening: Opening) {
        self.opening = Some(Box::new(opening));
        if self.opening.as_ref().is_some_and(|opening| opening.handshake.has_ticket()) {
            self.send_ping(now);
        }
    }

    pub(super) fn handle_opening_timeout(&mut self, now: Time) {
        if self.opening.as_ref().is_some_and(|opening| opening.is_given_up(now)) {
            self.finish(now, CloseReason::HandshakeTimedOut, None);
        }
    }

    /// A packet of the handshake, in the clear.
    pub(super) fn handle_clear(&mut self, now: Time, datagram: Datagram) {
        let kind = datagram.bytes.first().map_or(0, |flags| flags & !CLEAR_BIT);
        let Some(opening) = &mut self.opening else {
            self.dropped.handshake += 1;
            return;
        };
        let handled = match (kind, opening.stage) {
            (block::SYN_ACK, Stage::Syn) => self.handle_syn_ack(now, &datagram.bytes),
            // Also after SYN went out again: the answer may only have been late. That of an earlier PING is of another connection.
            (block::PONG, _) if answers(&datagram.bytes, self.path.remote_id) => {
                self.handle_pong(now, &datagram.bytes)
            }
            _ => Err(HandshakeError::NotOurs),
        };
        if let Err(error) = handled {
            self.dropped.handshake += 1;
            // What a man on the side can send must not end the handshake; what only the server can send, does.
            match error {
                HandshakeError::KeyDiffers { .. }
                | HandshakeError::NoKeyShown
                | HandshakeError::Server(_) => {
                    self.finish(now, CloseReason::Handshake(error.to_string()), None);
                }
                _ => {}
            }
        }
    }

    fn handle_syn_ack(&mut self, now: Time, packet: &[u8]) -> Result<(), HandshakeError> {
        let Some(opening) = &mut self.opening else { return Err(HandshakeError::NotOurs) };
        let answer = opening.handshake.handle_syn_ack(packet)?;
        if let Some(shown) = answer.shown_key {
            if !opening.trust_shown_key {
                return Err(HandshakeError::KeyNotTrusted);
            }
            opening.handshake.trust(shown);
        }
        let first_sent = opening.first_sent.unwrap_or(now);
        self.path.recovery.on_first_rtt(now, now.since(first_sent));
        self.path.remote_id = answer.server_id;
        self.send_ping(now);
        Ok(())
    }

    /// A second PING begins another connection: what was sent in the first is lost, and numbers start again.
    fn abandon_first_flight(&mut self, now: Time) {
        if self.path.recovery.next_number() == 0 {
            return;
        }
        let packet_size = usize::from(super::mtu::BASE) + self.path.headers() as usize;
        let fresh = Recovery::new(now, self.config.congestion, packet_size);
        let old = std::mem::replace(&mut self.path.recovery, fresh);
        self.path.recovery.on_first_rtt(now, old.rtt.latest());
        let (session, control) = (&mut self.session, &mut self.control);
        let mut notes = Notes::default();
        old.abandon(|item| Self::settle(now, Fate::Lost, item, session, control, &mut notes));
    }

    /// Builds PING with as much of what is queued as fits; what does not follows in early packets.
    fn send_ping(&mut self, now: Time) {
        self.abandon_first_flight(now);
        let Some(opening) = &mut self.opening else { return };
        let (session, carried) = (&mut self.session, &mut self.scratch_carried);
        carried.clear();
        let mut fill = |writer: &mut Writer<'_>| {
            session.fill(now, writer, carried, 0);
        };
        let flight = match opening.handshake.ping(&opening.params, usize::from(super::mtu::BASE), &mut fill) {
            Ok(flight) => flight,
            Err(error) => {
                self.finish(now, CloseReason::Handshake(error.to_string()), None);
                return;
            }
        };
        let size = flight.packet.len();
        let wait = self.path.recovery.rtt.deadline() + Duration::from_millis(10);
        opening.begin_ping(now, flight.packet, wait);
        self.path.remote_id = flight.server_id;
        self.early_seal = flight.early;
        self.scratch_items.clear();
        self.scratch_items.extend(self.scratch_carried.iter().map(|carried| Item::Session(*carried)));
        self.path.recovery.on_sent(now, size as u64 + self.path.headers(), true, &self.scratch_items);
    }

    fn handle_pong(&mut self, now: Time, packet: &[u8]) -> Result<(), HandshakeError> {
        let Some(opening) = &mut self.opening else { return Err(HandshakeError::NotOurs) };
        let Established { keys, params, blocks, server_id, server_key, .. } =
            opening.handshake.handle_pong(packet)?;
        self.opening = None;
        self.early_seal = None;
        self.path.remote_id = server_id;
        self.peer_key = Some(server_key);
        self.last_received = now;
        self.confirmed = true;
        self.keys = Some(KeyRing::new(keys));
        self.take_params(&params);
        let pace = self.path.ack_pace(now, self.config.max_ack_delay);
        self.path.received.on_packet(now, 0, true, None, pace);
        self.events.push_back(Event::Connected);
        // PONG answers PING, which was packet 0.
        let sack = Sack { ranges: vec![0..=0], ..Sack::default() };
        let taken = self.take_sack(now, &sack);
        let mut reader = Reader::new(blocks);
        if let Err(misbehaved) = taken.and_then(|()| self.process_blocks(now, &mut reader, false)) {
            self.on_misbehaved(now, misbehaved);
        }
        Ok(())
    }

    /// Takes over what the peer announced.
    pub(super) fn take_params(&mut self, params: &Params) {
        self.session.set_peer_limits(PeerLimits {
            max_data: params.max_data,
            max_stream_data: params.max_stream_data,
            max_streams: params.max_streams,
            max_message: params.max_message,
            cross_sequencing: params.cross_sequencing,
        });
        self.path.mtu.limit(params.max_packet.into());
        self.idle_timeout = self.config.idle_timeout.min(params.idle.max(Duration::from_secs(1)));
        if let Some(token) = params.first_reset_token {
            self.endpoint_events.push_back(super::EndpointEvent::PeerResetToken(token));
        }
    }

    /// What this side announces.
    pub(crate) fn own_params(config: &crate::config::TransportConfig) -> Params {
        Params {
            max_data: config.session.session_window,
            max_stream_data: config.session.stream_window,
            max_streams: config.session.max_streams,
            max_message: config.session.max_message,
            max_packet: config.max_udp_payload,
            max_ack_delay: config.max_ack_delay,
            idle: config.idle_timeout,
            cross_sequencing: config.session.cross_sequencing,
            ..Params::default()
        }
    }

    /// The server's half: PING was accepted; makes PONG around what is queued.
    pub(crate) fn accept_with(&mut self, now: Time, mut accepted: Accepted) -> Result<(), PeerMisbehaved> {
        self.peer_key = Some(accepted.client_key);
        self.early_open = accepted.early.take();
        self.take_params(&accepted.params);
        let mut reader = Reader::new(std::mem::take(&mut accepted.blocks));
        if !reader.is_empty() {
            self.process_blocks(now, &mut reader, true)?;
        }
        let pace = self.path.ack_pace(now, self.config.max_ack_delay);
        self.path.received.on_packet(now, 0, true, None, pace);
        let (session, carried) = (&mut self.session, &mut self.scratch_carried);
        carried.clear();
        let params = Self::own_params(&self.config);
        let mut fill = |writer: &mut Writer<'_>| {
            session.fill(now, writer, carried, 0);
        };
        let finished = accepted
            .finish(&params, usize::from(super::mtu::BASE), &mut fill)
            .map_err(|_| PeerMisbehaved::new(Cause::Internal, "PONG could not be made"))?;
        self.keys = Some(KeyRing::new(finished.keys));
        let size = finished.pong.len() as u64;
        self.pong = Some(finished.pong.into());
        self.pong_due = true;
        self.scratch_items.clear();
        self.scratch_items.extend(self.scratch_carried.iter().map(|carried| Item::Session(*carried)));
        self.path.recovery.on_sent(now, size + self.path.headers(), true, &self.scratch_items);
        Ok(())
    }
}
