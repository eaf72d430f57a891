//! Sending packets: building, sealing, header protection, and bookkeeping.

use std::time::Duration;

use super::lengths::{CHALLENGE_LEN, MOST_FAREWELL, PONG_WAIT};
use super::mtu::USUAL;
use super::sent_block::SentBlock;
use crate::connection::control::control_queue::ControlBlock;
use crate::connection::datagram::Transmit;
use crate::connection::handshake::keys::KeyRing;
use crate::connection::lifecycle::farewell::LastPacket;
use crate::connection::paths::path::FormerChallenge;
use crate::connection::paths::path_set::{At, Main};
use crate::connection::paths::path_state::PathState;
use crate::connection::state::Connection;
use crate::mutants::{Mutant, planted};
use crate::recovery::{CIPHER_BLOCK, Permit};
use crate::wire::close::{Reason, write_rst};
use crate::wire::packet::{
    CLEAR_LEN, EARLY_BIT, KEY_PHASE_BIT, PROTECTED_BITS, SAMPLE_LEN, TAG_LEN, number_len,
};
use crate::wire::{Writer, block};
use crate::{Cause, PeerMisbehaved, Side, Time};

/// The shortest block part, bytes. With the shortest packet number and the tag it leaves a whole header-protection
/// sample. The packet is then long enough to be answered by a stateless reset, which must be shorter.
const MIN_BLOCKS: usize = 4;
/// The least room, bytes, that is worth a packet where the amplification limit allows little. A shorter packet is
/// mostly head.
const LEAST_PACKET: usize = 64;
/// The loss above which small messages are repeated twice.
const HEAVY_LOSS: f64 = 0.08;
/// The bytes behind which no further packet is built at a time. Large packets would otherwise keep a connection locked for long.
const MOST_AT_A_TIME: usize = 94 << 10;
/// The RTT up to which a path may carry more than the usual size.
const WITHIN_SITE: Duration = Duration::from_millis(5);
/// The rate, in bytes a second, above which the processor and not the link limits the speed.
const FASTER_THAN_SEALING: u64 = 1_000_000_000;
/// The longest wait before PONG is repeated to a PING. A client without PONG sends PING every 250 ms, or every round
/// trip if that is longer.
const LONGEST_PONG_WAIT: Duration = Duration::from_millis(160);

/// A packet under construction.
struct Head {
    start: usize,
    number: u64,
    number_len: usize,
    early: bool,
}

/// Why a packet may be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// A SACK or the answer to a challenge is due. Congestion control and pacing do not hold it back.
    Sack,
    /// Anything may be sent.
    Data,
    /// A silent path is probed. The packet must ask for acknowledgement.
    Probe,
}

/// A packet that may be sent now.
#[derive(Clone, Copy)]
struct Slot {
    occasion: Occasion,
    /// The longest it may be, bytes.
    limit: usize,
    /// Whether it may carry messages and the connection's blocks. Otherwise it carries only the path's own.
    data: bool,
}

