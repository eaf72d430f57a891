//! Receiving packets: header protection is removed, the packet is opened, and its blocks are handled.

use std::ops::Range;

use bytes::BytesMut;

use super::coding::is_of_session;
use super::notes::Notes;
use super::sacked::Sacked;
use crate::connection::datagram::Datagram;
use crate::connection::event::{EndpointEvent, Event};
use crate::connection::handshake::keys::KeyUse;
use crate::connection::observe::path_cause::PathCause;
use crate::connection::paths::destination::Destination;
use crate::connection::paths::path::Path;
use crate::connection::paths::path_set::{At, Main};
use crate::connection::paths::path_state::PathState;
use crate::connection::paths::rebinding::Rebinding;
use crate::connection::state::Connection;
use crate::handshake::Params;
use crate::mutants::{Mutant, planted};
use crate::recovery::SackPath;
use crate::wire::packet::{
    CLEAR_BIT, CLEAR_LEN, EARLY_BIT, KEY_PHASE_BIT, MIN_SEALED, PROTECTED_BITS, SAMPLE_LEN, destination,
    expand_number,
};
use crate::wire::{Reader, block, close};
use crate::{Cause, PathId, PeerMisbehaved, Side, Time};

/// The addresses, length and number of a packet.
#[derive(Clone, Copy)]
struct Origin {
    from: std::net::SocketAddr,
    to: Option<std::net::IpAddr>,
    size: usize,
    number: u64,
}

/// An opened packet: its number, and where its blocks are.
pub(in crate::connection) struct Plain {
    number: u64,
    early: bool,
    blocks: Range<usize>,
}

impl Connection {
    /// Handles a datagram that the endpoint found to be for this connection.
    pub fn handle_datagram(&mut self, now: Time, datagram: Datagram) {
        self.take_datagram(now, datagram);
        self.observe(now);
    }

    fn take_datagram(&mut self, now: Time, datagram: Datagram) {
        if let Some(observer) = &mut self.observer {
            observer.begin_packet();
        }
        if self.succession.has_pending() && self.handle_pending(now, &datagram) {
            return;
        }
        let detached = matches!(self.ending, crate::connection::lifecycle::close::Ending::Detached { .. });
        if self.ending.is_detached() && !detached {
            // A peer that still sends has missed the farewell.
            if self.farewell.last.is_some() && self.farewell.left > 0 {
                self.repeat_farewell(now, datagram);
            }
            return;
        }
        let Some((flags, destination)) = destination(&datagram.bytes) else {
            self.figures.dropped.short += 1;
            return;
        };
        let size = datagram.bytes.len();
        if flags & CLEAR_BIT != 0 {
            if detached {
                self.handle_dialled(now, datagram);
            } else {
                self.handle_clear(now, datagram);
            }
            return;
        }
        let (from, to, ecn) = (datagram.from, datagram.to, datagram.ecn);
        let Some(target) = self.target(destination) else {
            self.figures.dropped.no_keys += 1;
            return;
        };
        let mut packet = datagram.bytes;
        let Some(plain) = self.open(now, target, &mut packet) else { return };
        let at = match target {
            Destination::Path(at) => at,
            Destination::New(path) => {
                self.introduce(path, &packet[plain.blocks.clone()]);
                match self.accept_path(now, path, from, to) {
                    Some(at) => at,
                    None => return,
                }
            }
        };
        // Comes before anything else: whoever holds a copy can send it from anywhere, as often as they like. So a
        // duplicate is only counted.
        if self.paths[at].received.is_duplicate(plain.number) {
            self.paths[at].on_copy(now, plain.number, from);
            return;
        }
        self.paths[at].on_received(now, from, size);
        let newest = plain.number >= self.paths[at].received.expected();
        self.activity.received = now;
        if detached {
            self.revive(now);
        }
        let number = plain.number;
        if plain.early && !self.peer.confirmed && now.since(self.pong.at) > self.pong.wait {
            // The client still seals under the early secret: it had no PONG when it sent this.
            self.pong.due = self.pong.packet.is_some();
            self.pong.wait = self.pong.wait.saturating_mul(2);
        }
        let path = self.paths[at].id();
        let taken = self.process(now, path, packet, plain);
        if let Some(observer) = &mut self.observer {
            observer.on_packet_received(now, path, number, size);
        }
        match taken {
            Ok(eliciting) => {
                // Blocks may have closed this path, or one before it in the list.
                let Some(at) = self.paths.by_id(path) else { return };
                let pace = self.paths[at].ack_pace(now, self.config.max_ack_delay);
                self.paths[at].received.on_packet(now, number, eliciting, ecn, pace);
                if eliciting {
                    self.paths[at].traffic.on_eliciting(size);
                }
                self.on_arrival(now, at, newest, &Origin { from, to, size, number });
                self.compare_received(now);
            }
            Err(misbehaved) => self.on_misbehaved(now, misbehaved),
        }
    }

