//! SKIP, SKIP-ACK, TAKEN, grants and stream ends from the peer.

use super::Session;
use super::config::{MAX_NOTICES, MAX_SPAN, MESSAGE_CHARGE};
use super::control;
use super::item::State;
use super::message::{DomainKey, Outcome, SessionEvent, StreamKind};
use super::receiving::{RecvDomain, Standing};
use crate::mutants::{Mutant, planted};
use crate::wire::credit::Grant;
use crate::wire::skip::{LATE, NumberRange, RangesHead};
use crate::wire::stream_end::StreamEnd;
use crate::wire::{Reader, VARINT_MAX, data};
use crate::{Cause, PeerMisbehaved, Service, Time};

/// Numbers looked at for one block, at most.
const WORK: u64 = 2 * MAX_SPAN;
pub(super) const TOO_MUCH: PeerMisbehaved =
    PeerMisbehaved::new(Cause::LimitExceeded, "a notice about too many messages");
const UNSENT: PeerMisbehaved = PeerMisbehaved::new(Cause::AckOfUnsent, "an answer about messages never sent");

fn domain_of(head: &RangesHead) -> u8 {
    Service::new(head.domain & data::RELIABLE != 0, head.domain & data::UNSEQUENCED == 0).index() as u8
}

impl Session {
    pub(super) fn on_skip(&mut self, now: Time, reader: &mut Reader) -> Result<(), PeerMisbehaved> {
        let head = RangesHead::read(reader)?;
        let slot = self.route(head.stream)?;
        let domain = domain_of(&head);
        if let Some(slot) = slot {
            self.be_kind(slot, StreamKind::Messages)?;
            if let Some(stream) = self.streams.at_mut(slot) {
                let sequenced = head.domain & data::UNSEQUENCED == 0;
                stream.recv[usize::from(domain)].get_or_insert_with(|| Box::new(RecvDomain::new(sequenced)));
            }
        }
        let (mut end, mut work) = (0, 0u64);
        for _ in 0..head.count {
            let range = NumberRange::read(reader, end, true)?;
            end = range.end();
            let Some(slot) = slot else { continue };
            if range.value < MESSAGE_CHARGE || range.value > self.longest() + MESSAGE_CHARGE {
                return Err(PeerMisbehaved::new(Cause::InvalidField, "a charge no message can have"));
            }
            let Some(state) = self.recv_state(slot, domain) else { continue };
            state.check(end - 1)?;
            // What lies further back was answered long ago.
            let first = range.first.max(state.floor().saturating_sub(MAX_SPAN));
            work += end.saturating_sub(first);
            if work > WORK {
                return Err(TOO_MUCH);
            }
            for number in first..end {
                self.skip_one(slot, domain, number, range.value)?;
            }
        }
        if let Some(slot) = slot {
            self.deliver(slot, domain, |state, deliver| state.advance(deliver));
            self.list_gap(slot, domain);
        }
        let _ = now;
        if self.control.answers.len() > MAX_NOTICES {
            return Err(TOO_MUCH);
        }
        Ok(())
    }

    fn skip_one(&mut self, slot: u32, domain: u8, number: u64, charge: u64) -> Result<(), PeerMisbehaved> {
        let key = DomainKey { domain, ..self.key_of(slot) };
        let Some(state) = self.recv_state(slot, domain) else { return Ok(()) };
        let standing = state.standing(number);
        if standing == Standing::Finished {
            let delivered = !state.skipped.contains(number);
            control::push(&mut self.control.answers, key, number, 1, u64::from(delivered));
            return Ok(());
        }
        let partial = state.partial.remove(&number);
        state.dropped -= usize::from(partial.as_ref().is_some_and(|partial| partial.dropped));
        let (charged, consumed) = partial.map_or((0, 0), |partial| (partial.charged, partial.consumed()));
        if charged > charge {
            return Err(PeerMisbehaved::new(
                Cause::Inconsistent,
                "a skipped message was charged more before",
            ));
        }
        match standing {
            Standing::Late => state.passed.remove(number, number + 1),
            _ => state.skip(number),
        }
        state.skipped.insert(number, number + 1);
        if !state.is_bounded() {
            return Err(TOO_MUCH);
        }
        if !planted(Mutant::SkipNotAnswered) {
            control::push(&mut self.control.answers, key, number, 1, 0);
        }
        let charge = if planted(Mutant::SkippedCreditLeaked) { charged.max(consumed) } else { charge };
        self.charge(slot, charge - charged)?;
        self.consume(slot, charge - consumed);
        Ok(())
    }