impl Connection {
    /// Appends to `out` what is to be sent now: at most `segments` datagrams to one destination. Returns `None` if
    /// there is nothing to send now.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>, segments: usize) -> Option<Transmit> {
        let transmit = self.transmit(now, out, segments);
        self.observe(now);
        transmit
    }

    fn transmit(&mut self, now: Time, out: &mut Vec<u8>, segments: usize) -> Option<Transmit> {
        if let Some(transmit) = self.transmit_single(now, out) {
            return Some(transmit);
        }
        if self.ending.is_detached() || !(self.keys.is_some() || self.early_keys.seal.is_some()) {
            return None;
        }
        if self.keys.as_ref().is_some_and(KeyRing::is_worn_out) {
            let worn = PeerMisbehaved::new(Cause::AeadLimit, "the peer acknowledges no packet of these keys");
            self.on_misbehaved(now, worn);
            return None;
        }
        self.progress_ending(now);
        let mut turns = self.mender().into_iter().chain(self.paths.in_order());
        turns.find_map(|at| self.transmit_on(now, at, out, segments))
    }

    /// Builds what is to be sent now on one path.
    fn transmit_on(&mut self, now: Time, at: At, out: &mut Vec<u8>, segments: usize) -> Option<Transmit> {
        self.paths[at].on_turn(now);
        let start = out.len();
        let mut segment_size = usize::from(self.paths[at].mtu.current());
        let mut count = 0;
        while count < segments.max(1) && out.len() - start < MOST_AT_A_TIME {
            let room = self.paths[at].room();
            if room < LEAST_PACKET {
                break;
            }
            let Some(size) = self.build(now, at, out, segment_size.min(room), count == 0) else { break };
            self.paths[at].spend(size);
            count += 1;
            // An MTU probe travels alone. Before other packets it would set their size; behind them it would be cut to
            // theirs.
            let probed = size > usize::from(self.paths[at].mtu.current());
            // So does a very short packet. One behind it that must be padded, or has a longer number, would not fit
            // into its size.
            if probed || size < LEAST_PACKET || count > 1 && size < segment_size {
                break;
            }
            segment_size = size;
        }
        if count == 0 {
            return None;
        }
        let size = out.len() - start;
        Some(self.paths[at].transmit(size, (count > 1).then_some(segment_size)))
    }

    /// Builds a packet that travels alone: one of the handshake, the farewell, or a challenge to an address.
    pub(in crate::connection) fn transmit_single(
        &mut self,
        now: Time,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if self.farewell.due {
            self.farewell.due = false;
            let to = self.farewell.to.take();
            let last = self.farewell.last.as_deref()?;
            let at = self.paths.by_id(last.on).unwrap_or(self.paths.main());
            let size = last.packet.len();
            if to.is_none() && size > self.paths[at].room() {
                return None;
            }
            out.extend_from_slice(&last.packet);
            self.farewell.left = self.farewell.left.saturating_sub(1);
            let transmit = self.paths[at].transmit(size, None);
            if let Some(to) = to {
                return Some(Transmit { destination: to, ..transmit });
            }
            self.paths[at].spend(size);
            return Some(transmit);
        }
        if let Some(transmit) = self.transmit_opening(now, out) {
            return Some(transmit);
        }
        if std::mem::take(&mut self.pong.due) && self.may_repeat_pong(now) {
            self.pong.at = now;
            self.pong.sent = self.pong.sent.saturating_add(1);
            // If there is no room for it, the next PING makes some.
            let pong = self.pong.packet.as_ref().filter(|pong| pong.len() <= self.paths[Main].room())?;
            out.extend_from_slice(pong);
            self.paths[Main].spend(pong.len());
            return Some(self.paths[Main].transmit(pong.len(), None));
        }
        if let Some(transmit) =
            self.succession.all_pending().find_map(|pending| pending.transmit_single(now, out))
        {
            return Some(transmit);
        }
        if self.ending.is_detached() {
            return self.succession.dial()?.transmit(now, out);
        }
        let mut paths = self.paths.all();
        paths.find_map(|at| {
            self.transmit_challenge(now, at, out).or_else(|| self.transmit_former(now, at, out))
        })
    }

    /// Returns whether PONG may be repeated now. A copy of PING costs whoever sends it nothing, so repetitions are
    /// limited. The first is sent at once, since clients on long paths send PING twice; the others after longer and
    /// longer waits.
    fn may_repeat_pong(&self, now: Time) -> bool {
        let repeats = u32::from(self.pong.sent.saturating_sub(2)).min(16);
        self.pong.sent < 2 || now.since(self.pong.at) >= (PONG_WAIT * (1 << repeats)).min(LONGEST_PONG_WAIT)
    }

    fn transmit_challenge(&mut self, now: Time, at: At, out: &mut Vec<u8>) -> Option<Transmit> {
        let rebinding = self.paths[at].challenge_due(now)?;
        let head = self.begin(at, out);
        let path = &self.paths[at];
        let own = rebinding.remote == path.remote();
        let opens = own && self.side == Side::Client && path.lifecycle.state() == PathState::Opening;
        let alone = opens && self.opening_len() > CHALLENGE_LEN;
        if alone && let Some(told) = path.announced().and_then(|told| self.control.held_notice(told)) {
            // The peer can answer only to our id for this path, and nothing else may bring it that id.
            out.extend_from_slice(told);
        }
        out.push(block::PROBE);
        out.extend_from_slice(&rebinding.next_challenge().to_be_bytes());
        if let Some(answer) = rebinding.next_answer() {
            out.push(block::PROBE_ACK);
            out.extend_from_slice(&answer.to_be_bytes());
        }
        if alone {
            out.push(block::PADDING);
            let end = head.start + self.opening_len().min(self.paths[at].room()) - TAG_LEN;
            out.resize(end.max(out.len()), 0);
        }
        let size = self.seal(at, out, &head);
        self.building.begin_bare();
        self.record(now, at, size, false);
        self.paths[at].on_challenge(now, size);
        Some(Transmit {
            destination: rebinding.remote,
            source: rebinding.local,
            ecn: None,
            size,
            segment_size: None,
        })
    }

    /// Challenges the peer's former address, to see whether the peer is still there.
    fn transmit_former(&mut self, now: Time, at: At, out: &mut Vec<u8>) -> Option<Transmit> {
        let FormerChallenge { challenge, answer, remote, local } = self.paths[at].poll_former(now)?;
        let head = self.begin(at, out);
        out.push(block::PROBE);
        out.extend_from_slice(&challenge.to_be_bytes());
        if let Some(answer) = answer {
            out.push(block::PROBE_ACK);
            out.extend_from_slice(&answer.to_be_bytes());
        }
        let size = self.seal(at, out, &head);
        self.building.begin_bare();
        self.record(now, at, size, false);
        Some(Transmit { destination: remote, source: local, ecn: None, size, segment_size: None })
    }

    /// Builds one packet of at most `limit` bytes at the end of `out`. If it is the first of several, it may instead be
    /// an MTU probe. Returns its size, or `None` if nothing may or need be sent.
    fn build(&mut self, now: Time, at: At, out: &mut Vec<u8>, limit: usize, first: bool) -> Option<usize> {
        let slot = self.occasion(now, at, limit, first)?;
        let proven = self.peer.confirmed && self.paths[at].lifecycle.state() != PathState::Opening;
        let mtu_probe = if first && slot.occasion == Occasion::Data && self.keys.is_some() && proven {
            self.next_mtu_probe(now, at)
        } else {
            None
        };
        let head = self.begin(at, out);
        self.building.begin();
        let eliciting = match mtu_probe {
            Some(size) => self.write_mtu_probe(at, out, &head, size),
            None => self.write_blocks(now, at, out, &head, slot),
        };
        if out.len() == head.start + CLEAR_LEN + head.number_len {
            out.truncate(head.start);
            return None;
        }
        let size = self.seal(at, out, &head);
        self.record(now, at, size, eliciting);
        Some(size)
    }

    /// Returns whether a packet may be sent, for what reason, and how long it may be.
    fn occasion(&mut self, now: Time, at: At, limit: usize, first: bool) -> Option<Slot> {
        let established = self.keys.is_some();
        let owed = self.is_sack_due(now, at) || self.paths[at].answers.is_due();
        let owed = (established && owed).then_some(Slot { occasion: Occasion::Sack, limit, data: false });
        if !self.paths[at].lifecycle.is_proven() && !planted(Mutant::DataBeforeChallenge) {
            return owed;
        }
        let wire = limit as u64 + self.paths[at].headers();
        let permit = self.paths[at].recovery.permit(now, wire);
        let data = self.carries(at);
        let waits = self.session.wants_to_send() || !self.control.is_empty();
        self.building.on_waiting(waits);
        let echoes = established && !self.paths[at].echoes.is_empty();
        let repair = self.coding.due(waits).filter(|_| data && established);
        if let Some(due) = repair.filter(|due| *due > now) {
            self.paths[at].pace_until(due);
        }
        let repair = repair.is_some_and(|due| due <= now);
        let mut wanted = self.paths[at].pulse.is_answer_wanted() || echoes || repair || data && waits;
        if !wanted && permit == Permit::Now {
            self.paths[at].recovery.on_app_limited();
            wanted = data && self.double(now, at);
        }
        match permit {
            Permit::Probe(most) if established => {
                return Some(Slot { occasion: Occasion::Probe, limit: limit.min(most), data });
            }
            Permit::Now if wanted || (first && established && self.mtu_probe_due(now, at)) => {
                return Some(Slot { occasion: Occasion::Data, limit, data });
            }
            Permit::At(due) if wanted => self.paths[at].pace_until(due),
            _ => {}
        }
        owed
    }

    /// With nothing else to send, has the session queue a second copy of what may be lost. Returns whether there is
    /// one.
    fn double(&mut self, now: Time, at: At) -> bool {
        let allowed = self.config.repeats != crate::config::Repeats::Fixed(0);
        if !allowed || self.keys.is_none() || self.session.is_blocked() {
            return false;
        }
        let session = &mut self.session;
        while !session.has_lost() {
            let found = self.paths[at].recovery.double(now, |item| {
                if let SentBlock::Session(carried) = item {
                    session.send_again(carried);
                }
            });
            if !found {
                return false;
            }
        }
        self.building.on_doubled();
        true
    }

    fn mtu_probe_due(&self, now: Time, at: At) -> bool {
        self.peer.confirmed
            && self.paths[at].lifecycle.is_usable()
            && !self.paths[at].leaving.is_by_choice()
            && self.next_mtu_probe(now, at).is_some()
            && self.ending.is_open()
    }

    /// Returns the size of the MTU probe that is due. Only paths within a site carry more than the usual size, and a probe of several packets'
    /// size takes the place of data.
    fn next_mtu_probe(&self, now: Time, at: At) -> Option<u16> {
        let path = &self.paths[at];
        let rtt = &path.recovery.rtt;
        let is_short = !rtt.is_unknown() && rtt.min() <= WITHIN_SITE;
        path.mtu.next_probe(now).filter(|size| *size <= USUAL || is_short)
    }

    fn write_mtu_probe(&mut self, at: At, out: &mut Vec<u8>, head: &Head, size: u16) -> bool {
        let end = head.start + usize::from(size) - TAG_LEN;
        out.extend_from_slice(&[block::KEEP_ALIVE, block::PADDING]);
        out.resize(end, 0);
        self.paths[at].mtu.on_probe_sent(size);
        self.building.add(SentBlock::MtuProbe(size));
        true
    }

    /// Writes SACKs, then the connection's blocks, then the session's. Returns whether the packet asks for
    /// acknowledgement.
    fn write_blocks(&mut self, now: Time, at: At, out: &mut Vec<u8>, head: &Head, slot: Slot) -> bool {
        let Slot { occasion, limit, data } = slot;
        let body = head.start + CLEAR_LEN + head.number_len;
        let mut end = head.start + limit - TAG_LEN;
        let path = &self.paths[at];
        if path.recovery.pacing_rate() >= FASTER_THAN_SEALING && limit == usize::from(path.mtu.current()) {
            // A cipher takes longer for a part of a block than for a whole one, at either end. Packets that follow have
            // the first one's size.
            end -= (end - body) % CIPHER_BLOCK as usize;
        }
        if occasion == Occasion::Data
            && data
            && self.keys.is_some()
            && self.coding.due(self.session.wants_to_send()).is_some_and(|due| due <= now)
            && self.write_repair(now, &mut Writer::new(out, end))
        {
            return true;
        }
        // The peer waits for answers to its challenges, so they have room however much there is to report of other
        // paths.
        let mut writer = Writer::new(out, end - self.paths[at].answers.room().min(end - body));
        let probe = occasion == Occasion::Probe;
        if self.keys.is_some() && self.has_sacks(at, probe) && self.write_verdicts(&mut writer) {
            self.write_sacks(now, at, probe, &mut writer);
        }
        let verdicts = self.building.has_data();
        let sack_end = writer.len();
        let mut writer = Writer::new(out, end);
        if occasion == Occasion::Sack {
            // One SACK in a round trip asks to be acknowledged itself. Otherwise its ranges would grow for ever.
            let prunes = self.paths[at].lifecycle.is_proven()
                && self.paths[at].received.wants_pruning()
                && now.since(self.activity.eliciting) > self.paths[at].recovery.rtt.smoothed();
            if prunes || self.sack_probes(now, at) {
                self.paths[at].pulse.want_answer();
            } else if !self.paths[at].answers.is_due() {
                return verdicts;
            }
        }
        self.write_path_blocks(at, &mut writer);
        let building = &mut self.building;
        if self.keys.is_some() && data && !self.control.is_empty() {
            self.control.fill(&mut writer, |control| building.add(SentBlock::ControlBlock(control)));
        }
        let full = occasion == Occasion::Data
            && self.keys.is_some()
            && !self.write_echoes(at, end - body, &mut writer);
        if occasion != Occasion::Sack && data {
            let repeats = self.repeats(at, occasion);
            self.session.resend_beyond(self.resent_in_vain(now));
            self.building.on_data(self.session.has_lost());
            let mends = self.mender() == Some(at);
            if !full {
                let reserved = if mends { 0 } else { self.coding_reserve(now) };
                let mark = writer.len();
                let mut writer = Writer::new(out, end - reserved.min(end - mark));
                let session = &mut self.session;
                self.building.carry(|carried| {
                    if mends {
                        session.fill_again(now, &mut writer, carried);
                    } else {
                        session.fill(now, &mut writer, carried, repeats);
                    }
                });
                self.echo(now, at);
                self.code(now, at, out, mark, reserved);
            }
        }
        let mut writer = Writer::new(out, end);
        if occasion == Occasion::Probe && writer.len() == sack_end {
            writer.u8(block::KEEP_ALIVE);
            self.building.add(SentBlock::ControlBlock(ControlBlock::KeepAlive));
        }
        let eliciting = verdicts || writer.len() > sack_end;
        if writer.len() > body && writer.len() < body + MIN_BLOCKS {
            // Too short for a header-protection sample.
            out.extend_from_slice(&[block::PADDING, 0, 0]);
        }
        eliciting
    }

    /// Writes the blocks that are owed to the peer on this path.
    fn write_path_blocks(&mut self, at: At, writer: &mut Writer<'_>) {
        if self.keys.is_none() {
            return;
        }
        let path = &mut self.paths[at];
        if path.answers.fill(writer) {
            self.building.add(SentBlock::Answer);
        }
        if path.pulse.is_answer_wanted() && writer.remaining() > 0 {
            path.pulse.on_answer_asked();
            writer.u8(block::KEEP_ALIVE);
            self.building.add(SentBlock::ControlBlock(ControlBlock::KeepAlive));
        }
    }

    /// Writes the verdicts on messages that came too late, which must precede their acknowledgement. Returns false if
    /// not all fit: acknowledgement then has to wait.
    fn write_verdicts(&mut self, writer: &mut Writer<'_>) -> bool {
        if !self.session.has_verdicts() {
            return true;
        }
        let session = &mut self.session;
        self.building.carry(|carried| session.fill_verdicts(writer, carried))
    }

    /// Returns how often small messages are repeated now: not at all once half the congestion window is in use.
    fn repeats(&self, at: At, occasion: Occasion) -> u8 {
        let redundant = self.config.scheduler == crate::connection::paths::scheduler::Scheduling::Redundant
            && self.paths.len() > 1;
        if occasion == Occasion::Probe || redundant {
            return 0;
        }
        let recovery = &self.paths[at].recovery;
        if recovery.in_flight() * 2 > recovery.controller().window() {
            return 0;
        }
        match self.config.repeats {
            crate::config::Repeats::Fixed(repeats) => repeats,
            crate::config::Repeats::Adaptive if recovery.loses_more_than(HEAVY_LOSS) => 2,
            crate::config::Repeats::Adaptive => 1,
        }
    }

    /// Writes the head of the next packet. Updates the keys first, if that is due and possible.
    fn begin(&mut self, at: At, out: &mut Vec<u8>) -> Head {
        let number = self.paths[at].recovery.next_number();
        let number = if planted(Mutant::PacketNumberReused) { number & !1 } else { number };
        let number_len = number_len(number, self.paths[at].recovery.largest_acked());
        let mut flags = (number_len - 1) as u8;
        let early = match &mut self.keys {
            Some(keys) => {
                let generation = keys.updates();
                if keys.is_used_up(self.config.key_update_packets) && self.paths.let_rotate(generation) {
                    keys.begin_next();
                    if let Some(observer) = &mut self.observer {
                        observer.note_key_update("key_update_packets were sealed");
                    }
                }
                keys.on_seal(&mut self.paths[at].keys, number);
                flags |= if keys.phase() { KEY_PHASE_BIT } else { 0 };
                false
            }
            None => {
                flags |= EARLY_BIT;
                true
            }
        };
        let start = out.len();
        out.push(flags);
        out.extend_from_slice(&self.paths[at].remote_id().to_bytes());
        out.extend_from_slice(&number.to_be_bytes()[8 - number_len..]);
        Head { start, number, number_len, early }
    }

    /// Seals the packet that ends `out`, and applies header protection. Returns its size.
    fn seal(&self, at: At, out: &mut Vec<u8>, head: &Head) -> usize {
        let (seal, header) = match (&self.keys, &self.early_keys.seal) {
            (_, Some(early)) if head.early => (&early.seal, &early.header),
            (Some(keys), _) => (&keys.keys().seal, &keys.keys().seal_header),
            _ => return 0,
        };
        let (clear, body) = out[head.start..].split_at_mut(CLEAR_LEN + head.number_len);
        let tag = seal.seal(self.paths[at].id(), head.number, clear, body);
        out.extend_from_slice(&tag);
        let packet = &mut out[head.start..];
        // Only tests seal packets that are too short for a sample.
        if let Some(sample) = packet[CLEAR_LEN + 4..].first_chunk::<SAMPLE_LEN>() {
            let mask = header.mask(sample);
            packet[0] ^= mask[0] & PROTECTED_BITS;
            for (byte, mask) in packet[CLEAR_LEN..CLEAR_LEN + head.number_len].iter_mut().zip(&mask[1..]) {
                *byte ^= mask;
            }
        }
        packet.len()
    }

    fn record(&mut self, now: Time, at: At, size: usize, eliciting: bool) {
        if let Some(observer) = &mut self.observer {
            let path = &self.paths[at];
            observer.on_packet_sent(
                now,
                path.id(),
                path.recovery.next_number(),
                size,
                self.building.blocks(),
            );
        }
        let path = &mut self.paths[at];
        let wire = size as u64 + path.headers();
        let answers = |item: &SentBlock| matches!(item, SentBlock::Answer);
        if !path.proven_there.is_proven() && self.building.blocks().iter().any(answers) {
            path.proven_there.on_answer_sent(path.recovery.next_number());
        }
        path.recovery.on_sent(now, wire, eliciting, self.building.blocks());
        if let Some(spare) = self.building.spare() {
            path.recovery.mark_last(spare);
        }
        if self.peer.confirmed && path.recovery.wants_leaving_out() {
            path.recovery.leave_out(now, self.supply.challenge());
        }
        path.on_sent(now, size, eliciting);
        if eliciting {
            self.activity.eliciting = now;
        }
        if self.building.has_data() {
            self.activity.data = now;
            if let Some(opening) = &mut self.opening {
                opening.on_said_early();
            }
        }
    }

    /// Continues a close or a suspension once the queue is drained.
    fn progress_ending(&mut self, now: Time) {
        if self.ending.is_open() || self.keys.is_none() || self.tickets.is_awaited() {
            return;
        }
        if matches!(self.ending, crate::connection::lifecycle::close::Ending::Suspending { .. }) {
            if self.session.poll_drained() {
                self.send_suspend();
            }
            return;
        }
        let drained = self.session.poll_drained() || planted(Mutant::FinBeforeDrained);
        if !drained || !self.ending.on_drained() {
            return;
        }
        match &self.ending {
            crate::connection::lifecycle::close::Ending::FinSent { reason, .. } => {
                self.control.fin(reason.clone())
            }
            crate::connection::lifecycle::close::Ending::FinAckSent { .. } => self.control.fin_ack(),
            _ => debug_assert!(false, "drained at {now:?} in another state"),
        }
    }

    /// Prepares the packet that tells the peer that the connection is over.
    pub(in crate::connection) fn prepare_farewell(&mut self, now: Time, cause: Cause, reason: &Reason) {
        self.prepare_last(now, |writer| {
            write_rst(writer, cause, reason);
        });
    }

    /// Prepares FIN-DONE, which is repeated to a peer that repeats FIN-ACK.
    pub(in crate::connection) fn prepare_fin_done(&mut self, now: Time) {
        self.prepare_last(now, |writer| writer.bytes(&[block::FIN_DONE, block::PADDING, 0]));
    }

    /// Returns one sealed packet with these blocks, however long: what a hostile peer with valid keys can send. For
    /// tests.
    #[doc(hidden)]
    pub fn seal_blocks(&mut self, now: Time, blocks: &[u8]) -> Vec<u8> {
        let mut packet = Vec::with_capacity(blocks.len() + 64);
        let at = self.paths.main();
        let head = self.begin(at, &mut packet);
        packet.extend_from_slice(blocks);
        self.seal(at, &mut packet, &head);
        self.building.begin_bare();
        self.record(now, at, packet.len(), false);
        packet
    }

    pub(in crate::connection) fn prepare_last(&mut self, now: Time, write: impl FnOnce(&mut Writer<'_>)) {
        if self.keys.is_none() {
            return;
        }
        let mut blocks = Vec::new();
        write(&mut Writer::new(&mut blocks, MOST_FAREWELL));
        self.seal_farewell(now, self.paths.main(), blocks);
        self.farewell.due = true;
    }

    /// Seals the farewell for one path.
    pub(in crate::connection) fn seal_farewell(&mut self, now: Time, at: At, blocks: Vec<u8>) {
        let mut packet = Vec::with_capacity(MOST_FAREWELL + 64);
        let head = self.begin(at, &mut packet);
        packet.extend_from_slice(&blocks);
        self.seal(at, &mut packet, &head);
        self.building.begin_bare();
        self.record(now, at, packet.len(), false);
        self.farewell.last = Some(Box::new(LastPacket { packet, blocks, on: self.paths[at].id() }));
    }
}