    /// Repeats the farewell to a peer that still sends: its packet must open and be no duplicate. The farewell goes on
    /// the path of that packet, since the peer may have lost the path that it was sealed for. On one path it is
    /// repeated unchanged, so two ends that both have a farewell soon stop answering each other. A peer that never
    /// proved to hold the keys is answered without these checks.
    fn repeat_farewell(&mut self, now: Time, datagram: Datagram) {
        let (from, size) = (datagram.from, datagram.bytes.len());
        if self.peer.confirmed {
            let Some(at) = self.place_of_news(now, datagram) else { return };
            self.paths[at].earn(size);
            let id = self.paths[at].id();
            if let Some(last) = self.farewell.last.take_if(|last| last.on != id) {
                self.seal_farewell(now, at, last.blocks);
            }
            // Its NAT may have rebound. A shorter answer makes nobody a victim.
            let moved = from != self.paths[at].remote();
            let fits = self.farewell.last.as_ref().is_some_and(|last| last.packet.len() <= size);
            self.farewell.to = (moved && fits).then_some(from);
        }
        self.farewell.due = true;
    }

    /// Returns the path of a packet that opens and is no duplicate.
    fn place_of_news(&mut self, now: Time, datagram: Datagram) -> Option<At> {
        let target = match destination(&datagram.bytes) {
            Some((flags, id)) if flags & CLEAR_BIT == 0 => self.target(id),
            _ => None,
        };
        let Some(Destination::Path(at)) = target else { return None };
        let mut packet = datagram.bytes;
        let plain = self.open(now, Destination::Path(at), &mut packet)?;
        let path = &mut self.paths[at];
        if path.received.is_duplicate(plain.number) {
            return None;
        }
        let pace = path.ack_pace(now, self.config.max_ack_delay);
        path.received.on_packet(now, plain.number, false, datagram.ecn, pace);
        Some(at)
    }

    /// Handles what an authentic packet shows beside its blocks: that the peer is alive, and where it is.
    fn on_arrival(&mut self, now: Time, at: At, newest: bool, origin: &Origin) {
        self.on_answer_from(now, at, origin.from);
        if self.ending.is_over() {
            return;
        }
        let astray = self.came_astray(at, origin.to);
        let path = &mut self.paths[at];
        if origin.from == path.remote() {
            if !astray {
                path.on_heard_at(origin.to);
            }
            if path.lifecycle.state() == PathState::Opening && path.is_unasked(now) {
                // The peer may have had the answer to its own challenge, and use the path.
                path.challenge(now, self.supply.challenge());
            }
            self.reopen(now, at);
            return;
        }
        path.on_asked_at_former(now, origin.from);
        let follows =
            if path.lifecycle.state() == PathState::Closed { self.stands_in_for(at) } else { Some(at) };
        if newest
            && let Some(follows) = follows
            && !self.came_astray(follows, origin.to)
        {
            let asked = self.paths[at].answers.newest();
            self.challenge_origin(now, follows, origin, follows == at);
            self.answer_origin(now, follows, asked);
        }
    }

    /// Returns whether a packet came to another address of this host than the client chose for the path. The server goes
    /// on where the path was before, and is about to hear where it is now. If the client followed it back while it
    /// follows the client, the two would change places without end. Somebody on the way may also have led the packet
    /// there, to an address that the client is not to use.
    fn came_astray(&self, at: At, to: Option<std::net::IpAddr>) -> bool {
        let chosen = self.paths[at].local();
        let elsewhere = chosen.is_some() && to.is_some() && chosen != to;
        self.side == Side::Client && elsewhere && !self.has_lost_address(at)
    }

