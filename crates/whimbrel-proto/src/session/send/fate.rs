//! Handling acknowledged and lost packets, and timeouts.

use std::ops::Range;

use super::accounting::MessagePlace;
use super::out_blocks;
use super::out_blocks::Notice;
use super::retransmit::Lost;
use super::send_item::{RELIABLE, SendItem, SendState};
use crate::Time;
use crate::expected::Expected;
use crate::mutants::{Mutant, planted};
use crate::session::api::is_live;
use crate::session::message::{Carried, DomainKey, Outcome, SessionEvent};
use crate::session::state::Session;

/// The name, in assertions, of an item that is in flight, or was given up and not answered.
const SENT: &str = "a message that was sent";

impl Session {
    /// Handles the acknowledgement of the packet that carried `item`, even if it was declared lost before.
    pub fn on_acked(&mut self, now: Time, item: &Carried) {
        match *item {
            Carried::Run { key, first, count } => self.with_domain(now, key, |domain, accounting| {
                domain.on_run_acked(key, first, u64::from(count), accounting);
            }),
            Carried::Fragment { key, number, offset, len } => {
                self.with_domain(now, key, |domain, accounting| {
                    if domain.on_part_acked(number, offset, u32::from(len)) {
                        domain.settle(key, number, Outcome::Delivered, accounting);
                        domain.pop_done();
                    }
                })
            }
            Carried::Bytes { key, offset, len, fin } => self.on_bytes_acked(key, offset, u32::from(len), fin),
            Carried::SkipAck { key, first, count, delivered } => {
                if let Some(domain) = self.streams.still_receiving_mut(key).filter(|_| !delivered) {
                    domain.skipped.remove(first, first + u64::from(count));
                }
            }
            Carried::Reset { key } => {
                let half = self.streams.still_bytes_out_mut(key);
                if let Some(half) = half {
                    half.on_reset_acked();
                    self.reap(key.slot);
                }
            }
            Carried::Stop { key } => {
                let half = self.streams.still_bytes_in_mut(key);
                if let Some(half) = half {
                    half.on_stop_acked();
                }
            }
            Carried::End { key } => self.on_end_acked(key),
            Carried::MaxStreamData { key } => self.account.grant_delay.on_acked(now, key),
            Carried::Verdict { key, first, count } => {
                self.on_verdict_acked(key, &(first..first + u64::from(count)));
            }
            Carried::Skip { .. } | Carried::Taken { .. } | Carried::MaxStreams => {}
        }
    }

    /// Lets `change` resolve messages of a domain. Wakes the stream's lanes if the domain had run out of numbers and
    /// has some again.
    pub(in crate::session) fn with_domain(
        &mut self,
        now: Time,
        key: DomainKey,
        change: impl FnOnce(
            &mut crate::session::send::sending::SendDomain,
            &mut crate::session::send::accounting::Accounting,
        ),
    ) {
        let Some(stream) = self.streams.still_mut(key) else { return };
        let Some(domain) = stream.content.sending_mut(key.domain).expected("a domain that sends") else {
            return;
        };
        let was_open = domain.is_open();
        change(domain, &mut self.accounting);
        if !was_open && domain.is_open() {
            for lane in &stream.lanes {
                self.outbox.unblock(now, *lane);
            }
        }
        self.check_end(key.slot);
    }

    fn on_bytes_acked(&mut self, key: DomainKey, offset: u64, len: u32, fin: bool) {
        let limit = self.config.stream_send_buffer;
        let Some(stream) = self.streams.still_mut(key) else { return };
        let id = stream.id;
        let Some(half) = stream.content.bytes_out_mut().expected("a byte stream") else { return };
        let was_done = half.is_done();
        let before = half.kept();
        half.on_acked(offset, len, fin);
        let kept = half.kept();
        self.account.buffered.adjust(before, kept);
        if half.wants_writable && half.buffered() <= limit / 2 {
            half.wants_writable = false;
            self.accounting.events.push_back(SessionEvent::StreamWritable(id));
        }
        if half.is_done() {
            if !was_done {
                self.accounting.events.push_back(SessionEvent::StreamDelivered(id));
            }
            self.reap(key.slot);
        } else if half.is_quiet() {
            self.on_rest(key.slot);
        }
        if kept < before {
            self.announce_room();
        }
    }

