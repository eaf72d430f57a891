//! Handling blocks from the peer: DATA here, the others in `notices_in`.

use bytes::Bytes;

use super::inbox::Unread;
use super::receiving::{Inserted, NumberState, Partial, RecvDomain};
use super::run::Run;
use crate::expected::Expected;
use crate::mutants::{Mutant, planted};
use crate::session::config::MESSAGE_CHARGE;
use crate::session::content::{Content, MessageHalves};
use crate::session::message::{DomainKey, Message, SessionEvent, StreamKind};
use crate::session::numbers::{Domain, StreamSlot};
use crate::session::state::Session;
use crate::session::stream::Stream;
use crate::wire::data::{DataHead, Extras};
use crate::wire::{Reader, block};
use crate::{Cause, PeerMisbehaved, Service, StreamId, Tag, Time};

/// An unread payload stays in its packet if the packet is at most this many times as long. Credit and the session's
/// account know only of the payload's bytes. Bulk data nearly fills its packets.
const MOST_AROUND: usize = 2;
/// Most unread messages for which payloads stay in their receive buffers. Each of these buffers holds many packets.
const MOST_SLICES: u64 = 1024;
/// Shorter parts of byte streams are copied out of their receive buffers, bytes.
const SHORTEST_SLICE: usize = 1024;
const INCONSISTENT: PeerMisbehaved =
    PeerMisbehaved::new(Cause::Inconsistent, "a message contradicts what was said of it");

/// The name, in assertions, of a domain that [`Session::recv_domain`] has created for every block that is handled here.
const DOMAIN: &str = "a domain that receives";

impl Session {
    /// Handles a block whose type was already read.
    ///
    /// # Errors
    /// The peer broke the protocol, and the connection must close.
    pub fn handle_block(
        &mut self,
        now: Time,
        kind: u8,
        reader: &mut Reader,
        early: bool,
    ) -> Result<(), PeerMisbehaved> {
        self.clock = now;
        self.account.received.begin_block(early);
        match kind {
            block::DATA => self.on_data(now, reader, early),
            block::SKIP => self.on_skip(now, reader),
            block::SKIP_ACK => self.on_skip_ack(now, reader),
            block::TAKEN => self.on_taken(now, reader),
            block::MAX_STREAM_DATA | block::MAX_STREAMS => self.on_grant(now, kind, reader),
            block::RESET | block::STOP | block::END => self.on_stream_end(kind, reader),
            _ => Err(PeerMisbehaved::new(Cause::UnrecognizedBlock, "a block that is not the session's")),
        }?;
        self.cover_held()
    }

    fn on_data(&mut self, now: Time, reader: &mut Reader, early: bool) -> Result<(), PeerMisbehaved> {
        let (head, length) = DataHead::read(reader)?;
        let Some(slot) = self.route(head.stream)? else {
            reader.skip(length as u64)?;
            return Ok(());
        };
        if head.extras.bytes {
            self.be_bytes(slot)?;
            self.declare_opening(slot, head.extras.opening)?;
            let slices = is_most(length, reader);
            let payload = reader.bytes(length as u64)?;
            return self.on_stream_bytes(slot, &head, payload, slices);
        }
        self.be_kind(slot, StreamKind::Messages)?;
        let domain = self.recv_domain(slot, &head)?;
        if head.many() {
            return self.on_run(now, slot, domain, &head, reader, length, early);
        }
        if !(head.begins() && head.ends()) {
            // Copied in place: sharing the packet would cost two atomic operations that wait for all earlier writes.
            let part = &reader.peek()[..length];
            if self.on_part(now, slot, domain, &head, part, early)? != Inserted::Bytes {
                self.weigh(slot);
            }
            reader.skip(length as u64)?;
            return Ok(());
        }
        let small = length <= self.config.small_message;
        let payload = match self.streams.messages_mut(slot) {
            Some(halves) if small => {
                let copy = halves.arena.copy(&reader.peek()[..length], &mut self.arenas);
                reader.skip(length as u64)?;
                copy
            }
            _ if self.accounting.stats.unread < MOST_SLICES && is_most(length, reader) => {
                reader.bytes(length as u64)?
            }
            _ => Bytes::copy_from_slice(&reader.bytes(length as u64)?),
        };
        self.on_message(now, slot, domain, &head, payload, early)
    }

