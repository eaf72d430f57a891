//! Sending again: what was lost, and small messages on the chance.

use std::collections::VecDeque;

use super::Session;
use super::again::{Lost, Repeatable, Want};
use super::data_out::{Flow, LONGEST_RUN, head_of, write_bytes, write_part};
use super::item::State;
use super::ledger::Ledger;
use super::message::{Carried, DomainKey};
use super::sending::SendDomain;
use crate::Time;
use crate::wire::data::{self, Length};
use crate::wire::{Writer, varint_len};

impl Session {
    pub(super) fn repeats_any(&self, entry: &Repeatable, want: Want) -> bool {
        self.streams.send_domain_ref(entry.key).is_some_and(|domain| {
            let mut numbers = entry.first..entry.first + u64::from(entry.count);
            numbers.any(|number| domain.get(number).is_some_and(|item| want.takes(item)))
        })
    }

    pub(super) fn fill_lost(
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

    pub(super) fn fill_repeats(&mut self, out: &mut Writer<'_>, carried: &mut Vec<Carried>, repeats: u8) {
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