    /// Handles the loss of the packet that carried `item`. Reliable data is retransmitted once no copy of it is in
    /// flight.
    pub fn on_lost(&mut self, now: Time, item: &Carried) {
        let _ = now;
        if !self.retransmit.pressed_runs.is_empty() {
            self.count_saved(item);
        }
        match *item {
            Carried::Run { key, first, count } => {
                self.on_run_lost(key, first..first + u64::from(count));
            }
            Carried::Fragment { key, number, offset, len } => {
                self.on_part_lost(key, number, offset, u32::from(len))
            }
            Carried::Bytes { key, offset, len, fin } => {
                let half = self.streams.still_bytes_out_mut(key);
                if half.is_some_and(|half| half.on_lost(offset, u32::from(len), fin)) {
                    self.retransmit.lost.push_back(Lost::Bytes { key });
                }
            }
            Carried::Skip { key, first, count } => self.on_skip_lost(key, first..first + u64::from(count)),
            Carried::SkipAck { key, first, count, .. } => {
                self.out_blocks.answers.ask(key, first, first + u64::from(count));
            }
            Carried::Verdict { key, first, count } => {
                self.on_verdict_lost(key, &(first..first + u64::from(count)));
            }
            Carried::Taken { key, first, count } => {
                out_blocks::push(&mut self.out_blocks.taken, key, first, u64::from(count), 0);
            }
            Carried::MaxStreamData { key } => {
                self.account.grant_delay.on_lost(key);
                self.out_blocks.notify(Notice::MaxStreamData(key));
            }
            Carried::MaxStreams => self.out_blocks.notify(Notice::MaxStreams),
            Carried::Reset { .. } if planted(Mutant::ResetSentOnce) => {}
            Carried::Reset { key } => self.out_blocks.notify(Notice::Reset(key)),
            Carried::Stop { key } => self.out_blocks.notify(Notice::Stop(key)),
            Carried::End { key } => self.out_blocks.notify(Notice::End(key)),
        }
    }

    /// Returns whether lost data waits to be retransmitted.
    pub fn has_lost(&self) -> bool {
        !self.retransmit.lost.is_empty()
    }

    /// Sends the reliable data in `item` once more, without a sign that it was lost.
    pub fn send_again(&mut self, item: &Carried) {
        match *item {
            Carried::Run { key, first, count } => {
                let Some(domain) = self.streams.still_sending_mut(key) else { return };
                let (mut number, end) = (first.max(domain.numbers().start), first + u64::from(count));
                while number < end {
                    let Some(domain) = self.streams.still_sending_mut(key) else { return };
                    let split = domain.has_parts(number);
                    let Some(item) = domain.get_mut(number).expected(SENT) else { return };
                    number = item.end();
                    // A message with two copies in flight needs no third.
                    if !split && item.state == SendState::Flying && item.copies == 1 && item.has(RELIABLE) {
                        item.state = SendState::Lost;
                        self.retransmit.lose(key, item.first, u64::from(item.count));
                    }
                }
            }
            Carried::Fragment { key, number, .. } => {
                let domain = self.streams.still_sending(key);
                if domain.and_then(|domain| domain.get(number)).is_some_and(|item| item.has(RELIABLE)) {
                    self.on_lost(Time::ZERO, item);
                }
            }
            Carried::Bytes { .. } => self.on_lost(Time::ZERO, item),
            _ => {}
        }
    }

    fn on_run_lost(&mut self, key: DomainKey, numbers: Range<u64>) {
        let resolved = self.streams.still_sending(key).map_or(0, |domain| domain.numbers().start);
        let mut number = numbers.start.max(resolved);
        while number < numbers.end {
            let Some(domain) = self.streams.still_sending_mut(key) else { return };
            let Some(index) = domain.index(number).expected(SENT) else { return };
            number = domain.at(index).map_or(numbers.end, SendItem::end);
            self.on_copy_lost(key, index);
        }
    }