    /// Returns the domain that a head names, creating it if needed.
    #[inline]
    fn recv_domain(&mut self, slot: StreamSlot, head: &DataHead) -> Result<Domain, PeerMisbehaved> {
        let service = head.service();
        let cross = head.extras.latest_reliable.is_some();
        let Some(stream) = self.streams.held_mut(slot) else { return Err(INCONSISTENT) };
        if service.is_sequenced() {
            if *stream.cross_in.get_or_insert(cross) != cross {
                return Err(INCONSISTENT);
            }
        } else if cross {
            return Err(PeerMisbehaved::new(
                Cause::InvalidField,
                "cross-sequencing of an unsequenced message",
            ));
        }
        let domain = if cross { Domain::CROSS } else { Domain::of(service) };
        let halves = stream.content.messages_mut().expected("a stream of messages").ok_or(INCONSISTENT)?;
        halves.recv[domain.index()].get_or_insert_with(|| Box::new(RecvDomain::new(service.is_sequenced())));
        Ok(domain)
    }

    /// Charges messages to a stream.
    #[inline]
    pub(in crate::session) fn charge(&mut self, slot: StreamSlot, charge: u64) -> Result<(), PeerMisbehaved> {
        self.charge_up_to(slot, charge, self.longest() + MESSAGE_CHARGE)
    }

    /// Charges bytes of a byte stream, which may not overdraw the stream's credit.
    pub(in crate::session) fn charge_bytes(
        &mut self,
        slot: StreamSlot,
        charge: u64,
    ) -> Result<(), PeerMisbehaved> {
        self.charge_up_to(slot, charge, 0)
    }

    #[inline]
    fn charge_up_to(&mut self, slot: StreamSlot, charge: u64, overdraft: u64) -> Result<(), PeerMisbehaved> {
        self.account.received.charge(charge)?;
        let Some(stream) = self.streams.held_mut(slot) else { return Ok(()) };
        if stream.recv_credit.charge(charge, overdraft)? {
            self.on_unread(slot);
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "one block's worth of facts")]
    fn on_run(
        &mut self,
        now: Time,
        slot: StreamSlot,
        domain: Domain,
        head: &DataHead,
        reader: &mut Reader,
        length: usize,
        early: bool,
    ) -> Result<(), PeerMisbehaved> {
        let Some(halves) = self.streams.messages_mut(slot) else { return Ok(()) };
        let body = halves.arena.copy(&reader.peek()[..length], &mut self.arenas);
        reader.skip(length as u64)?;
        let Some(state) = halves.receiving_mut(domain).expected(DOMAIN) else { return Ok(()) };
        // No message of a malformed block is delivered.
        let mut run = Run::new(message(head, head.number, body, early, domain))?;
        if state.is_next(head.number) {
            // In order and nothing unusual: no bookkeeping for each message.
            let (count, bytes) = (run.len() as u64, run.bytes());
            self.charge(slot, bytes + count * MESSAGE_CHARGE)?;
            let Some(Stream { content: Content::Messages(halves), claimed, .. }) =
                self.streams.held_mut(slot)
            else {
                return Ok(());
            };
            let state = halves.recv[domain.index()].as_deref_mut().expected(DOMAIN);
            let Some(state) = state else { return Ok(()) };
            let queue = if *claimed { &mut halves.inbox } else { &mut self.incoming.inbox };
            let was_empty = queue.is_empty();
            queue.push_run(run);
            state.finished.raise(head.number + count);
            if let Some(tag) = head.extras.tag {
                self.incoming.received_tags.note(head.stream, tag, count, bytes, self.config.max_tags);
            }
            let apart = *claimed;
            self.note_received(slot, count, bytes, was_empty);
            if apart {
                self.weigh(slot);
            }
            return Ok(());
        }
        let end = head.number.saturating_add(run.len() as u64);
        if state.parks(head.number, end) {
            return self.on_run_behind(now, slot, domain, head, run);
        }
        let follows = head.extras.latest_reliable.filter(|_| head.service().is_reliable());
        let (first, mut head) = (head.number, *head);
        for one in run.take(usize::MAX) {
            head.number = one.id;
            if follows.is_some() && one.id > first {
                head.extras.latest_reliable = Some(one.id);
            }
            self.on_message(now, slot, domain, &head, one.payload, early)?;
        }
        Ok(())
    }