    /// Answers a challenge at the address it came from, but only if no path works. Otherwise it is answered at the
    /// path's known address, so that whoever relays challenges gains nothing. If no path works, both ends may have
    /// moved, each unknown to the other, and the answer must go where the challenge came from.
    fn answer_origin(&mut self, now: Time, at: At, asked: Option<u64>) {
        if self.paths.all().any(|at| self.is_at_hand(at)) {
            return;
        }
        if let Some(asked) = asked {
            self.paths[at].on_asked_elsewhere(now, asked);
        }
    }

    /// Returns the path that follows the peer to the source of a packet on a closed path, if no path works. That packet
    /// may be the only sign of where the peer is now. A peer that has not heard of the closing probes there after its
    /// NAT rebound, while this end looks for it elsewhere in vain.
    fn stands_in_for(&self, closed: At) -> Option<At> {
        if self.paths.all().any(|at| self.is_at_hand(at)) {
            return None;
        }
        let local = self.paths[closed].local();
        let fits = |at: &At| self.paths[*at].lifecycle.is_proven() && self.paths[*at].local() == local;
        self.paths.in_order().find(fits)
    }

    /// Challenges the address that a packet came from, unless it is the path's own.
    fn challenge_origin(&mut self, now: Time, at: At, origin: &Origin, own: bool) {
        let Origin { from, to, size, number } = *origin;
        let path = &mut self.paths[at];
        if path.remote() == from {
            return;
        }
        let first = own.then_some(number);
        if path.challenge_origin(now, (from, to), (first, size), || self.supply.challenge())
            && let Some(observer) = &mut self.observer
        {
            observer.on_challenge(now, path.id(), from);
        }
    }

    pub(in crate::connection) fn on_misbehaved(&mut self, now: Time, misbehaved: PeerMisbehaved) {
        let reason = close::Reason::new(0, misbehaved.what);
        self.finish(now, misbehaved.into(), Some((misbehaved.cause, reason)));
    }

    /// Removes header protection and opens the packet. Counts and drops what does not open.
    pub(in crate::connection) fn open(
        &mut self,
        now: Time,
        target: Destination,
        packet: &mut [u8],
    ) -> Option<Plain> {
        if packet.len() < MIN_SEALED {
            self.figures.dropped.short += 1;
            return None;
        }
        // The announced limit is enforced. A part of a packet that waits to be read may keep the whole packet in
        // memory, so limits would count too little.
        if packet.len() > usize::from(self.config.max_udp_payload.max(Params::MIN_PACKET)) {
            self.figures.dropped.long += 1;
            return None;
        }
        let size = packet.len();
        let early = packet[0] & EARLY_BIT != 0;
        let header = if early {
            self.early_keys.open.as_ref().map(|keys| &keys.header)
        } else {
            self.keys.as_ref().map(|keys| &keys.keys().open_header)
        };
        let Some(header) = header else {
            self.figures.dropped.no_keys += 1;
            return None;
        };
        let sample = packet[CLEAR_LEN + 4..].first_chunk::<SAMPLE_LEN>()?;
        let mask = header.mask(sample);
        packet[0] ^= mask[0] & PROTECTED_BITS;
        let flags = packet[0];
        let length = usize::from(flags & 3) + 1;
        let mut truncated = 0u64;
        for (at, mask) in (CLEAR_LEN..CLEAR_LEN + length).zip(&mask[1..]) {
            packet[at] ^= mask;
            truncated = truncated << 8 | u64::from(packet[at]);
        }
        let (path, expected) = match target {
            Destination::Path(at) => (self.paths[at].id(), self.paths[at].received.expected()),
            Destination::New(path) => (path, 0),
        };
        let number = expand_number(truncated, length, expected);
        let (head, sealed) = packet.split_at_mut(CLEAR_LEN + length);
        let opened = if early {
            self.early_keys.open.as_ref()?.open.open(path, number, head, sealed)
        } else {
            let mut fresh = KeyUse::default();
            let used = match target {
                Destination::Path(at) => &mut self.paths[at].keys,
                Destination::New(_) => &mut fresh,
            };
            let phase = flags & KEY_PHASE_BIT != 0;
            let keys = self.keys.as_mut()?;
            let opened = keys.open(used, path, number, phase, head, sealed);
            if opened.is_some_and(|opened| opened.supersedes) {
                keys.keep_previous(now + self.paths.drain_time());
            }
            opened.map(|opened| opened.len)
        };
        let Some(length) = opened else {
            self.figures.dropped.forged += 1;
            if let Some(observer) = &mut self.observer {
                observer.on_packet_unopened(now, path, size);
            }
            if self.keys.as_ref().is_some_and(|keys| keys.is_exhausted()) {
                self.on_misbehaved(now, PeerMisbehaved::new(Cause::AeadLimit, "too many forged packets"));
            }
            return None;
        };
        // Checked after the tag, so that a forger learns nothing from it.
        if flags & 0x38 != 0 {
            self.on_misbehaved(now, PeerMisbehaved::new(Cause::InvalidField, "packet: reserved bits set"));
            return None;
        }
        let head = head.len();
        if !early && !self.peer.confirmed {
            self.on_confirmed(now);
        }
        Some(Plain { number, early, blocks: head..head + length })
    }

