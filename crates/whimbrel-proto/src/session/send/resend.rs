//! Sending again: lost data, and repeats of small messages.

use std::collections::VecDeque;
use std::ops::Range;

use super::accounting::Accounting;
use super::data_out::{Flow, LONGEST_RUN, head_of, write_bytes, write_part};
use super::retransmit::{Lost, Repeatable, Want};
use super::send_item::{SendItem, SendState};
use super::sending::SendDomain;
use crate::Time;
use crate::expected::Expected;
use crate::session::message::{Carried, DomainKey};
use crate::session::state::Session;
use crate::wire::data::{self, DataHead, Length};
use crate::wire::{Writer, varint_len};

/// The name, in assertions, of an item that is in flight, or was given up and not answered.
const SENT: &str = "a message that was sent";

impl Session {
    pub(in crate::session) fn repeats_any(&self, entry: &Repeatable, want: Want) -> bool {
        self.streams.still_sending(entry.key).is_some_and(|domain| {
            domain.items_of(entry.first..entry.first + u64::from(entry.count)).any(|item| want.takes(item))
        })
    }

    pub(in crate::session) fn fill_lost(
        &mut self,
        now: Time,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
        room: usize,
    ) -> Flow {
        while let Some(lost) = self.retransmit.lost.front().copied() {
            let flow = match lost {
                Lost::Run { key, first, count } => self.resend_run(key, first, count, out, carried, room),
                Lost::Parts { key, number } => self.resend_parts(key, number, out, carried),
                Lost::Bytes { key } => self.resend_bytes(now, key, out, carried),
            };
            if flow == Flow::Full {
                return flow;
            }
            self.retransmit.lost.pop_front();
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
        let Some(stream) = self.streams.still(key).map(|stream| stream.id.0) else { return Flow::Go };
        let Some(domain) = self.streams.still_sending_mut(key) else { return Flow::Go };
        let mut again = Resend { domain, accounting: &self.accounting, stream, key, want: Want::Lost };
        let before = carried.len();
        let (next, flow) = again.write(first..end, out, carried);
        let sent: u64 = carried[before..]
            .iter()
            .map(|run| if let Carried::Run { count, .. } = run { u64::from(*count) } else { 0 })
            .sum();
        self.accounting.stats.retransmitted += sent;
        if next >= end {
            return flow.after_pop(&mut self.retransmit.lost);
        }
        self.retransmit.lost[0] = Lost::Run { key, first: next, count: end - next };
        // It does not fit. If packets have become smaller since, it is sent in parts.
        let domain = self.streams.still_sending(key);
        // The packet may also have become full before a message that is no longer lost.
        let is_lost =
            domain.and_then(|domain| domain.get(next)).is_some_and(|item| item.state == SendState::Lost);
        let index = domain.and_then(|domain| domain.index(next));
        let share = index.and_then(|index| domain?.at(index)).map(SendItem::first_share);
        let length = share.map_or(0, |share| share.length);
        let too_long = is_lost && length > 0 && length as usize + 32 > room;
        if too_long
            && let Some((index, share)) = index.zip(share)
            && let Some(domain) = self.streams.still_sending_mut(key)
        {
            domain.cut(index, share);
            if let Some(item) = domain.at_mut(index).expected("the message that was cut") {
                item.state = SendState::Flying;
            }
            domain.split(next).begin_lost(length);
            self.retransmit.lost[0] = Lost::Parts { key, number: next };
            if end - next > 1 {
                self.retransmit.lost.insert(1, Lost::Run { key, first: next + 1, count: end - next - 1 });
            }
            return self.resend_parts(key, next, out, carried);
        }
        Flow::Full
    }

    /// Has lost parts be sent again only of messages that expire later than this. `None`: of all.
    pub(crate) fn resend_beyond(&mut self, expiry: Option<Time>) {
        self.retransmit.in_vain = expiry.unwrap_or(Time::ZERO);
        while let Some(Lost::Parts { key, number }) = self.retransmit.lost.front().copied()
            && self
                .streams
                .still_sending(key)
                .and_then(|domain| domain.get(number))
                .is_some_and(|item| self.is_in_vain(item))
        {
            self.retransmit.lost.pop_front();
        }
    }

    fn is_in_vain(&self, item: &SendItem) -> bool {
        item.expires <= self.retransmit.in_vain
    }

    fn resend_parts(
        &mut self,
        key: DomainKey,
        number: u64,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> Flow {
        let in_vain = self.retransmit.in_vain;
        let Some(stream) = self.streams.still(key).map(|stream| stream.id.0) else { return Flow::Go };
        let Some(domain) = self.streams.still_sending_mut(key) else { return Flow::Go };
        loop {
            let Some((offset, len)) = domain.parts_mut(number).and_then(|parts| parts.peek_lost()) else {
                return Flow::Go;
            };
            let Some(item) = domain.get(number).filter(|item| item.is_live() && item.expires > in_vain)
            else {
                return Flow::Go;
            };
            let head = head_of(domain, &self.accounting, stream, number, item, offset);
            let (taken, flow) =
                write_part(head, &item.payload[offset as usize..], len as usize, item.length, out);
            if taken == 0 {
                return Flow::Full;
            }
            carried.push(Carried::Fragment { key, number, offset, len: taken });
            self.accounting.stats.retransmitted += 1;
            if let Some(parts) = domain.parts_mut(number).expected("the list of a message's parts") {
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
        let Some(stream) = self.streams.still_mut(key) else { return Flow::Go };
        let id = stream.id.0;
        let half = stream.content.bytes_out_mut().expected("a byte stream");
        let Some(half) = half.filter(|half| !half.is_reset()) else {
            return Flow::Go;
        };
        loop {
            let (offset, len) = match half.peek_lost() {
                Some(lost) => lost,
                None if half.fin_due() => (half.sent(), 0),
                None => return Flow::Go,
            };
            let Some((taken, flow)) = write_bytes(half, id, offset, u64::from(len), out) else {
                return Flow::Full;
            };
            let fin = half.take_fin(offset + u64::from(taken));
            carried.push(Carried::Bytes { key, offset, len: taken, fin });
            self.accounting.stats.retransmitted += 1;
            if len > 0 {
                half.on_resent(u32::from(taken));
            }
            if flow == Flow::Full {
                return flow;
            }
        }
    }

    pub(in crate::session) fn fill_repeats(
        &mut self,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
        repeats: u8,
    ) {
        let want = self.repeat(repeats);
        // Messages that this very packet carries may still be marked for copies.
        let packet = self.retransmit.packet;
        while let Some(entry) = self.retransmit.repeatable.front()
            && entry.packet != packet
            && !self.repeats_any(entry, want)
        {
            self.retransmit.repeatable.pop_front();
        }
        self.repeat_all(want, out, carried);
    }

    /// Sends copies of messages that could not be retransmitted in time, before anything new.
    pub(in crate::session) fn fill_pressed(&mut self, out: &mut Writer<'_>, carried: &mut Vec<Carried>) {
        let want = self.repeat(0);
        if !self.retransmit.repeatable.iter().any(|entry| self.repeats_any(entry, want)) {
            self.retransmit.pressed = 0;
            return;
        }
        self.repeat_all(want, out, carried);
    }

    pub(in crate::session) fn repeat(&self, limit: u8) -> Want {
        Want::Repeat { limit, pressed: self.retransmit.pressed, small: self.config.small_message as u32 }
    }

    fn repeat_all(&mut self, want: Want, out: &mut Writer<'_>, carried: &mut Vec<Carried>) {
        let before = carried.len();
        let mut entries = 0..self.retransmit.repeatable.len();
        while let Some(index) = entries.next() {
            let entry = self.retransmit.repeatable[index];
            if entry.packet == self.retransmit.packet || !self.repeats_any(&entry, want) {
                continue;
            }
            // Entries that follow without a gap go in the same block. Each goes once in a packet: a second copy would
            // be lost with the first.
            self.retransmit.repeatable[index].packet = self.retransmit.packet;
            let mut end = entry.first + u64::from(entry.count);
            while let Some(next) = self.retransmit.repeatable.get_mut(entries.start)
                && (next.key, next.first) == (entry.key, end)
                && next.packet != self.retransmit.packet
            {
                next.packet = self.retransmit.packet;
                end += u64::from(next.count);
                entries.next();
            }
            let Some(stream) = self.streams.still(entry.key).map(|stream| stream.id.0) else { continue };
            let Some(domain) = self.streams.still_sending_mut(entry.key) else { continue };
            let mut again = Resend { domain, accounting: &self.accounting, stream, key: entry.key, want };
            let (_, flow) = again.write(entry.first..end, out, carried);
            if flow == Flow::Full {
                break;
            }
        }
        let copies = |run: &Carried| if let Carried::Run { count, .. } = run { u64::from(*count) } else { 0 };
        self.accounting.stats.repeated += carried[before..].iter().map(copies).sum::<u64>();
    }
}

impl Flow {
    /// Removes the front entry if the packet is full, because the caller then returns before removing it.
    fn after_pop(self, lost: &mut VecDeque<Lost>) -> Self {
        if self == Self::Full {
            lost.pop_front();
        }
        self
    }
}

/// Writes whole messages of one domain again.
pub(in crate::session) struct Resend<'a> {
    pub(in crate::session) domain: &'a mut SendDomain,
    pub(in crate::session) accounting: &'a Accounting,
    pub(in crate::session) stream: u64,
    pub(in crate::session) key: DomainKey,
    pub(in crate::session) want: Want,
}

impl Resend<'_> {
    fn takes(&self, item: &SendItem) -> bool {
        self.want.takes(item) && !self.domain.has_parts(item.first)
    }

    /// Writes those of `numbers` that are wanted, until one does not fit. Returns the number to go on with.
    pub(in crate::session) fn write(
        &mut self,
        numbers: Range<u64>,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> (u64, Flow) {
        let mut number = numbers.start.max(self.domain.numbers().start);
        while number < numbers.end {
            let Some(index) = self.domain.index(number).expected(SENT) else { break };
            let Some(item) = self.domain.at(index).expected(SENT) else { break };
            let first = item.first;
            if !self.takes(item) {
                number = item.end();
                continue;
            }
            let (items, flow) = self.write_run(index, numbers.end, out);
            if items == 0 {
                return (number, Flow::Full);
            }
            let mut count = 0;
            for sent in index..index + items {
                if let Some(item) = self.domain.at_mut(sent).expected(SENT) {
                    item.repeats += u8::from(item.state == SendState::Flying);
                    item.state = SendState::Flying;
                    item.copies = item.copies.saturating_add(1);
                    count += item.count as u16;
                }
            }
            carried.push(Carried::Run { key: self.key, first, count });
            number = first + u64::from(count);
            if flow == Flow::Full {
                return (number, flow);
            }
        }
        (number, Flow::Go)
    }

    /// Writes a run, or one message, from the item at `index` on. Returns how many items were written, 0 if not even
    /// one message fits. A bundle that does not fit whole is cut.
    fn write_run(&mut self, index: usize, end: u64, out: &mut Writer<'_>) -> (usize, Flow) {
        let Some(front) = self.domain.at(index).expected(SENT) else { return (0, Flow::Go) };
        let mut head = head_of(self.domain, self.accounting, self.stream, front.first, front, 0);
        head.message_length = None;
        head.flags |= data::END;
        let kind = front.kind();
        let (head_len, left) = (head.len(), out.remaining());
        let room = left.saturating_sub(head_len + 2).min(LONGEST_RUN);
        let (mut size, mut count, mut items) = (0, 0, 0);
        while let Some(item) = self.domain.at(index + items) {
            if item.first >= end || !self.takes(item) || item.kind() != kind {
                break;
            }
            let share = item.share(room - size, u32::from(u16::MAX) - count, |_| true);
            if share.count == 0 {
                break;
            }
            self.domain.cut(index + items, share);
            size += self.domain.at(index + items).map_or(0, SendItem::run_len);
            count += share.count;
            items += 1;
        }
        if count < 2 {
            return self.write_one(index, head, left, out);
        }
        head.flags |= data::MANY;
        head.write(out, Length::Bytes(size));
        for at in index..index + items {
            if let Some(item) = self.domain.at(at).expected(SENT) {
                item.write(item.whole(), out);
            }
        }
        (items, Flow::Go)
    }

    fn write_one(
        &mut self,
        index: usize,
        head: DataHead,
        left: usize,
        out: &mut Writer<'_>,
    ) -> (usize, Flow) {
        let Some(front) = self.domain.at(index).expected(SENT) else { return (0, Flow::Go) };
        let share = front.first_share();
        let length = share.length as usize;
        if head.len() + length > left {
            return (0, Flow::Full);
        }
        self.domain.cut(index, share);
        let to_end = head.len() + length + varint_len(length as u64) >= left;
        head.write(out, if to_end { Length::ToEnd } else { Length::Bytes(length) });
        if let Some(item) = self.domain.at(index).expected(SENT) {
            out.bytes(&item.payload);
        }
        (1, if to_end { Flow::Full } else { Flow::Go })
    }
}
