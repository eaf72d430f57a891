//! The client's half of the handshake: SYN until it is answered, PING until it is answered. With a ticket, PING first; if SYN-ACK
//! answers it, another PING with the cookie. Of several addresses of the server the first that answers is taken.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;

use super::alternatives::Alternatives;
use super::early::Early;
use super::{CloseReason, Connection, Datagram, Event, Main, Notes, SentBlock, Transmit, Validation};
use crate::connection::keys::KeyRing;
use crate::crypto::{PathMemory, PublicKey};
use crate::handshake::{Accepted, ClientHandshake, Established, HandshakeError, Params, Resumed};
use crate::recovery::{Fate, Recovery};
use crate::session::PeerLimits;
use crate::wire::packet::CLEAR_BIT;
use crate::wire::sack::Sack;
use crate::wire::{Reader, Writer, block};
use crate::{Cause, PathId, PeerMisbehaved, Time};

/// SYN is repeated 20, 50, 100, 200 ms … after the first.
const SYN_TIMES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(50)];
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Where a peer is dialled for longer, intervals grow to this share of the time it has been away for, up to [`SLOWEST`].
const PATIENCE: u32 = 240;
const SLOWEST: Duration = Duration::from_secs(5);
/// SYNs after which the next is as good as the first for telling the round trip: intervals are long by then.
const MANY: u8 = 6;
/// A path whose round trip is longer gets each PING of ours twice at first, a moment apart: all that follows is of no use to a server
/// that has not seen it.
const LONG_PATH: Duration = Duration::from_millis(20);
/// PING is repeated by then at the latest, or within a round trip where that is longer: everything waits for it.
const LONGEST_PING_WAIT: Duration = Duration::from_millis(250);
/// By how much an answer may be late on a host that is busy.
const LATE: Duration = Duration::from_millis(10);
/// PINGs without an answer that mean that the SYN-ACK was forged or damaged: it is asked for again. To the server that is another
/// connection, so no earlier.
const PINGS: u8 = 8;

/// What the client asks for and offers.
pub(crate) struct Opening {
    handshake: ClientHandshake,
    params: Params,
    trust_shown_key: bool,
    /// SYN, or PING with a ticket: what SYN-ACK answers.
    asking: Vec<u8>,
    /// PING with the cookie of the SYN-ACK taken last.
    ping: Vec<u8>,
    /// `asking` goes out beside the next PING.
    asking_due: bool,
    stage: Stage,
    alternatives: Option<Box<Alternatives>>,
    began: Time,
    /// Packets sent in this stage.
    tries: u8,
    /// Of the path, from an earlier connection.
    memory: Option<PathMemory>,
    /// Packet numbers used by flights that were given up.
    numbers_used: u64,
    first_sent: Option<Time>,
    early: Early,
    next: Time,
    /// A round trip, as far as is known.
    rtt: Option<Duration>,
    give_up: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// `asking` is out: SYN-ACK answers it, or PONG if it is a PING.
    Asking,
    /// `ping` is out: PONG answers it.
    Pinging,
}

impl Opening {
    pub(crate) fn new(
        now: Time,
        handshake: ClientHandshake,
        params: Params,
        trust_shown_key: bool,
        patience: Duration,
        memory: Option<PathMemory>,
    ) -> Self {
        Self {
            asking: handshake.syn(),
            ping: Vec::new(),
            asking_due: false,
            handshake,
            params,
            trust_shown_key,
            stage: Stage::Asking,
            alternatives: None,
            began: now,
            tries: 0,
            memory,
            numbers_used: 0,
            first_sent: None,
            early: Early::default(),
            next: now,
            rtt: None,
            give_up: now + patience,
        }
    }

    /// The server may be at one of these just as well.
    pub(crate) fn or_at(mut self, alternatives: Vec<SocketAddr>) -> Self {
        self.alternatives = Alternatives::new(self.began, alternatives);
        self
    }