    /// Handles the first packet under the final keys, which proves the peer.
    fn on_confirmed(&mut self, now: Time) {
        self.peer.confirmed = true;
        self.pong.packet = None;
        self.pong.due = false;
        self.early_keys.until = self.early_keys.open.is_some().then(|| now + self.paths.drain_time());
        self.paths[Main].on_address_proven();
        if self.side == crate::Side::Server {
            self.events.push_back(Event::Connected);
            self.endpoint_events.push_back(EndpointEvent::Proven { from: self.paths[Main].remote() });
            self.issue_first_ticket(now);
            self.ask_for_ids();
        }
    }

    /// Handles the blocks of one packet. Returns whether it asks for acknowledgement.
    fn process(
        &mut self,
        now: Time,
        path: PathId,
        packet: BytesMut,
        plain: Plain,
    ) -> Result<bool, PeerMisbehaved> {
        let mut reader = Reader::within(packet.freeze(), plain.blocks);
        if reader.is_empty() {
            return Err(PeerMisbehaved::new(Cause::MissingField, "packet without blocks"));
        }
        self.process_blocks(now, path, &mut reader, plain.early)
    }

    /// Handles blocks as if a packet that opened had brought them: what a hostile peer with valid keys can send. For
    /// tests and fuzzing.
    #[doc(hidden)]
    pub fn handle_blocks(&mut self, now: Time, blocks: bytes::Bytes) {
        if self.ending.is_over() || blocks.is_empty() {
            return;
        }
        if let Err(misbehaved) =
            self.process_blocks(now, self.paths[Main].id(), &mut Reader::new(blocks), false)
        {
            self.on_misbehaved(now, misbehaved);
        }
    }

