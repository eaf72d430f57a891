//! Handling SKIP, SKIP-ACK, TAKEN, credit grants and stream ends from the peer.

use super::late::{Answer, MAX_TOGETHER};
use super::opening::StreamOpening;
use super::receiving::RecvDomain;
use crate::mutants::{Mutant, planted};
use crate::session::account::stalls::Whose;
use crate::session::chronicle::Note;
use crate::session::config::{MAX_NOTICES, MAX_SPAN, MESSAGE_CHARGE};
use crate::session::message::{DomainKey, Outcome, SessionEvent, StreamKind};
use crate::session::numbers::{Domain, StreamSlot};
use crate::session::send::accounting::Accounting;
use crate::session::send::sending::SendDomain;
use crate::session::state::Session;
use crate::wire::credit::Grant;
use crate::wire::skip::{LATE, NumberRange, RangesHead};
use crate::wire::stream_end::StreamEnd;
use crate::wire::{Reader, VARINT_MAX, data};
use crate::{Cause, PeerMisbehaved, Service, StreamId, Time};

pub(in crate::session) const TOO_MUCH: PeerMisbehaved =
    PeerMisbehaved::new(Cause::LimitExceeded, "a notice about too many messages");
const UNSENT: PeerMisbehaved = PeerMisbehaved::new(Cause::AckOfUnsent, "an answer about messages never sent");

fn domain_of(head: &RangesHead) -> Domain {
    Domain::of(Service::new(head.domain & data::RELIABLE != 0, head.domain & data::UNSEQUENCED == 0))
}

impl Session {
    pub(in crate::session) fn on_skip(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        let head = RangesHead::read(reader)?;
        let slot = self.route(head.stream)?;
        let domain = domain_of(&head);
        if let Some(slot) = slot {
            self.be_kind(slot, StreamKind::Messages)?;
            if let Some(halves) = self.streams.messages_mut(slot) {
                let sequenced = head.domain & data::UNSEQUENCED == 0;
                halves.recv[domain.index()].get_or_insert_with(|| Box::new(RecvDomain::new(sequenced)));
            }
        }
        let mut end = 0;
        for _ in 0..head.count {
            let range = NumberRange::read(reader, end, true)?;
            end = range.end();
            let Some(slot) = slot else { continue };
            if range.value < MESSAGE_CHARGE || range.value > self.longest() + MESSAGE_CHARGE {
                return Err(PeerMisbehaved::new(Cause::InvalidField, "a charge no message can have"));
            }
            self.skip(slot, domain, range)?;
        }
        if let Some(slot) = slot {
            self.deliver(slot, domain, |state, deliver| state.advance(deliver));
            self.list_gap(slot, domain);
            self.weigh(slot);
        }
        let _ = now;
        if self.out_blocks.answers.len() > MAX_NOTICES {
            return Err(TOO_MUCH);
        }
        Ok(())
    }

    /// Skips the messages of a range. The cost depends on what is new, and not on how many numbers the range names,
    /// which cost the peer nothing.
    fn skip(&mut self, slot: StreamSlot, domain: Domain, range: NumberRange) -> Result<(), PeerMisbehaved> {
        let Some(state) = self.recv_state(slot, domain) else { return Ok(()) };
        state.check(range.end() - 1)?;
        // Numbers further back were answered long ago.
        let (first, end) = (range.first.max(state.floor().saturating_sub(MAX_SPAN)), range.end());
        if first >= end {
            return Ok(());
        }
        let begun: Vec<u64> = state.partial.range(first..end).map(|(number, _)| *number).collect();
        for number in begun {
            self.skip_begun(slot, domain, number, range.value)?;
        }
        let Some(state) = self.recv_state(slot, domain) else { return Ok(()) };
        let unseen = state.skip_unseen(first, end);
        if !state.is_bounded() {
            return Err(TOO_MUCH);
        }
        if !planted(Mutant::SkipNotAnswered) {
            let key = DomainKey { domain, ..self.key_of(slot) };
            self.out_blocks.answers.ask(key, first, end);
        }
        let charge = if planted(Mutant::SkippedCreditLeaked) { 0 } else { unseen * range.value };
        self.charge(slot, charge)?;
        self.consume(slot, charge);
        Ok(())
    }

    fn skip_begun(
        &mut self,
        slot: StreamSlot,
        domain: Domain,
        number: u64,
        charge: u64,
    ) -> Result<(), PeerMisbehaved> {
        let Some(state) = self.recv_state(slot, domain) else { return Ok(()) };
        let Some(partial) = state.take_partial(number) else { return Ok(()) };
        let (charged, consumed) = (partial.charged, partial.consumed());
        if charged > charge {
            return Err(PeerMisbehaved::new(
                Cause::Inconsistent,
                "a skipped message was charged more before",
            ));
        }
        state.skip_begun(number);
        let charge = if planted(Mutant::SkippedCreditLeaked) { charged.max(consumed) } else { charge };
        self.charge(slot, charge - charged)?;
        self.consume(slot, charge - consumed);
        Ok(())
    }