    /// Whom the client means to reach, as far as it knows.
    pub(super) fn server_key(&self) -> Option<PublicKey> {
        self.handshake.server_key()
    }

    /// SYN or PING, if it is time to send it (again).
    pub(super) fn poll_packet(&mut self, now: Time) -> Option<&[u8]> {
        if std::mem::take(&mut self.asking_due) {
            return Some(&self.asking);
        }
        if now < self.next {
            return None;
        }
        self.change_stage(now);
        if self.stage == Stage::Asking && self.tries >= MANY {
            // Long after the first, the answer is to one of the last.
            self.first_sent = None;
        }
        self.first_sent.get_or_insert(now);
        self.tries = self.tries.saturating_add(1);
        self.next = now + self.wait(now);
        match self.stage {
            Stage::Asking => Some(&self.asking),
            Stage::Pinging => {
                // Was the SYN-ACK forged, the ticket may count after all and only its PONG be lost.
                self.asking_due = self.asks_by_ticket() && self.tries > 1;
                Some(&self.ping)
            }
        }
    }

    /// After PINGs in vain another cookie is asked for, while another PING may be made.
    fn change_stage(&mut self, now: Time) {
        let committed = self.early.is_committed(now);
        match self.stage {
            Stage::Pinging if self.tries >= PINGS && !committed => {
                self.stage = Stage::Asking;
                self.rtt = None;
                self.first_sent = None;
                self.tries = 0;
            }
            Stage::Asking if committed && !self.ping.is_empty() => self.stage = Stage::Pinging,
            _ => {}
        }
    }

    /// From the packet that goes out now to its repetition.
    fn wait(&self, now: Time) -> Duration {
        let tries = u32::from(self.tries.saturating_sub(1));
        match self.rtt {
            None => match tries {
                0 => SYN_TIMES[0],
                1 => SYN_TIMES[1] - SYN_TIMES[0],
                _ => (SYN_TIMES[1] * (1 << (tries - 2).min(8))).min(self.longest_wait(now)),
            },
            Some(rtt) => {
                let late = rtt + rtt / 8 + LATE;
                let twice = rtt >= LONG_PATH;
                match tries {
                    0 if twice => rtt / 16,
                    1 if twice => late - rtt / 16,
                    _ => {
                        let growth = tries.saturating_sub(if twice { 2 } else { 0 }).min(8);
                        (late * 3u32.pow(growth) / 2u32.pow(growth)).min(LONGEST_PING_WAIT.max(late))
                    }
                }
            }
        }
    }

    /// Somebody who is away for minutes is asked less and less often.
    fn longest_wait(&self, now: Time) -> Duration {
        (now.since(self.began) / PATIENCE).clamp(LONGEST_WAIT, SLOWEST)
    }

    /// No SYN-ACK has been taken, or none that led anywhere.
    pub(super) fn is_asking(&self) -> bool {
        self.stage == Stage::Asking
    }

    pub(super) fn asking(&self) -> &[u8] {
        &self.asking
    }

    /// What is due next is due now.
    pub(super) fn hurry(&mut self, now: Time) {
        self.next = self.next.min(now);
    }

    fn asks_by_ticket(&self) -> bool {
        self.asking.first() == Some(&(CLEAR_BIT | block::PING))
    }

    pub(super) fn timeout(&self) -> Time {
        let asked = self.alternatives.as_deref().filter(|_| self.is_asking());
        let alternatives = asked.map_or(Time::MAX, Alternatives::timeout);
        if self.asking_due { Time::ZERO } else { self.next.min(self.given_up_at()).min(alternatives) }
    }

    pub(super) fn is_given_up(&self, now: Time) -> bool {
        now >= self.given_up_at()
    }

    /// A ticket is good for longer than any cookie, and so is the PING it went out with.
    fn given_up_at(&self) -> Time {
        let hopeless = self.early.hopeless_at().filter(|_| !self.asks_by_ticket());
        hopeless.map_or(self.give_up, |hopeless| hopeless.min(self.give_up))
    }

