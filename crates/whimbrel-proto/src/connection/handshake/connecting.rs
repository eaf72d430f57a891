//! The client's half of the handshake, packet by packet, and the server's answer to PING.

use std::time::Duration;

use bytes::Bytes;

use super::keys::KeyRing;
use super::opening::{Opening, Stage};
use crate::connection::datagram::{Datagram, Transmit};
use crate::connection::event::Event;
use crate::connection::lifecycle::close::CloseReason;
use crate::connection::packet::notes::Notes;
use crate::connection::paths::path_set::Main;
use crate::connection::state::Connection;
use crate::expected::Expected;
use crate::handshake::{Accepted, Established, Extensions, HandshakeError, Params, Resumed};
use crate::recovery::{Fate, Recovery};
use crate::session::{DEFAULT_STREAMS, PeerLimits};
use crate::wire::packet::CLEAR_BIT;
use crate::wire::sack::Sack;
use crate::wire::{Reader, Writer, block};
use crate::{Cause, PathId, PeerMisbehaved, Time};

impl Connection {
    pub(crate) fn open_with(&mut self, now: Time, opening: Opening) {
        if let Some(memory) = opening.memory {
            self.paths[Main].recovery.recall(memory);
        }
        self.opening = Some(Box::new(opening));
        if self.opening.as_ref().is_some_and(|opening| opening.handshake.has_ticket()) {
            self.send_ping(now);
        }
    }

    pub(in crate::connection) fn handle_opening_timeout(&mut self, now: Time) {
        if self.opening.as_ref().is_some_and(|opening| opening.is_given_up(now)) {
            self.finish(now, CloseReason::HandshakeTimedOut, None);
        }
    }

    /// Writes a packet of the handshake if one is due.
    pub(in crate::connection) fn transmit_opening(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let opening = self.opening.as_deref_mut()?;
        let asks = opening.is_asking();
        let other =
            opening.alternatives.as_mut().filter(|_| asks).and_then(|alternatives| alternatives.poll(now));
        let packet = if other.is_some() { opening.asking() } else { opening.poll_packet(now)? };
        out.extend_from_slice(packet);
        let (size, path) = (packet.len(), &mut self.paths[Main]);
        if let Some(alternatives) = opening.alternatives.as_mut().filter(|_| asks && other.is_none()) {
            alternatives.on_repeated();
        }
        path.traffic.on_sent(size);
        let transmit = path.transmit(size, None);
        Some(match other {
            Some(destination) => Transmit { source: None, destination, ..transmit },
            None => transmit,
        })
    }

    /// Handles the first answer. If it came from another address of the server, that address is used from now on.
    fn on_answered(&mut self, datagram: &Datagram) {
        let Some(opening) = self.opening.as_deref_mut().filter(|opening| opening.is_asking()) else { return };
        let Some(alternatives) = &mut opening.alternatives else { return };
        if let Some(asked_at) = alternatives.on_answered(datagram.from, self.paths[Main].remote()) {
            // After many tries in vain all addresses are asked at once, and the round trip counts from then.
            opening.first_sent = opening.first_sent.max(Some(asked_at));
            self.paths[Main].move_to(datagram.from, datagram.to);
        }
    }