    fn on_copy_lost(&mut self, key: DomainKey, index: usize) {
        let Some(domain) = self.streams.still_sending_mut(key) else { return };
        let Some(first) = domain.at(index).expected(SENT).map(|item| item.first) else { return };
        if domain.has_parts(first) {
            return;
        }
        let Some(item) = domain.at_mut(index).expected(SENT) else { return };
        item.copies = item.copies.saturating_sub(1);
        if item.copies > 0 || item.state != SendState::Flying {
            return;
        }
        if !item.has(RELIABLE) {
            if item.is_bundle() {
                self.give_up_bundle(key, index);
            } else {
                self.give_up(key, first, Outcome::Lost);
            }
            return;
        }
        if planted(Mutant::RetransmissionForgotten) && (item.first..item.end()).any(|number| number % 8 == 3)
        {
            return;
        }
        item.state = SendState::Lost;
        self.retransmit.lose(key, item.first, u64::from(item.count));
    }

    fn give_up_bundle(&mut self, key: DomainKey, index: usize) {
        let Some(domain) = self.streams.still_sending_mut(key) else { return };
        domain.give_up_bundle(index, Outcome::Lost);
        let Some(item) = domain.at(index).expected(SENT) else { return };
        let numbers = item.first..item.end();
        self.on_skip_lost(key, numbers);
    }

    fn on_part_lost(&mut self, key: DomainKey, number: u64, offset: u64, len: u32) {
        let Some(domain) = self.streams.still_sending_mut(key) else { return };
        let Some(reliable) = domain.get(number).filter(|item| item.is_live()).map(|item| item.has(RELIABLE))
        else {
            return;
        };
        if !reliable {
            self.give_up(key, number, Outcome::Lost);
            return;
        }
        let Some(parts) = domain.parts_mut(number) else { return };
        let waiting = parts.peek_lost().is_some();
        parts.on_lost(offset, len);
        if !waiting && parts.peek_lost().is_some() {
            self.retransmit.lose_parts(key, number);
        }
    }

    fn on_skip_lost(&mut self, key: DomainKey, numbers: Range<u64>) {
        let Some(domain) = self.streams.still_sending(key) else { return };
        for number in numbers {
            if let Some(charge) = domain.charge_given_up(number) {
                out_blocks::push(&mut self.out_blocks.skips, key, number, 1, charge);
            }
        }
    }

    /// Returns when [`Session::handle_timeout`] should be called: when a lifetime, a gap or a bandwidth limit ends, or
    /// a stream has stalled.
    pub fn poll_timeout(&self) -> Option<Time> {
        let others = [
            self.accounting.next_deadline(),
            self.outbox.next_uncap(),
            self.incoming.gaps.next(),
            self.account.stalls.next(),
        ];
        Time::earliest(others)
    }

    /// Handles everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(place) = self.accounting.pop_deadline(now) {
            match place {
                MessagePlace::Pending { lane, seq } => {
                    let found = self.outbox.get(lane).and_then(|lane| lane.find(seq));
                    if found.is_some_and(|item| item.expires <= now) {
                        self.drop_pending(lane, seq, Outcome::Expired);
                    }
                }
                MessagePlace::Sent { .. } if planted(Mutant::LifetimeEndsWhenSent) => {}
                MessagePlace::Sent { key, number } => {
                    let found = self.streams.still_sending(key).and_then(|domain| domain.get(number));
                    if found.is_some_and(|item| item.expires <= now) {
                        self.give_up(key, number, Outcome::Expired);
                    }
                }
            }
        }
        let (outbox, streams) = (&self.outbox, &self.streams);
        self.accounting.thin_deadlines(|place| is_live(outbox, streams, place));
        self.outbox.uncap(now, now);
        self.announce_room();
        self.pass_gaps(now);
        self.tell_stalls(now);
    }
}