    /// Keeps a run that is behind a gap as it arrived, instead of message by message.
    fn on_run_behind(
        &mut self,
        now: Time,
        slot: StreamSlot,
        domain: Domain,
        head: &DataHead,
        mut run: Run,
    ) -> Result<(), PeerMisbehaved> {
        let Some(state) = self.recv_state(slot, domain) else { return Ok(()) };
        state.check(head.number)?;
        state.check(head.number + run.len() as u64 - 1)?;
        self.charge(slot, run.bytes() + run.len() as u64 * MESSAGE_CHARGE)?;
        // A run that may wait for ever holds its own bytes and no receive buffer.
        run.own();
        let latest = latest_reliable(head, head.extras.latest_reliable);
        if let Some(state) = self.recv_state(slot, domain) {
            state.park(now, run, latest);
        }
        self.list_gap(slot, domain);
        self.weigh(slot);
        Ok(())
    }

    fn on_message(
        &mut self,
        now: Time,
        slot: StreamSlot,
        domain: Domain,
        head: &DataHead,
        payload: Bytes,
        early: bool,
    ) -> Result<(), PeerMisbehaved> {
        let length = payload.len() as u64;
        if length > self.longest() {
            return Err(PeerMisbehaved::new(Cause::MessageTooLarge, "a message longer than announced"));
        }
        let Some(state) = self.recv_state(slot, domain) else { return Ok(()) };
        state.check(head.number)?;
        match state.standing(head.number) {
            NumberState::Finished => {
                self.accounting.stats.duplicates += 1;
                let urgent = head.extras.priority >= self.config.urgent_priority;
                if planted(Mutant::DuplicateDelivered) || urgent && planted(Mutant::UrgentCopyDelivered) {
                    let again = message(head, head.number, payload, early, domain);
                    self.deliver(slot, domain, |_, deliver| deliver(Unread::One(again)));
                }
                Ok(())
            }
            standing => {
                let already = state.take_partial(head.number);
                let kept = already.as_ref().is_some_and(|partial| partial.dropped && !partial.forgotten);
                if already.as_ref().is_some_and(|partial| partial.contradicts(length)) {
                    return Err(INCONSISTENT);
                }
                let known = already.as_ref().is_some_and(|partial| partial.dropped);
                let (charged, consumed) =
                    already.map_or((0, 0), |partial| (partial.charged, partial.consumed()));
                let charge = length + MESSAGE_CHARGE;
                if charge < charged {
                    return Err(INCONSISTENT);
                }
                if standing == NumberState::Late {
                    state.passed.remove(head.number, head.number + 1);
                    if kept {
                        state.keep_charge(head.number, length, charge);
                    }
                }
                self.charge(slot, charge - charged)?;
                if standing == NumberState::Late {
                    self.consume(slot, charge - consumed);
                    let key = DomainKey { domain, ..self.key_of(slot) };
                    return if known { Ok(()) } else { self.on_late(key, head.number, true) };
                }
                let state = self.recv_state(slot, domain);
                let plain = state.as_ref().is_some_and(|state| state.is_next(head.number));
                let in_turn = state.is_none_or(|state| state.is_in_turn(head.number));
                // A message that may wait for ever holds its own bytes and no receive buffer.
                let payload = if in_turn { payload } else { Bytes::copy_from_slice(&payload) };
                let whole = message(head, head.number, payload, early, domain);
                let latest = latest_reliable(head, head.extras.latest_reliable);
                self.on_whole(now, slot, domain, whole, latest);
                if !plain || self.streams.held(slot).is_some_and(|stream| stream.claimed) {
                    self.weigh(slot);
                }
                Ok(())
            }
        }
    }

    /// Returns a domain of a stream in which something is known to have been received.
    #[track_caller]
    pub(in crate::session) fn recv_state(
        &mut self,
        slot: StreamSlot,
        domain: Domain,
    ) -> Option<&mut RecvDomain> {
        self.streams.messages_mut(slot)?.receiving_mut(domain).expected(DOMAIN)
    }

    /// Handles a whole message: puts it into its inbox, or holds it behind a gap.
    fn on_whole(&mut self, now: Time, slot: StreamSlot, domain: Domain, whole: Message, latest: u64) {
        self.deliver(slot, domain, |state, deliver| state.on_whole(now, whole, latest, deliver));
        self.list_gap(slot, domain);
    }