    /// An early packet carries messages.
    pub(super) fn on_said_early(&mut self) {
        self.early.on_said();
    }

    fn begin_ping(&mut self, now: Time, by_ticket: bool, packet: Vec<u8>, rtt: Duration) {
        if by_ticket {
            self.asking = packet;
        } else {
            self.stage = Stage::Pinging;
            self.ping = packet;
        }
        self.tries = 0;
        self.asking_due = false;
        self.next = now;
        self.rtt = Some(rtt);
    }
}

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

    pub(super) fn handle_opening_timeout(&mut self, now: Time) {
        if self.opening.as_ref().is_some_and(|opening| opening.is_given_up(now)) {
            self.finish(now, CloseReason::HandshakeTimedOut, None);
        }
    }

    /// A packet of the handshake that is due.
    pub(super) fn transmit_opening(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
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
        path.traffic.sent_packets += 1;
        path.traffic.sent_bytes += size as u64;
        let transmit = path.transmit(size, None);
        Some(match other {
            Some(destination) => Transmit { source: None, destination, ..transmit },
            None => transmit,
        })
    }

    /// The first answer may come from another address of the server, which then counts.
    fn on_answered(&mut self, datagram: &Datagram) {
        let Some(opening) = self.opening.as_deref_mut().filter(|opening| opening.is_asking()) else { return };
        let Some(alternatives) = &mut opening.alternatives else { return };
        if let Some(asked_at) = alternatives.on_answered(datagram.from, self.paths[Main].remote) {
            // After many in vain all are asked at once, from when the first one is counted anew.
            opening.first_sent = opening.first_sent.max(Some(asked_at));
            self.paths[Main].move_to(datagram.from, datagram.to);
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
            (block::SYN_ACK, Stage::Asking) => self.handle_syn_ack(now, &datagram),
            // Also after SYN went out again, and of an earlier PING: the answer may only have been late.
            (block::PONG, _) => self.handle_pong(now, &datagram),
            _ => Err(HandshakeError::NotOurs),
        };
        if let Err(error) = handled {
            self.dropped.handshake += 1;
            // What a man on the side can send must not end the handshake; what only the server can send, does. The exception is a SYN-ACK
            // that shows another key than the one remembered, or none: anybody on the path can make one, but of a changed key people
            // should hear before PING, not after a timeout.
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
        let first_sent = self.opening.as_ref().and_then(|opening| opening.first_sent).unwrap_or(now);
        self.paths[Main].recovery.on_first_rtt(now, now.since(first_sent));
        self.paths[Main].remote_id = answer.server_id;
        self.send_ping(now);
        Ok(())
    }

    /// What was sent after one PING is of no use after another, which begins another connection: all of it is lost, and what is sent
    /// from now on has numbers from `number` on.
    fn abandon_flight(&mut self, now: Time, number: u64) {
        let packet_size = usize::from(super::mtu::BASE) + self.paths[Main].headers() as usize;
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

    /// Builds PING with as much of what is queued as fits; what does not follows in early packets.
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
        let Some(opening) = &mut self.opening else { return };
        let by_ticket = opening.handshake.has_ticket();
        if opening.early.is_over(now) {
            opening.handshake.end_early();
        }
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
        opening.early.on_ping(now, flight.early.is_some(), !self.scratch_carried.is_empty());
        opening.begin_ping(now, by_ticket, flight.packet, self.paths[Main].recovery.rtt.smoothed());
        self.paths[Main].remote_id = flight.server_id;
        self.early_seal = flight.early.map(Box::new);
        self.scratch_items.clear();
        self.scratch_items.extend(self.scratch_carried.iter().map(|carried| SentBlock::Session(*carried)));
        let path = &mut self.paths[Main];
        path.recovery.on_sent(now, size as u64 + path.headers(), true, &self.scratch_items);
    }

    fn handle_pong(&mut self, now: Time, datagram: &Datagram) -> Result<(), HandshakeError> {
        let Some(opening) = &mut self.opening else { return Err(HandshakeError::NotOurs) };
        let Established { keys, params, blocks, server_id, server_key, answers_latest, .. } =
            opening.handshake.handle_pong(&datagram.bytes)?;
        self.on_answered(datagram);
        let Some(opening) = &mut self.opening else { return Err(HandshakeError::NotOurs) };
        if !answers_latest {
            // Back to the connection that was given up. The server has seen numbers of its first flight, and what it held is not known
            // any more: all goes again, and what arrived before is told by its message's number.
            let number = opening.numbers_used.max(self.paths[Main].recovery.next_number());
            let first_sent = opening.first_sent.unwrap_or(now);
            // The SYN-ACK between was a forger's, and so is the round trip it showed.
            self.abandon_flight(now, number);
            self.paths[Main].recovery.on_first_rtt(now, now.since(first_sent));
        }
        self.opening = None;
        self.early_seal = None;
        self.paths[Main].remote_id = server_id;
        self.peer_key = Some(server_key);
        self.last_received = now;
        self.confirmed = true;
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
        // PONG answers PING, which was packet 0.
        let sack = Sack { ranges: vec![0..=0], ..Sack::default() };
        let taken = if answers_latest { self.take_sack(now, PathId::FIRST, &sack) } else { Ok(()) };
        let mut reader = Reader::new(blocks);
        if let Err(misbehaved) =
            taken.and_then(|()| self.process_blocks(now, self.paths[Main].id, &mut reader, false))
        {
            self.on_misbehaved(now, misbehaved);
        }
        Ok(())
    }

    /// Takes over what the peer announced.
    pub(super) fn take_params(&mut self, params: &Params) {
        self.session.set_peer_limits(PeerLimits {
            max_stream_data: params.max_stream_data,
            max_streams: params.max_streams,
            max_message: params.max_message,
            cross_sequencing: params.cross_sequencing,
        });
        self.peer_max_packet = params.max_packet.into();
        self.paths[Main].mtu.limit(self.peer_max_packet);
        self.idle_timeout = self.config.idle_timeout.min(params.idle.max(Duration::from_secs(1)));
        if let Some(token) = params.first_reset_token {
            self.paths[Main].token = Some(token);
            self.endpoint_events.push_back(super::EndpointEvent::PeerResetToken(token));
        }
    }

    /// What this side announces.
    pub(crate) fn own_params(config: &crate::config::TransportConfig) -> Params {
        Params {
            max_stream_data: config.session.share(),
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
    pub(crate) fn accept_with(&mut self, now: Time, accepted: Accepted) -> Result<(), PeerMisbehaved> {
        self.attachment.session = accepted.params.session;
        self.answer(now, accepted, None)
    }

    /// The same for a client that resumes a session; nothing came with its PING.
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
        self.peer_key = Some(accepted.client_key);
        self.early_open = accepted.early.take().map(Box::new);
        if let Some(received) = accepted.unvalidated() {
            self.paths[Main].validation = Validation::Unproven { received: received as u64, sent: 0 };
        }
        if let Some(memory) = accepted.memory {
            self.paths[Main].recovery.recall(memory);
        }
        self.take_params(&accepted.params);
        let mut reader = Reader::new(std::mem::take(&mut accepted.blocks));
        if !reader.is_empty() {
            self.process_blocks(now, self.paths[Main].id, &mut reader, true)?;
        }
        let pace = self.paths[Main].ack_pace(now, self.config.max_ack_delay);
        self.paths[Main].received.on_packet(now, 0, true, None, pace);
        let (session, carried) = (&mut self.session, &mut self.scratch_carried);
        carried.clear();
        let params = Params { resumed, ..Self::own_params(&self.config) };
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
        self.scratch_items.extend(self.scratch_carried.iter().map(|carried| SentBlock::Session(*carried)));
        let path = &mut self.paths[Main];
        path.recovery.on_sent(now, size + path.headers(), true, &self.scratch_items);
        Ok(())
    }
}