    pub(in crate::session) fn on_skip_ack(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        self.on_answers(now, reader, true, |domain, accounting, key, range| {
            let answer = if range.value == 1 { Answer::Delivered } else { Answer::Skipped };
            for number in domain.asked(range.first..range.end()) {
                domain.on_answer(key, number, answer, accounting);
            }
        })
    }

    pub(in crate::session) fn on_taken(
        &mut self,
        now: Time,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        self.on_answers(now, reader, false, |domain, accounting, key, range| {
            let waiting: Vec<_> = domain.confirming.within(range.first, range.end()).collect();
            domain.confirming.remove(range.first, range.end());
            for (from, to) in waiting {
                for number in from..to {
                    // TAKEN implies delivery, even if the packet's acknowledgement arrives later.
                    domain.settle(key, number, Outcome::Delivered, accounting);
                }
                accounting.on_taken(key, from, to);
            }
        })?;
        self.announce_taken();
        Ok(())
    }

    /// Applies answers to the messages that wait for one. The numbers in a range are not looked at one by one, since
    /// they cost the peer nothing.
    fn on_answers(
        &mut self,
        now: Time,
        reader: &mut Reader,
        valued: bool,
        take: impl Fn(&mut SendDomain, &mut Accounting, DomainKey, NumberRange),
    ) -> Result<(), PeerMisbehaved> {
        let head = RangesHead::read(reader)?;
        let slot = self.route(head.stream)?;
        let domain = domain_of(&head);
        let mut end = 0;
        for _ in 0..head.count {
            let range = NumberRange::read(reader, end, valued)?;
            end = range.end();
            let Some(slot) = slot else { continue };
            let key = DomainKey { domain, ..self.key_of(slot) };
            // The peer may name a domain in which nothing was sent.
            let sending = self.streams.still(key).and_then(|stream| stream.content.sending(key.domain));
            if sending.is_none_or(|domain| range.end() > domain.next()) {
                return Err(UNSENT);
            }
            if range.value > LATE {
                return Err(PeerMisbehaved::new(Cause::InvalidField, "an answer of no known value"));
            }
            if valued && range.value == LATE {
                if range.count > MAX_TOGETHER {
                    return Err(PeerMisbehaved::new(Cause::InvalidField, "a verdict on too many messages"));
                }
                self.on_verdict(now, key, &(range.first..range.end()));
                continue;
            }
            self.with_domain(now, key, |domain, accounting| {
                take(domain, accounting, key, range);
                domain.pop_done();
            });
        }
        Ok(())
    }

    pub(in crate::session) fn on_grant(
        &mut self,
        now: Time,
        kind: u8,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        match Grant::read(kind, reader)? {
            Grant::StreamData { stream, limit } => {
                let Some(slot) = self.route(stream)? else { return Ok(()) };
                let key = self.key_of(slot);
                if let Some(stream) = self.streams.held_mut(slot)
                    && stream.send_credit.raise(limit)
                {
                    if self.account.stalls.end(key, Whose::Peers) {
                        self.chronicle.note(|| Note::Moves { stream: stream.id, reader: Whose::Peers });
                    }
                    for lane in &stream.lanes {
                        self.outbox.unblock(now, *lane);
                    }
                }
            }
            Grant::Streams(limit) => {
                if limit > VARINT_MAX / 4 {
                    return Err(PeerMisbehaved::new(Cause::InvalidField, "more streams than there are ids"));
                }
                self.peer.max_streams = self.peer.max_streams.max(limit);
                if self.counts.take_wanted(self.peer.max_streams) {
                    self.accounting.events.push_back(SessionEvent::StreamsAvailable);
                }
            }
        }
        Ok(())
    }

    pub(in crate::session) fn on_stream_end(
        &mut self,
        kind: u8,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        match StreamEnd::read(kind, reader)? {
            StreamEnd::Reset { stream, code, final_size } => {
                let Some(slot) = self.route(stream)? else { return Ok(()) };
                self.be_bytes(slot)?;
                let Some(half) = self.streams.bytes_in_mut(slot) else { return Ok(()) };
                let grown = half.on_reset(code, final_size)?;
                self.chronicle.note(|| Note::Reset { stream: StreamId(stream), code, by_peer: true });
                let discarded = half.after_reset();
                if !half.opening.is_settled() {
                    // The opening will not arrive any more.
                    half.opening = StreamOpening::None;
                    self.announce(slot);
                }
                self.charge_bytes(slot, grown)?;
                self.close_credit(slot);
                self.consume(slot, discarded);
                self.weigh(slot);
                self.tell_readable(slot);
                self.reap(slot);
            }
            StreamEnd::Stop { stream, code } => {
                let Some(slot) = self.route(stream)? else { return Ok(()) };
                // Its DATA or its RESET will tell whether it has an opening.
                self.be_bytes(slot)?;
                self.on_stop(slot, code);
            }
            StreamEnd::End { stream, final_size } => self.on_end(stream, final_size)?,
        }
        Ok(())
    }
}