    /// Runs `change`, which passes messages to the inbox of the stream.
    pub(in crate::session) fn deliver(
        &mut self,
        slot: StreamSlot,
        domain: Domain,
        change: impl FnOnce(&mut RecvDomain, &mut dyn FnMut(Unread)),
    ) {
        let Some(Stream { content: Content::Messages(halves), claimed, .. }) = self.streams.held_mut(slot)
        else {
            return;
        };
        let Some(state) = halves.recv[domain.index()].as_deref_mut().expected(DOMAIN) else { return };
        let queue = if *claimed { &mut halves.inbox } else { &mut self.incoming.inbox };
        let (was_empty, mut count, mut bytes) = (queue.is_empty(), 0, 0);
        let (tags, limit) = (&mut self.incoming.received_tags, self.config.max_tags);
        change(state, &mut |unread: Unread| {
            let (messages, length) = (unread.len() as u64, unread.bytes());
            count += messages;
            bytes += length;
            if let Some(tag) = unread.first().tag {
                tags.note(unread.first().stream.0, tag.0, messages, length, limit);
            }
            queue.push_unread(unread);
        });
        if count > 0 {
            self.note_received(slot, count, bytes, was_empty);
        }
    }

    #[inline]
    fn note_received(&mut self, slot: StreamSlot, count: u64, bytes: u64, was_empty: bool) {
        self.accounting.stats.received += count;
        self.accounting.stats.received_bytes += bytes;
        self.accounting.stats.unread += count;
        let halves = self.streams.held(slot).and_then(|stream| stream.content.messages());
        if halves.is_some_and(|halves| halves.latest.is_some()) {
            self.sift(slot, count);
        }
        if !was_empty {
            return;
        }
        if self.streams.held(slot).is_some_and(|stream| stream.claimed) {
            self.tell_readable(slot);
        } else if !self.incoming.readable_told {
            self.incoming.readable_told = true;
            self.accounting.events.push_back(SessionEvent::Readable);
        }
    }

    /// For a stream that keeps only the latest messages, moves the unreliable ones of the newest `count` out of its
    /// inbox.
    fn sift(&mut self, slot: StreamSlot, count: u64) {
        let Some(MessageHalves { inbox, latest, .. }) = self.streams.messages_mut(slot) else { return };
        let Some(latest) = latest.as_mut().filter(|latest| latest.takes_more()) else { return };
        let (mut newest, mut charges) = (inbox.split_newest(count as usize), 0);
        while let Some(message) = newest.pop() {
            if message.service.is_reliable() {
                inbox.push(message);
            } else {
                charges += latest.push(message, inbox.len());
            }
        }
        let discarded = latest.discard();
        self.on_discarded(discarded);
        self.consume(slot, charges);
    }

    fn on_part(
        &mut self,
        now: Time,
        slot: StreamSlot,
        domain: Domain,
        head: &DataHead,
        part: &[u8],
        early: bool,
    ) -> Result<Inserted, PeerMisbehaved> {
        let (longest, number) = (self.longest(), head.number);
        let end = head.offset + part.len() as u64;
        let Some(Stream { content, recv_credit, .. }) = self.streams.held_mut(slot) else {
            return Ok(Inserted::Bytes);
        };
        let Some(state) = content.receiving_mut(domain).expected(DOMAIN) else { return Ok(Inserted::Bytes) };
        state.check(number)?;
        let standing = state.standing(number);
        if standing == NumberState::Finished {
            self.accounting.stats.duplicates += 1;
            return Ok(Inserted::Bytes);
        }
        let partial = state.partial.entry(number).or_default();
        let claimed = if head.ends() { Some(end) } else { head.message_length };
        partial.take_length(claimed, end, longest)?;
        let total = partial.length.unwrap_or(partial.highest) + MESSAGE_CHARGE;
        let charge = total - partial.charged;
        partial.charged = total;
        partial.early |= early;
        if head.begins() {
            partial.extras = Some(head.extras);
        }
        if standing == NumberState::Late {
            self.on_late_part(slot, domain, number, charge)?;
            return Ok(Inserted::Memory);
        }
        let expected = partial.length.unwrap_or(end);
        // It is charged first, so nothing is allocated beyond the credit.
        self.account.received.charge(charge)?;
        let is_unread = recv_credit.charge(charge, longest + MESSAGE_CHARGE)?;
        let spares = &mut self.incoming.spares;
        let inserted = state.insert_part(number, head.offset, part, expected, spares, head.ends())?;
        let finished = if inserted == Inserted::Whole { state.take_partial(number) } else { None };
        if is_unread {
            self.on_unread(slot);
        }
        if let Some(Partial { assembly, extras: Some(extras), early, .. }) = finished {
            let head = DataHead { extras, ..*head };
            let whole = message(&head, number, assembly.into_bytes(&mut self.incoming.spares), early, domain);
            let latest = latest_reliable(&DataHead { number, ..head }, extras.latest_reliable);
            self.on_whole(now, slot, domain, whole, latest);
        }
        Ok(inserted)
    }

