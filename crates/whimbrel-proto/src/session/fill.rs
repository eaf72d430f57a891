//! Filling packets: what was lost, then what is new, then repeats.

use std::collections::VecDeque;

use super::Session;
use super::config::MAX_REPEATABLE;
use super::item::{CONFIRM, DEAD, Item, NO_TAG, PPID, RELIABLE, State};
use super::lane::LaneState;
use super::ledger::Ledger;
use super::message::{Carried, DomainKey, Outcome};
use super::sending::SendDomain;
use crate::Time;
use crate::wire::data::{self, DataHead, Extras, Length};
use crate::wire::{Writer, varint_len};

/// No part of a message shorter than this is begun in what is left of a packet.
const SHORTEST_PART: usize = 64;
/// Longest payload of a run: its length field has two bytes.
const LONGEST_RUN: usize = 0x3fff;

/// Something lost that waits to be sent again.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lost {
    Run { key: DomainKey, first: u64, count: u64 },
    Parts { key: DomainKey, number: u64 },
    Bytes { key: DomainKey },
}

/// Small whole messages sent once, that may be sent again on the chance.
#[derive(Clone, Copy, Debug)]
struct Repeatable {
    key: DomainKey,
    first: u64,
    count: u16,
    /// The fill that sent it first.
    packet: u64,
}

/// What is to be, or may be, sent again.
#[derive(Debug, Default)]
pub(super) struct Again {
    pub(super) lost: VecDeque<Lost>,
    repeatable: VecDeque<Repeatable>,
    packet: u64,
}

impl Again {
    /// Queues a message to be sent again, before those of its domain that are newer: after a blackout the probes must bring what
    /// the receiver waits for, which is the oldest.
    pub(super) fn lose(&mut self, key: DomainKey, number: u64) {
        let newer =
            |lost: &&Lost| matches!(lost, Lost::Run { key: of, first, .. } if *of == key && *first > number);
        let at = self.lost.len() - self.lost.iter().rev().take_while(newer).count();
        if let Some(Lost::Run { key: of, first, count }) =
            at.checked_sub(1).and_then(|at| self.lost.get_mut(at))
            && *of == key
            && *first + *count == number
        {
            *count += 1;
            return;
        }
        self.lost.insert(at, Lost::Run { key, first: number, count: 1 });
    }
}

/// What writing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Go on with the next.
    Go,
    /// Nothing more goes into this packet.
    Full,
}

/// Which messages that were sent are to be sent again.
#[derive(Clone, Copy, Debug)]
enum Want {
    Lost,
    Repeat { limit: u8, small: u32 },
}

impl Want {
    fn takes(self, item: &Item) -> bool {
        match self {
            Self::Lost => item.state == State::Lost,
            Self::Repeat { limit, small } => {
                item.state == State::Flying && item.copies > 0 && item.repeats < limit && item.length <= small
            }
        }
    }
}