    pub(in crate::connection) fn process_blocks(
        &mut self,
        now: Time,
        path: PathId,
        reader: &mut Reader,
        early: bool,
    ) -> Result<bool, PeerMisbehaved> {
        let (mut eliciting, mut sacked, mut coded) = (false, Sacked::default(), false);
        while !reader.is_empty() {
            let kind = reader.u8()?;
            if let Some(observer) = &mut self.observer {
                observer.on_block(kind);
            }
            if kind == block::DATA {
                self.activity.data = now;
            }
            eliciting |= !matches!(kind, block::SACK | block::PADDING | block::RST | block::ERROR);
            match kind {
                _ if is_of_session(kind) => self.session.handle_block(now, kind, reader, early)?,
                _ if early => {
                    return Err(PeerMisbehaved::new(
                        Cause::UnrecognizedBlock,
                        "block not allowed in early data",
                    ));
                }
                block::PADDING => drop(reader.rest()),
                _ if coded => {
                    let what = "a block that is not the session's behind SOURCE";
                    return Err(PeerMisbehaved::new(Cause::UnrecognizedBlock, what));
                }
                block::SACK => sacked.note(self.on_sack(now, path, reader)?)?,
                block::KEEP_ALIVE => {}
                block::PROBE => self.on_probe(path, reader.u64()?),
                block::PROBE_ACK => self.on_probe_ack(now, path, reader.u64()?),
                block::FIN => self.on_fin(now, close::read_fin(reader)?),
                block::FIN_ACK => self.on_fin_ack(now),
                block::FIN_DONE => self.finish_peer_closed(now),
                block::RST => {
                    let (cause, reason) = close::read_rst(reader)?;
                    self.finish(
                        now,
                        crate::connection::lifecycle::close::CloseReason::Aborted(cause, reason),
                        None,
                    );
                    return Ok(false);
                }
                block::ERROR => drop(close::read_error(reader)?),
                block::NEW_CID => self.on_new_cid(now, reader)?,
                block::CLOSE_PATH => self.on_close_path(now, reader)?,
                block::ADD_ADDRESS => self.on_add_address(now, reader)?,
                block::DELETE_ADDRESS => self.on_delete_address(now, reader)?,
                block::SET_PRIMARY => self.on_set_primary(now, reader)?,
                block::SUSPEND => self.on_suspend(now, reader)?,
                block::SUSPEND_ACK => {
                    self.on_suspend_ack(now, reader)?;
                    if self.ending.is_over() {
                        // The session has left: blocks behind this one are ignored.
                        return Ok(false);
                    }
                }
                block::TICKET => self.on_ticket(now, reader)?,
                block::SOURCE => {
                    self.on_source(reader)?;
                    coded = true;
                }
                block::REPAIR => self.on_repair(reader)?,
                block::FIRST_SKIPPABLE.. => {
                    let length = reader.varint()?;
                    reader.skip(length)?;
                }
                _ => return Err(PeerMisbehaved::new(Cause::UnrecognizedBlock, "unknown block")),
            }
        }
        if self.coding.has_recovered() {
            self.take_recovered(now)?;
        }
        Ok(eliciting)
    }

    /// Handles SACK. Returns the path that it reports on.
    fn on_sack(&mut self, now: Time, path: PathId, reader: &mut Reader) -> Result<PathId, PeerMisbehaved> {
        let mut sack = self.building.lend_sack();
        let read = sack.read(reader).map_err(PeerMisbehaved::from);
        if let Some(observer) = &mut self.observer {
            observer.on_sack(&sack);
        }
        let taken = read.and_then(|()| self.take_sack(now, path, &sack));
        self.figures.dropped.made_up +=
            u64::from(taken.as_ref().is_err_and(|why| why.cause == Cause::AckOfUnsent));
        let path = PathId(sack.path);
        self.building.return_sack(sack);
        taken.map(|()| path)
    }

    /// Acts on a SACK that came on path `on`. It is the peer's, or the one that PONG implies.
    pub(in crate::connection) fn take_sack(
        &mut self,
        now: Time,
        on: PathId,
        sack: &crate::wire::sack::Sack,
    ) -> Result<(), PeerMisbehaved> {
        let id = PathId(sack.path);
        let told = if planted(Mutant::SackOfAnotherPath) { self.paths[Main].id() } else { id };
        let Some(at) = self.paths.by_id(told) else {
            if self.supply.ids.is_over(id) {
                // The SACK is of a path that was closed meanwhile.
                return Ok(());
            }
            return Err(PeerMisbehaved::new(Cause::AckOfUnsent, "SACK of a path that does not exist"));
        };
        let mut notes = Notes::default();
        let (session, control) = (&mut self.session, &mut self.control);
        let way = if on == id { SackPath::Own } else { SackPath::Other };
        let spurious = self.paths[at].recovery.spurious_packets();
        let packets = self.paths[at].recovery.on_sack(now, sack, way, |fate, item| {
            Self::settle(now, fate, item, session, control, &mut notes);
        })?;
        notes.acked = packets;
        notes.spurious = self.paths[at].recovery.spurious_packets() - spurious;
        if self.paths[at].proven_there.on_sack(sack) {
            self.on_proven_there(now);
        }
        if let Some(keys) = &self.keys {
            self.paths[at].keys.on_acked(keys.updates(), sack.largest());
        }
        self.take_notes(now, at, notes);
        if self.early_keys.until.is_some() && self.session.is_unused() && self.in_flight() == 0 {
            // Frees the memory that the handshake needed before thousands of other connections begin theirs and can use
            // it.
            self.trim();
        }
        self.couple(now, at);
        self.forget_closed(now);
        self.ask_again(now);
        self.review(now);
        self.check_quality(now);
        self.ask_for_ids();
        self.issue_measured_ticket(now);
        Ok(())
    }