    /// Handles a part of a message that was passed over. Only its charge matters, and that only once.
    fn on_late_part(
        &mut self,
        slot: StreamSlot,
        domain: Domain,
        number: u64,
        charge: u64,
    ) -> Result<(), PeerMisbehaved> {
        let Some(state) = self.recv_state(slot, domain) else { return Ok(()) };
        state.passed.remove(number, number + 1);
        let first = state.drop_partial(number);
        state.let_go(number);
        self.charge(slot, charge)?;
        self.consume(slot, charge);
        let key = DomainKey { domain, ..self.key_of(slot) };
        if first { self.on_late(key, number, false) } else { Ok(()) }
    }

    fn on_stream_bytes(
        &mut self,
        slot: StreamSlot,
        head: &DataHead,
        payload: Bytes,
        slices: bool,
    ) -> Result<(), PeerMisbehaved> {
        if head.number != 0 || head.service() != Service::ReliableSequenced {
            return Err(PeerMisbehaved::new(
                Cause::InvalidField,
                "a byte stream is one reliable sequenced message",
            ));
        }
        let small = self.config.small_message.max(SHORTEST_SLICE);
        let Some(half) = self.streams.bytes_in_mut(slot) else { return Ok(()) };
        let grown = half.grows(head.offset, payload.len() as u64, head.ends())?;
        // It is charged first, so nothing is allocated beyond the credit.
        self.charge_bytes(slot, grown)?;
        if head.ends() {
            self.close_credit(slot);
        }
        let Some(half) = self.streams.bytes_in_mut(slot) else { return Ok(()) };
        // A short part, and one that is not next, is copied in any case.
        let payload =
            if slices || payload.len() <= small { payload } else { Bytes::copy_from_slice(&payload) };
        let (news, mut consumed) = half.insert(head.offset, payload, head.ends(), small)?;
        if half.opening.is_awaited()
            && let Some(opening) = half.take_off_opening()?
        {
            consumed += opening;
            self.announce(slot);
        }
        self.consume(slot, consumed);
        if news && self.is_announced(slot) {
            self.tell_readable(slot);
        }
        self.weigh(slot);
        self.reap(slot);
        Ok(())
    }
}

impl Partial {
    /// Returns how much of its charge counts as read.
    pub(in crate::session) fn consumed(&self) -> u64 {
        if self.dropped { self.charged } else { 0 }
    }

    fn contradicts(&self, length: u64) -> bool {
        self.highest > length || self.length.is_some_and(|known| known != length)
    }

    /// Notes a part that ends at `end` and, if known, the whole length.
    fn take_length(&mut self, claimed: Option<u64>, end: u64, longest: u64) -> Result<(), PeerMisbehaved> {
        self.highest = self.highest.max(end);
        if let Some(length) = claimed {
            if self.length.is_some_and(|known| known != length) {
                return Err(INCONSISTENT);
            }
            self.length = Some(length);
        }
        if self.length.is_some_and(|length| self.highest > length) {
            return Err(INCONSISTENT);
        }
        if self.length.unwrap_or(0).max(self.highest) > longest {
            return Err(PeerMisbehaved::new(Cause::MessageTooLarge, "a message longer than announced"));
        }
        Ok(())
    }
}

/// Returns whether the payload is large enough, compared with its packet, to keep the whole packet for it.
#[inline]
fn is_most(length: usize, of: &Reader) -> bool {
    of.whole() <= MOST_AROUND * length
}

/// Returns one more than the latest reliable number before a message, as far as its receiver must know it.
#[inline]
fn latest_reliable(head: &DataHead, said: Option<u64>) -> u64 {
    said.unwrap_or(if head.service().is_reliable() { head.number } else { 0 })
}

#[inline]
fn message(head: &DataHead, number: u64, payload: Bytes, early: bool, domain: Domain) -> Message {
    let Extras { tag, priority, ppid, confirm, .. } = head.extras;
    Message {
        payload,
        stream: StreamId(head.stream),
        id: number,
        tag: tag.map(Tag),
        ppid,
        service: head.service(),
        priority,
        early,
        confirm,
        domain,
    }
}