    /// Handles a packet of the handshake, which travels in the clear.
    pub(in crate::connection) fn handle_clear(&mut self, now: Time, datagram: Datagram) {
        let kind = datagram.bytes.first().map_or(0, |flags| flags & !CLEAR_BIT);
        let from = datagram.from;
        let Some(opening) = &mut self.opening else {
            self.figures.dropped.handshake += 1;
            return;
        };
        let handled = match (kind, opening.stage) {
            (block::SYN_ACK, Stage::Asking) => self.handle_syn_ack(now, &datagram),
            // PONG also counts after SYN went out again, and for an earlier PING: it may only have been late.
            (block::PONG, _) => self.handle_pong(now, &datagram),
            _ => Err(HandshakeError::NotOurs),
        };
        if let Err(error) = handled {
            self.figures.dropped.handshake += 1;
            if let Some(observer) = &mut self.observer {
                observer.on_handshake_dropped(now, from, error);
            }
            // A man-on-the-side attacker must not be able to end the handshake; only the server may. The exception is a
            // SYN-ACK that shows another key than the remembered one, or none. Anybody on the path can forge one, but
            // users should hear of a changed key before PING, not after a timeout.
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

    fn handle_syn_ack(&mut self, now: Time, datagram: &Datagram) -> Result<(), HandshakeError> {
        let Some(opening) = &mut self.opening else { return Err(HandshakeError::NotOurs) };
        if opening.early.is_committed(now) {
            return Err(HandshakeError::NotOurs);
        }
        let answer = opening.handshake.handle_syn_ack(&datagram.bytes)?;
        if let Some(shown) = answer.shown_key {
            if !opening.trust_shown_key {
                return Err(HandshakeError::KeyNotTrusted);
            }
            opening.handshake.trust(shown);
        }
        self.on_answered(datagram);
        let opening = self.opening.as_deref();
        let first_sent = opening.and_then(|opening| opening.first_sent).unwrap_or(now);
        let recovery = &mut self.paths[Main].recovery;
        match opening.is_some_and(|opening| opening.is_unsure) {
            // Too short a round trip would do more harm than too long a one.
            true => recovery.assume_rtt(now.since(first_sent)),
            false => recovery.on_first_rtt(now, now.since(first_sent)),
        }
        self.paths[Main].on_remote_id(answer.server_id);
        self.send_ping(now);
        Ok(())
    }

    /// Gives up everything sent after one PING, which is of no use after another: that begins another connection. All
    /// of it counts as lost, and packet numbers go on from `number`.
    fn abandon_flight(&mut self, now: Time, number: u64) {
        let packet_size =
            usize::from(crate::connection::packet::mtu::BASE) + self.paths[Main].headers() as usize;
        let fresh = Recovery::new(now, self.config.congestion, packet_size);
        let old = std::mem::replace(&mut self.paths[Main].recovery, fresh);
        self.paths[Main].recovery.begin_at(number);
        if let Some(memory) = self.opening.as_ref().and_then(|opening| opening.memory) {
            self.paths[Main].recovery.recall(memory);
        }
        let (session, control) = (&mut self.session, &mut self.control);
        let mut notes = Notes::default();
        old.abandon(|item| Self::settle(now, Fate::Lost, item, session, control, &mut notes));
    }

    /// Builds PING with as much of what is queued as fits. The rest follows in early packets.
    fn send_ping(&mut self, now: Time) {
        let used = self.paths[Main].recovery.next_number();
        if let Some(opening) = self.opening.as_mut().filter(|_| used > 0) {
            opening.numbers_used = opening.numbers_used.max(used);
            let measured = Some(self.paths[Main].recovery.rtt.latest())
                .filter(|_| !self.paths[Main].recovery.rtt.is_unknown());
            self.abandon_flight(now, 0);
            if let Some(rtt) = measured {
                self.paths[Main].recovery.on_first_rtt(now, rtt);
            }
        }
        let Some(opening) = self.opening.as_mut().expected("the handshake that was answered") else { return };
        let by_ticket = opening.handshake.has_ticket();
        if opening.early.is_over(now) {
            opening.handshake.end_early();
        }
        let (session, largest) = (&mut self.session, usize::from(crate::connection::packet::mtu::BASE));
        let flight = self.building.lay_out(|carried| {
            let mut fill = |writer: &mut Writer<'_>| {
                session.fill(now, writer, carried, 0);
            };
            opening.handshake.ping(&opening.params, largest, &mut fill)
        });
        let flight = match flight {
            Ok(flight) => flight,
            Err(error) => {
                self.finish(now, CloseReason::Handshake(error.to_string()), None);
                return;
            }
        };
        let size = flight.packet.len();
        if let Some(observer) = &mut self.observer {
            observer.on_ping(now, by_ticket, flight.early.is_some());
        }
        opening.early.on_ping(now, flight.early.is_some(), !self.building.carried().is_empty());
        opening.begin_ping(now, by_ticket, flight.packet, self.paths[Main].recovery.rtt.smoothed());
        self.paths[Main].on_remote_id(flight.server_id);
        self.early_keys.seal = flight.early.map(Box::new);
        self.building.begin_bare();
        self.building.take_along();
        let path = &mut self.paths[Main];
        path.recovery.on_sent(now, size as u64 + path.headers(), true, self.building.blocks());
    }

    fn handle_pong(&mut self, now: Time, datagram: &Datagram) -> Result<(), HandshakeError> {
        let Some(opening) = &mut self.opening else { return Err(HandshakeError::NotOurs) };
        let Established { keys, params, blocks, server_id, server_key, answers_latest, .. } =
            opening.handshake.handle_pong(&datagram.bytes)?;
        self.on_answered(datagram);
        let Some(opening) = &mut self.opening else { return Err(HandshakeError::NotOurs) };
        if !answers_latest {
            // This answers the PING of an attempt that was given up. The server has seen packet numbers of its flight,
            // and what those packets held is no longer known. So everything is sent again, and messages that arrived
            // before are recognised by their numbers.
            let number = opening.numbers_used.max(self.paths[Main].recovery.next_number());
            let first_sent = opening.first_sent.unwrap_or(now);
            // The SYN-ACK in between was forged, and so was the round trip it showed.
            self.abandon_flight(now, number);
            self.paths[Main].recovery.on_first_rtt(now, now.since(first_sent));
        }
        self.opening = None;
        self.early_keys.seal = None;
        self.paths[Main].on_remote_id(server_id);
        self.peer.key = Some(server_key);
        self.activity.received = now;
        self.peer.confirmed = true;
        self.keys = Some(KeyRing::new(keys));
        if !self.on_resumed(now, &params) {
            return Ok(());
        }
        self.take_params(&params);
        let pace = self.paths[Main].ack_pace(now, self.config.max_ack_delay);
        self.paths[Main].received.on_packet(now, 0, true, None, pace);
        self.ending.on_established(now, self.config.close_timeout);
        self.events.push_back(Event::Connected);
        self.ask_for_ids();
        // PONG acknowledges PING, which was packet 0.
        let sack = Sack { ranges: vec![0..=0], ..Sack::default() };
        let taken = if answers_latest { self.take_sack(now, PathId::FIRST, &sack) } else { Ok(()) };
        let mut reader = Reader::new(blocks);
        if let Err(misbehaved) =
            taken.and_then(|()| self.process_blocks(now, self.paths[Main].id(), &mut reader, false))
        {
            self.on_misbehaved(now, misbehaved);
        }
        Ok(())
    }

    /// Applies the parameters that the peer announced.
    pub(in crate::connection) fn take_params(&mut self, params: &Params) {
        self.session.set_peer_limits(PeerLimits {
            max_stream_data: params.max_stream_data,
            max_streams: params.max_streams,
            max_message: params.max_message,
            cross_sequencing: params.cross_sequencing,
            openings: Some(params.extensions.openings),
            small_shares: params.extensions.small_shares,
        });
        self.peer.max_packet = params.max_packet.into();
        self.peer.reads_codes = params.extensions.coding;
        self.paths[Main].mtu.limit(self.peer.max_packet);
        self.activity.idle_timeout = self.config.idle_timeout.min(params.idle.max(Duration::from_secs(1)));
        if let Some(token) = params.first_reset_token {
            self.paths[Main].on_token(token);
            self.endpoint_events.push_back(crate::connection::event::EndpointEvent::PeerResetToken(token));
        }
    }

    /// Returns the parameters that this side announces.
    pub(crate) fn own_params(config: &crate::config::TransportConfig) -> Params {
        Params {
            max_stream_data: config.session.share(),
            // More are granted as they are opened.
            max_streams: config.session.streams().min(DEFAULT_STREAMS),
            max_message: config.session.max_message,
            max_packet: config.max_udp_payload,
            max_ack_delay: config.max_ack_delay,
            idle: config.idle_timeout,
            cross_sequencing: config.session.cross_sequencing,
            extensions: Extensions::OWN,
            ..Params::default()
        }
    }

    /// Accepts a client's PING on the server, and builds PONG with what is queued.
    pub(crate) fn accept_with(&mut self, now: Time, accepted: Accepted) -> Result<(), PeerMisbehaved> {
        self.succession.attachment.name(accepted.params.session);
        self.answer(now, accepted, None)
    }

    /// Accepts the PING of a client that resumes a session. Blocks and early data in it are dropped.
    pub(crate) fn accept_resuming(
        &mut self,
        now: Time,
        mut accepted: Accepted,
        resumed: Resumed,
    ) -> Result<(), PeerMisbehaved> {
        accepted.blocks = Bytes::new();
        accepted.early = None;
        self.answer(now, accepted, Some(resumed))
    }

    fn answer(
        &mut self,
        now: Time,
        mut accepted: Accepted,
        resumed: Option<Resumed>,
    ) -> Result<(), PeerMisbehaved> {
        self.peer.key = Some(accepted.client_key);
        self.peer.on_protocol(&accepted.params.protocol);
        self.early_keys.open = accepted.early.take().map(Box::new);
        if let Some(received) = accepted.unvalidated() {
            self.paths[Main].on_unvalidated(received as u64);
        }
        if let Some(memory) = accepted.memory {
            self.paths[Main].recovery.recall(memory);
        }
        self.take_params(&accepted.params);
        let mut reader = Reader::new(std::mem::take(&mut accepted.blocks));
        if !reader.is_empty() {
            self.process_blocks(now, self.paths[Main].id(), &mut reader, true)?;
        }
        let pace = self.paths[Main].ack_pace(now, self.config.max_ack_delay);
        self.paths[Main].received.on_packet(now, 0, true, None, pace);
        let (session, largest) = (&mut self.session, usize::from(crate::connection::packet::mtu::BASE));
        let params = Params { resumed, ..Self::own_params(&self.config) };
        let finished = self.building.lay_out(|carried| {
            let mut fill = |writer: &mut Writer<'_>| {
                session.fill(now, writer, carried, 0);
            };
            accepted.finish(&params, largest, &mut fill)
        });
        let finished =
            finished.map_err(|_| PeerMisbehaved::new(Cause::Internal, "PONG could not be made"))?;
        self.keys = Some(KeyRing::new(finished.keys));
        let size = finished.pong.len() as u64;
        self.pong.packet = Some(finished.pong.into());
        self.pong.due = true;
        self.building.begin_bare();
        self.building.take_along();
        let path = &mut self.paths[Main];
        path.recovery.on_sent(now, size + path.headers(), true, self.building.blocks());
        Ok(())
    }
}