    pub(super) fn on_skip_ack(&mut self, now: Time, reader: &mut Reader) -> Result<(), PeerMisbehaved> {
        self.on_answers(now, reader, true, |state, value| match (state, value) {
            (State::Skipping(_), 1) => Some(Outcome::Delivered),
            (State::Skipping(why), 0) => Some(why),
            _ => None,
        })
    }

    pub(super) fn on_taken(&mut self, now: Time, reader: &mut Reader) -> Result<(), PeerMisbehaved> {
        // Taken says delivered, should the packet's acknowledgement come later.
        self.on_answers(now, reader, false, |state, _| (state != State::Done).then_some(Outcome::Delivered))
    }

    fn on_answers(
        &mut self,
        now: Time,
        reader: &mut Reader,
        valued: bool,
        outcome: impl Fn(State, u64) -> Option<Outcome>,
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
            if self.streams.send_domain_ref(key).is_none_or(|domain| range.end() > domain.next()) {
                return Err(UNSENT);
            }
            if valued && range.value == LATE {
                let known = self.streams.send_domain_ref(key).map_or(0..0, |domain| domain.numbers());
                for number in range.first.max(known.start)..range.end().min(known.end) {
                    self.on_verdict(now, key, number);
                }
                continue;
            }
            self.with_domain(now, key, |domain, ledger| {
                let known = domain.numbers();
                for number in range.first.max(known.start)..range.end().min(known.end) {
                    let state = domain.get(number).map_or(State::Done, |item| item.state);
                    if let Some(outcome) = outcome(state, range.value) {
                        domain.settle(key, number, outcome, ledger);
                    }
                }
                domain.pop_done();
            });
            if !valued {
                self.ledger.on_taken(key, range.first, range.end());
            }
        }
        Ok(())
    }

    pub(super) fn on_grant(
        &mut self,
        now: Time,
        kind: u8,
        reader: &mut Reader,
    ) -> Result<(), PeerMisbehaved> {
        match Grant::read(kind, reader)? {
            Grant::Data(limit) => {
                if self.send_credit.raise(limit) {
                    self.outbox.unblock_all(now);
                }
            }
            Grant::StreamData { stream, limit } => {
                let Some(slot) = self.route(stream)? else { return Ok(()) };
                if let Some(stream) = self.streams.at_mut(slot)
                    && stream.send_credit.raise(limit)
                {
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
                if self.wants_streams && self.opened < self.peer.max_streams {
                    self.wants_streams = false;
                    self.ledger.events.push_back(SessionEvent::StreamsAvailable);
                }
            }
        }
        Ok(())
    }

    pub(super) fn on_stream_end(&mut self, kind: u8, reader: &mut Reader) -> Result<(), PeerMisbehaved> {
        match StreamEnd::read(kind, reader)? {
            StreamEnd::Reset { stream, code, final_size } => {
                let Some(slot) = self.route(stream)? else { return Ok(()) };
                self.be_kind(slot, StreamKind::Bytes)?;
                let half = self.streams.at_mut(slot).and_then(|stream| stream.bytes_in.as_mut());
                let Some(half) = half else { return Ok(()) };
                let grown = half.on_reset(code, final_size)?;
                let discarded = half.after_reset();
                self.charge_bytes(slot, grown)?;
                self.consume(slot, discarded);
                self.tell_readable(slot);
                self.reap(slot);
            }
            StreamEnd::Stop { stream, code } => {
                let Some(slot) = self.route(stream)? else { return Ok(()) };
                self.be_kind(slot, StreamKind::Bytes)?;
                self.on_stop(slot, code);
            }
        }
        Ok(())
    }
}