impl Session {
    /// There is something that [`Session::fill`] would send now, repeats aside.
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        self.outbox.has_active() || !self.again.lost.is_empty() || self.has_control()
    }

    /// Something waits for credit.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.outbox.has_blocked()
    }

    /// Blocks other than DATA wait.
    #[inline]
    pub fn has_control(&self) -> bool {
        !self.control.is_empty()
    }

    /// Small messages are unacknowledged that were repeated less than `repeats` times.
    pub fn wants_repeat(&self, repeats: u8) -> bool {
        let want = Want::Repeat { limit: repeats, small: self.config.small_message as u32 };
        repeats > 0 && self.again.repeatable.iter().any(|entry| self.repeats_any(entry, want))
    }

    fn repeats_any(&self, entry: &Repeatable, want: Want) -> bool {
        self.streams.send_domain_ref(entry.key).is_some_and(|domain| {
            let mut numbers = entry.first..entry.first + u64::from(entry.count);
            numbers.any(|number| domain.get(number).is_some_and(|item| want.takes(item)))
        })
    }

    /// Appends blocks to a packet until its room ends or nothing is left, notes in `carried` what rides in it, and
    /// says whether anything was written. Nothing may be written into the packet afterwards.
    ///
    /// Order: control, what was lost, new messages by priority and age, then, each at most `repeats` times beyond its
    /// first transmission, small messages still unacknowledged, oldest first.
    pub fn fill(&mut self, now: Time, out: &mut Writer<'_>, carried: &mut Vec<Carried>, repeats: u8) -> bool {
        let (start, room) = (out.len(), out.remaining());
        self.again.packet += 1;
        if !self.control.is_empty() {
            self.fill_control(out, carried);
        }
        let mut flow = Flow::Go;
        if !self.again.lost.is_empty() {
            flow = self.fill_lost(now, out, carried, room);
        }
        if flow == Flow::Go {
            flow = self.fill_new(now, out, carried, room, repeats == 0);
        }
        if flow == Flow::Go && repeats > 0 {
            self.fill_repeats(out, carried, repeats);
        }
        if self.wants_writable {
            self.announce_room();
        }
        out.len() > start
    }

    fn fill_lost(
        &mut self,
        now: Time,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
        room: usize,
    ) -> Flow {
        while let Some(lost) = self.again.lost.front().copied() {
            let flow = match lost {
                Lost::Run { key, first, count } => self.resend_run(key, first, count, out, carried, room),
                Lost::Parts { key, number } => self.resend_parts(key, number, out, carried),
                Lost::Bytes { key } => self.resend_bytes(now, key, out, carried),
            };
            if flow == Flow::Full {
                return flow;
            }
            self.again.lost.pop_front();
        }
        Flow::Go
    }

    fn resend_run(
        &mut self,
        key: DomainKey,
        first: u64,
        count: u64,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
        room: usize,
    ) -> Flow {
        let end = first + count;
        let Some(stream) = self.streams.by_key(key).map(|stream| stream.id.0) else { return Flow::Go };
        let Some(domain) = self.streams.send_domain(key) else { return Flow::Go };
        let mut again = Resend { domain, ledger: &self.ledger, stream, key, want: Want::Lost };
        let before = carried.len();
        let (next, flow) = again.write(first..end, out, carried);
        let sent: u64 = carried[before..]
            .iter()
            .map(|run| if let Carried::Run { count, .. } = run { u64::from(*count) } else { 0 })
            .sum();
        self.ledger.stats.retransmitted += sent;
        if next >= end {
            return flow.after_pop(&mut self.again.lost);
        }
        self.again.lost[0] = Lost::Run { key, first: next, count: end - next };
        // It does not fit. If that is because packets have become smaller, it goes on in parts.
        let domain = self.streams.send_domain_ref(key);
        // The packet may also have become full before one that is lost no longer.
        let is_lost =
            domain.and_then(|domain| domain.get(next)).is_some_and(|item| item.state == State::Lost);
        let length = domain_item_len(domain, next);
        let too_long = is_lost && length > 0 && length + 32 > room;
        if too_long && let Some(domain) = self.streams.send_domain(key) {
            if let Some(item) = domain.get_mut(next) {
                item.state = State::Flying;
                let length = item.length;
                domain.split(next).begin_lost(length);
            }
            self.again.lost[0] = Lost::Parts { key, number: next };
            if end - next > 1 {
                self.again.lost.insert(1, Lost::Run { key, first: next + 1, count: end - next - 1 });
            }
            return self.resend_parts(key, next, out, carried);
        }
        Flow::Full
    }

    fn resend_parts(
        &mut self,
        key: DomainKey,
        number: u64,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> Flow {
        let Some(stream) = self.streams.by_key(key).map(|stream| stream.id.0) else { return Flow::Go };
        let Some(domain) = self.streams.send_domain(key) else { return Flow::Go };
        loop {
            let Some((offset, len)) = domain.parts_mut(number).and_then(|parts| parts.peek_lost()) else {
                return Flow::Go;
            };
            let Some(item) = domain.get(number).filter(|item| item.is_live()) else { return Flow::Go };
            let head = head_of(domain, &self.ledger, stream, number, item, offset);
            let (taken, flow) =
                write_part(head, &item.payload[offset as usize..], len as usize, item.length, out);
            if taken == 0 {
                return Flow::Full;
            }
            carried.push(Carried::Fragment { key, number, offset, len: taken });
            self.ledger.stats.retransmitted += 1;
            if let Some(parts) = domain.parts_mut(number) {
                parts.resend(u32::from(taken));
            }
            if flow == Flow::Full {
                return flow;
            }
        }
    }

    fn resend_bytes(
        &mut self,
        now: Time,
        key: DomainKey,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> Flow {
        let _ = now;
        let Some(stream) = self.streams.by_key_mut(key) else { return Flow::Go };
        let id = stream.id.0;
        let Some(half) = stream.bytes_out.as_mut().filter(|half| !half.is_reset()) else { return Flow::Go };
        loop {
            let (offset, len) = match half.parts.peek_lost() {
                Some(lost) => lost,
                None if half.fin_due() => (half.parts.sent(), 0),
                None => return Flow::Go,
            };
            let Some((taken, flow)) = write_bytes(half, id, offset, u64::from(len), out) else {
                return Flow::Full;
            };
            let fin = half.take_fin(offset + u64::from(taken));
            carried.push(Carried::Bytes { key, offset, len: taken, fin });
            self.ledger.stats.retransmitted += 1;
            if len > 0 {
                half.parts.resend(u32::from(taken));
            }
            if flow == Flow::Full {
                return flow;
            }
        }
    }

    fn fill_new(
        &mut self,
        now: Time,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
        room: usize,
        last: bool,
    ) -> Flow {
        while let Some(lane) = self.outbox.pick() {
            let flow = if self.outbox.lane(lane).bytes {
                self.serve_bytes(lane, out, carried)
            } else {
                self.serve_messages(now, lane, out, carried, room, last)
            };
            self.outbox.served(now, lane);
            if flow == Flow::Full {
                return flow;
            }
        }
        Flow::Go
    }

    /// Serves a lane until it is empty or blocked (`Go`), or the packet is full.
    fn serve_messages(
        &mut self,
        now: Time,
        lane: u32,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
        room: usize,
        last: bool,
    ) -> Flow {
        let key = self.outbox.lane(lane).key;
        loop {
            if let Some(number) = self.outbox.lane(lane).partial {
                match self.continue_message(lane, number, out, carried) {
                    Flow::Full => return Flow::Full,
                    Flow::Go => continue,
                }
            }
            let Some(head) = self.outbox.lane(lane).front() else {
                self.outbox.deactivate(lane, LaneState::Idle);
                return Flow::Go;
            };
            if head.has(DEAD) || head.expires <= now {
                self.drop_front(lane);
                continue;
            }
            let tag = head.tag;
            if tag != NO_TAG
                && let Some(until) = self.ledger.capped_until(now, tag)
            {
                self.outbox.deactivate(lane, LaneState::Capped(until));
                return Flow::Go;
            }
            let Some(stream) = self.streams.by_key(key) else {
                self.outbox.deactivate(lane, LaneState::Idle);
                return Flow::Go;
            };
            let spacious =
                stream.send[usize::from(key.domain)].as_ref().is_some_and(|domain| domain.is_open());
            if !self.send_credit.is_open() || !stream.send_credit.is_open() || !spacious {
                self.outbox.deactivate(lane, LaneState::Blocked);
                return Flow::Go;
            }
            if self.begin_messages(now, lane, key, out, carried, room, last) == Flow::Full {
                return Flow::Full;
            }
        }
    }

    fn drop_front(&mut self, lane: u32) {
        if let Some(item) = self.outbox.pop(lane)
            && !item.has(DEAD)
        {
            self.ledger.on_dropped(&item, Outcome::Expired);
        }
    }

    /// Sends the message in front for the first time: with those behind it as a run, alone, or its first part.
    #[allow(clippy::too_many_arguments, reason = "the innermost step of one loop, split for reading")]
    fn begin_messages(
        &mut self,
        now: Time,
        lane_slot: u32,
        key: DomainKey,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
        room: usize,
        last: bool,
    ) -> Flow {
        let alone = self.outbox.messages() == 1 && last;
        let Some(stream) = self.streams.by_key_mut(key) else { return Flow::Go };
        let Some(domain) = stream.send[usize::from(key.domain)].as_deref_mut() else { return Flow::Go };
        let lane = self.outbox.lane(lane_slot);
        let Some(front) = lane.front() else { return Flow::Go };
        let number = domain.next();
        let head = head_of(domain, &self.ledger, stream.id.0, number, front, 0);
        let head_len = DataHead { message_length: None, ..head }.len();
        let length = front.length as usize;
        let left = out.remaining();
        let capped = front.tag != NO_TAG && self.ledger.is_capped(front.tag);

        if head_len + length > left {
            if head_len + 8 + length <= room || left < head_len + 8 + SHORTEST_PART {
                return Flow::Full;
            }
            let Some(item) = self.outbox.pop(lane_slot) else { return Flow::Go };
            self.send_credit.charge(item.charge());
            stream.send_credit.charge(item.charge());
            self.ledger.on_begun(&item, key, number);
            domain.begin(item);
            domain.split(number);
            self.outbox.lane_mut(lane_slot).partial = Some(number);
            return Flow::Go;
        }

        let run_len = head_len + 2 + varint_len(length as u64) + length;
        let follows =
            |item: &Item, front: &Item| !item.has(DEAD) && item.runs_with(front) && item.expires > now;
        let pair = lane.second().is_some_and(|next| {
            let next_len = varint_len(u64::from(next.length)) + next.length as usize;
            follows(next, front) && run_len + next_len <= left && run_len + next_len < LONGEST_RUN
        });
        if !pair || capped {
            let to_end = alone || head_len + length + varint_len(length as u64) >= left;
            let bounded = if to_end { Length::ToEnd } else { Length::Bytes(length) };
            let Some(mut item) = self.outbox.pop(lane_slot) else { return Flow::Go };
            DataHead { flags: head.flags | data::END, message_length: None, ..head }.write(out, bounded);
            out.bytes(&item.payload);
            item.copies = 1;
            self.send_credit.charge(item.charge());
            stream.send_credit.charge(item.charge());
            self.ledger.on_begun(&item, key, number);
            domain.begin(item);
            carried.push(Carried::Run { key, first: number, count: 1 });
            self.note_repeatable(key, number, 1, length);
            return if to_end { Flow::Full } else { Flow::Go };
        }

        DataHead { flags: head.flags | data::END | data::MANY, message_length: None, ..head }
            .write(out, Length::Reserved);
        let mark = out.len();
        let first = front.clone_key();
        let longest = length;
        let room = domain.room().min(usize::from(u16::MAX)) as u16;
        let mut count = 0u16;
        let (send_credit, stream_credit, ledger) =
            (&mut self.send_credit, &mut stream.send_credit, &mut self.ledger);
        self.outbox.take_run(
            lane_slot,
            |item| {
                let next_len = varint_len(u64::from(item.length)) + item.length as usize;
                let fits = next_len <= out.remaining() && out.len() - mark + next_len <= LONGEST_RUN;
                let goes = count == 0 || (first.matches(item) && item.expires > now);
                if !fits || !goes || count == room || !send_credit.is_open() || !stream_credit.is_open() {
                    return false;
                }
                out.varint(u64::from(item.length));
                out.bytes(&item.payload);
                let charge = item.charge();
                send_credit.charge(charge);
                stream_credit.charge(charge);
                count += 1;
                true
            },
            |mut item| {
                item.copies = 1;
                ledger.on_begun(&item, key, domain.next());
                domain.begin(item);
            },
        );
        let payload = out.len() - mark;
        out.patch_varint2(mark - 2, payload);
        carried.push(Carried::Run { key, first: number, count });
        self.note_repeatable(key, number, count, longest);
        Flow::Go
    }

    fn note_repeatable(&mut self, key: DomainKey, first: u64, count: u16, length: usize) {
        if length <= self.config.small_message {
            if self.again.repeatable.len() >= MAX_REPEATABLE {
                self.again.repeatable.pop_front();
            }
            let packet = self.again.packet;
            self.again.repeatable.push_back(Repeatable { key, first, count, packet });
        }
    }

    /// Sends the next part of a message that was begun.
    fn continue_message(
        &mut self,
        lane: u32,
        number: u64,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> Flow {
        let key = self.outbox.lane(lane).key;
        let Some(stream) = self.streams.by_key_mut(key) else {
            self.outbox.lane_mut(lane).partial = None;
            return Flow::Go;
        };
        let id = stream.id.0;
        let sent = stream.send[usize::from(key.domain)].as_deref_mut().and_then(|domain| {
            let offset = domain.parts_mut(number)?.sent();
            let length = domain.get(number).filter(|item| item.is_live()).map_or(0, |item| item.length);
            (offset < u64::from(length)).then_some((domain, offset, length))
        });
        let Some((domain, offset, length)) = sent else {
            self.outbox.lane_mut(lane).partial = None;
            return Flow::Go;
        };
        let Some(item) = domain.get(number) else { return Flow::Go };
        let head = head_of(domain, &self.ledger, id, number, item, offset);
        let rest = &item.payload[offset as usize..];
        let (taken, flow) = write_part(head, rest, rest.len(), length, out);
        if taken == 0 {
            return Flow::Full;
        }
        if let Some(parts) = domain.parts_mut(number) {
            parts.on_sent(u32::from(taken));
        }
        carried.push(Carried::Fragment { key, number, offset, len: taken });
        if offset + u64::from(taken) == u64::from(length) {
            self.outbox.lane_mut(lane).partial = None;
        }
        flow
    }

    fn serve_bytes(&mut self, lane: u32, out: &mut Writer<'_>, carried: &mut Vec<Carried>) -> Flow {
        let key = self.outbox.lane(lane).key;
        while let Some(stream) = self.streams.by_key_mut(key) {
            let Some(half) = stream.bytes_out.as_mut() else { break };
            let unsent = half.unsent();
            if unsent == 0 && !half.fin_due() {
                break;
            }
            let allowed = unsent.min(self.send_credit.room()).min(stream.send_credit.room());
            if unsent > 0 && allowed == 0 {
                self.outbox.deactivate(lane, LaneState::Blocked);
                return Flow::Go;
            }
            let offset = half.parts.sent();
            let Some((taken, flow)) = write_bytes(half, stream.id.0, offset, allowed, out) else {
                return Flow::Full;
            };
            if taken > 0 {
                half.parts.on_sent(u32::from(taken));
            }
            self.send_credit.charge(u64::from(taken));
            stream.send_credit.charge(u64::from(taken));
            let fin = half.take_fin(offset + u64::from(taken));
            carried.push(Carried::Bytes { key, offset, len: taken, fin });
            if flow == Flow::Full {
                return flow;
            }
        }
        self.outbox.deactivate(lane, LaneState::Idle);
        Flow::Go
    }

    fn fill_repeats(&mut self, out: &mut Writer<'_>, carried: &mut Vec<Carried>, repeats: u8) {
        let want = Want::Repeat { limit: repeats, small: self.config.small_message as u32 };
        while let Some(entry) = self.again.repeatable.front().filter(|entry| !self.repeats_any(entry, want)) {
            let _ = entry;
            self.again.repeatable.pop_front();
        }
        let before = carried.len();
        for index in 0..self.again.repeatable.len() {
            let entry = self.again.repeatable[index];
            if entry.packet == self.again.packet {
                break;
            }
            let Some(stream) = self.streams.by_key(entry.key).map(|stream| stream.id.0) else { continue };
            let Some(domain) = self.streams.send_domain(entry.key) else { continue };
            let mut again = Resend { domain, ledger: &self.ledger, stream, key: entry.key, want };
            let (_, flow) = again.write(entry.first..entry.first + u64::from(entry.count), out, carried);
            if flow == Flow::Full {
                break;
            }
        }
        let copies = |run: &Carried| if let Carried::Run { count, .. } = run { u64::from(*count) } else { 0 };
        self.ledger.stats.repeated += carried[before..].iter().map(copies).sum::<u64>();
    }
}

impl Flow {
    /// The front entry is done with; the caller's loop must not take another if the packet is full.
    fn after_pop(self, lost: &mut VecDeque<Lost>) -> Self {
        if self == Self::Full {
            lost.pop_front();
        }
        self
    }
}

fn domain_item_len(domain: Option<&SendDomain>, number: u64) -> usize {
    domain.and_then(|domain| domain.get(number)).map_or(0, |item| item.length as usize)
}

/// What of a message must be equal in a run, kept while the messages move.
struct RunKey {
    tag: u32,
    ppid: u32,
    flags: u8,
    priority: u8,
}

impl RunKey {
    #[inline]
    fn matches(&self, item: &Item) -> bool {
        self.tag == item.tag
            && self.ppid == item.ppid
            && self.flags == item.flags
            && self.priority == item.priority
    }
}

impl Item {
    #[inline]
    fn clone_key(&self) -> RunKey {
        RunKey { tag: self.tag, ppid: self.ppid, flags: self.flags, priority: self.priority }
    }
}

/// The head of a block with `item`'s bytes from `offset` on; END and the declared length are for the writer to settle.
#[inline]
fn head_of(
    domain: &SendDomain,
    ledger: &Ledger,
    stream: u64,
    number: u64,
    item: &Item,
    offset: u64,
) -> DataHead {
    let begins = offset == 0;
    let reliable = if item.has(RELIABLE) { data::RELIABLE } else { 0 };
    let flags = (domain.bits & data::UNSEQUENCED) | reliable | if begins { data::BEGIN } else { 0 };
    let mut extras = Extras::NONE;
    if begins {
        if item.tag != NO_TAG {
            extras.tag = ledger.tag_state(item.tag).map(|tag| tag.tag);
        }
        extras.priority = item.priority;
        extras.ppid = item.has(PPID).then_some(item.ppid);
        extras.confirm = item.has(CONFIRM);
    }
    if domain.cross {
        extras.latest_reliable = Some(domain.latest_reliable(number));
    }
    DataHead {
        flags,
        stream,
        number,
        offset,
        extras,
        message_length: begins.then_some(u64::from(item.length)),
    }
}

/// Writes as much of the first `want` bytes of `rest` as fits; the bytes taken, 0 if the room is too small to begin.
fn write_part(head: DataHead, rest: &[u8], want: usize, length: u32, out: &mut Writer<'_>) -> (u16, Flow) {
    let left = out.remaining();
    let head_len = head.len();
    if left < head_len + want.clamp(1, SHORTEST_PART) {
        return (0, Flow::Full);
    }
    let take = want.min(left - head_len).min(usize::from(u16::MAX));
    let to_end = head_len + take + varint_len(take as u64) >= left;
    let ends = head.offset + take as u64 == u64::from(length);
    let flags = if ends { head.flags | data::END } else { head.flags };
    let message_length = head.message_length.filter(|_| !ends);
    DataHead { flags, message_length, ..head }
        .write(out, if to_end { Length::ToEnd } else { Length::Bytes(take) });
    out.bytes(&rest[..take]);
    (take as u16, if to_end { Flow::Full } else { Flow::Go })
}

/// Writes up to `want` bytes of a byte stream from `offset` on, and its end where it comes.
fn write_bytes(
    half: &super::bytes_out::BytesOut,
    stream: u64,
    offset: u64,
    want: u64,
    out: &mut Writer<'_>,
) -> Option<(u16, Flow)> {
    let begins = offset == 0;
    let flags = data::RELIABLE | if begins { data::BEGIN } else { 0 };
    let extras = Extras { bytes: true, ..Extras::NONE };
    let head = DataHead { flags, stream, number: 0, offset, extras, message_length: None };
    let (left, head_len) = (out.remaining(), head.len());
    let shortest = (want as usize).min(SHORTEST_PART);
    if left < head_len + shortest + 1 {
        return None;
    }
    let take = want.min((left - head_len) as u64).min(u64::from(u16::MAX)) as usize;
    let to_end = take > 0 && head_len + take + varint_len(take as u64) >= left;
    let end = if half.ends_at(offset + take as u64) { data::END } else { 0 };
    DataHead { flags: flags | end, ..head }
        .write(out, if to_end { Length::ToEnd } else { Length::Bytes(take) });
    half.copy(offset, take, out);
    Some((take as u16, if to_end { Flow::Full } else { Flow::Go }))
}

/// Sends whole messages of one domain again.
struct Resend<'a> {
    domain: &'a mut SendDomain,
    ledger: &'a Ledger,
    stream: u64,
    key: DomainKey,
    want: Want,
}

impl Resend<'_> {
    fn takes(&self, number: u64) -> bool {
        self.domain.get(number).is_some_and(|item| self.want.takes(item)) && !self.domain.has_parts(number)
    }

    /// Writes those of `numbers` that are wanted, until one does not fit; the number to go on with.
    fn write(
        &mut self,
        numbers: std::ops::Range<u64>,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> (u64, Flow) {
        let mut number = numbers.start;
        while number < numbers.end {
            if !self.takes(number) {
                number += 1;
                continue;
            }
            let (count, flow) = self.write_run(number, numbers.end, out);
            if count == 0 {
                return (number, Flow::Full);
            }
            for sent in number..number + u64::from(count) {
                if let Some(item) = self.domain.get_mut(sent) {
                    item.repeats += u8::from(item.state == State::Flying);
                    item.state = State::Flying;
                    item.copies = item.copies.saturating_add(1);
                }
            }
            carried.push(Carried::Run { key: self.key, first: number, count });
            number += u64::from(count);
            if flow == Flow::Full {
                return (number, flow);
            }
        }
        (number, Flow::Go)
    }

    /// Writes a run, or one message, from `first` on; how many, 0 if not even one fits.
    fn write_run(&self, first: u64, end: u64, out: &mut Writer<'_>) -> (u16, Flow) {
        let Some(front) = self.domain.get(first) else { return (0, Flow::Go) };
        let mut head = head_of(self.domain, self.ledger, self.stream, first, front, 0);
        head.message_length = None;
        head.flags |= data::END;
        let (head_len, left) = (head.len(), out.remaining());
        let room = left.saturating_sub(head_len + 2).min(LONGEST_RUN);
        let (mut size, mut count) = (0, 0u16);
        for number in first..end.min(first + u64::from(u16::MAX)) {
            let Some(item) =
                self.domain.get(number).filter(|item| self.takes(number) && item.runs_with(front))
            else {
                break;
            };
            let next = varint_len(u64::from(item.length)) + item.length as usize;
            if size + next > room {
                break;
            }
            size += next;
            count += 1;
        }
        if count < 2 {
            let length = front.length as usize;
            if head_len + length > left {
                return (0, Flow::Full);
            }
            let to_end = head_len + length + varint_len(length as u64) >= left;
            head.write(out, if to_end { Length::ToEnd } else { Length::Bytes(length) });
            out.bytes(&front.payload);
            return (1, if to_end { Flow::Full } else { Flow::Go });
        }
        head.flags |= data::MANY;
        head.write(out, Length::Bytes(size));
        for number in first..first + u64::from(count) {
            if let Some(item) = self.domain.get(number) {
                out.varint(u64::from(item.length));
                out.bytes(&item.payload);
            }
        }
        (count, Flow::Go)
    }
}