    fn on_probe(&mut self, path: PathId, challenge: u64) {
        // A block before this one may have closed the path.
        if let Some(at) = self.paths.by_id(path) {
            self.paths[at].answers.push(challenge);
        }
    }

    fn on_probe_ack(&mut self, now: Time, path: PathId, challenge: u64) {
        // A block before this one may have closed the path.
        let Some(at) = self.paths.by_id(path) else { return };
        self.paths[at].on_answer(now, challenge);
    }

    /// Handles answers to challenges, after a packet from `remote` was taken apart. An answer counts only if it came
    /// from the address that its challenge went to. Otherwise somebody may have relayed the challenge to the peer,
    /// which answers from where it always was.
    fn on_answer_from(&mut self, now: Time, at: At, remote: std::net::SocketAddr) {
        let path = &mut self.paths[at];
        if let Some(from) = path.take_former_answer(now, remote) {
            let (path, to) = (path.id(), remote);
            if let Some(observer) = &mut self.observer {
                observer.note_path(path, PathCause::NotMoved);
            }
            self.events.push_back(Event::PeerAddressChanged { path, from, to });
            return;
        }
        if let Some(rtt) = path.take_answer(now, remote) {
            self.follow(now, at, rtt);
        }
    }

    /// Moves the path to the address from which the peer answered a challenge.
    pub(in crate::connection) fn follow(&mut self, now: Time, at: At, rtt: std::time::Duration) {
        let path = &mut self.paths[at];
        let Some(rebinding) = path.rebinding() else { return };
        let from = path.remote();
        if path.lifecycle.is_proven() {
            path.leave(now, self.supply.challenge(), rebinding.remote);
            // If somebody who relays packets caused all this, the peer can still be dialled where it was.
            self.supply.addresses.on_answered(from);
        }
        path.adopt(now, rebinding, rtt);
        let id = path.id();
        self.supply.addresses.on_answered(rebinding.remote);
        self.look_for_others(now, id, from, rebinding);
        if self.ending.is_over() {
            // The packet that ended the connection shows where the farewell goes. The application hears nothing more.
            return;
        }
        if self.paths[at].lifecycle.on_validated() {
            self.on_path_up(now, at);
            return;
        }
        self.events.push_back(Event::PeerAddressChanged { path: id, from, to: rebinding.remote });
    }

    /// The peer's NAT rebound on one path. Other paths between the same two addresses led through it as well. Where the
    /// NATs of both ends rebind at a time, neither end hears the other there.
    fn look_for_others(&mut self, now: Time, moved: PathId, from: std::net::SocketAddr, to: Rebinding) {
        if from == to.remote {
            return;
        }
        let led_there = |path: &Path| {
            let same_local = path.local().is_none() || to.local.is_none() || path.local() == to.local;
            path.id() != moved && path.remote() == from && same_local && path.lifecycle.is_proven()
        };
        for path in self.paths.iter_mut().filter(|path| path.rebinding().is_none() && led_there(path)) {
            path.challenge_moved(now, to.remote, self.supply.challenge());
        }
    }

    fn on_fin(&mut self, now: Time, reason: close::Reason) {
        if self.ending.on_fin(now, reason.clone(), self.config.close_timeout) {
            if let Some(observer) = &mut self.observer {
                observer.on_closing(now, "peer", &reason);
            }
            self.session.begin_close();
            self.issue_last_ticket();
            self.events.push_back(Event::PeerClosing(reason));
        }
    }

    fn on_fin_ack(&mut self, now: Time) {
        use crate::connection::lifecycle::close::Ending::{FinAckSent, FinSent, PeerFin};
        // The other states occur when two FINs cross: the peer's FIN-ACK may come before ours is sent. FIN-DONE tells
        // the peer that it came, so the peer does not wait for ours.
        if matches!(self.ending, FinSent { .. } | PeerFin { .. } | FinAckSent { .. }) {
            self.prepare_fin_done(now);
            self.finish(now, crate::connection::lifecycle::close::CloseReason::Local, None);
        }
    }
}
