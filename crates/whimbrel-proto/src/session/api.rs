//! The message interface for applications: sending, cancelling, replacing and statistics.

use std::time::Duration;

use super::account::stalls::Whose;
use super::chronicle::Note;
use super::config::{MESSAGE_CHARGE, URGENT_BEYOND, URGENT_LEN};
use super::message::{DomainKey, Outcome, Outgoing, SendError, SessionEvent, StreamKind, TagSettings};
use super::numbers::{Domain, LaneSlot, StreamSlot, TagSlot};
use super::send::accounting::MessagePlace;
use super::send::gather::LONGEST_GATHERED;
use super::send::out_blocks;
use super::send::send_item::{CONFIRM, NO_TAG, PPID, RELIABLE, SendItem, SendState, TRACKED};
use super::send::sending::SendDomain;
use super::state::Session;
use super::stats::SessionStats;
use crate::expected::Expected;
use crate::mutants::{Mutant, planted};
use crate::wire::VARINT_MAX;
use crate::wire::data::{self, DEFAULT_PRIORITY};
use crate::{MessageId, Service, StreamId, Tag, Time};

impl Session {
    /// Queues a message.
    ///
    /// # Errors
    /// Returns a [`SendError`]. `QueueFull` hands the message back.
    pub fn send(&mut self, now: Time, message: Outgoing) -> Result<MessageId, SendError> {
        let slot = self.accepts(&message)?;
        if !self.takes_now(slot, &message) {
            return Err(SendError::QueueFull(Box::new(message)));
        }
        self.queue(now, slot, message)
    }

    #[inline]
    pub(super) fn queue(
        &mut self,
        now: Time,
        slot: StreamSlot,
        message: Outgoing,
    ) -> Result<MessageId, SendError> {
        if self.is_gathered(&message, message.payload.len()) {
            self.gather(now, slot, &message, &message.payload);
            self.cover_buffered();
            return Ok(MessageId(self.next_message - 1));
        }
        let service = message.service;
        let item = self.item(now, slot, message)?;
        let id = item.id;
        self.enqueue(now, slot, service, item);
        self.cover_buffered();
        Ok(id)
    }

    /// Queues a copy of `payload`, as [`Session::send`] would queue a message like `template` with that payload. Only a
    /// small message without tag, lifetime, PPID, route, tracking or confirmation is taken this way. Returns false if
    /// nothing was done; [`Session::send`] then takes the message or returns the reason.
    #[inline]
    pub fn send_copy(&mut self, now: Time, template: &Outgoing, payload: &[u8]) -> bool {
        if self.closing
            || !self.is_gathered(template, payload.len())
            || payload.len() as u64 > self.peer.max_message
        {
            return false;
        }
        let Some(slot) = self.streams.find(template.stream) else { return false };
        if self.queue_is_full(slot, payload.len() as u64, self.priority_on(slot, template.priority), (0, 0))
            || self.streams.held(slot).and_then(|stream| stream.takes()) != Some(StreamKind::Messages)
        {
            return false;
        }
        self.gather(now, slot, template, payload);
        self.cover_buffered();
        true
    }

    /// Queues copies of the payloads one after the other, like [`Session::send_copy`]. Returns the first payload that
    /// could not be taken, or none if all were.
    #[inline]
    pub fn send_copies<P: AsRef<[u8]>>(
        &mut self,
        now: Time,
        template: &Outgoing,
        payloads: &mut impl Iterator<Item = P>,
    ) -> Option<P> {
        let first = payloads.next()?;
        if !self.send_copy(now, template, first.as_ref()) {
            return Some(first);
        }
        // The stream, lane and limits found for the first payload apply to all of them.
        let Some(slot) = self.streams.find(template.stream).expected("the stream of the first copy") else {
            return payloads.next();
        };
        let (service, priority) = (template.service, self.priority_on(slot, template.priority));
        let domain = self.send_domain_of(slot, service);
        let lane = self.lane_for(slot, domain, service, priority, NO_TAG);
        let flags = u8::from(service.is_reliable()) * RELIABLE;
        let longest = (self.config.small_message.min(LONGEST_GATHERED) as u64).min(self.peer.max_message);
        // What certainly fits. Beyond it each payload is asked for.
        let (mut messages, mut bytes) = self.queue_room();
        let (mut taken, mut refused) = (0, None);
        for payload in payloads {
            let length = payload.as_ref().len() as u64;
            let fits = messages > 0 && length <= bytes || !self.queue_is_full(slot, length, priority, (0, 0));
            if length > longest || !fits {
                refused = Some(payload);
                break;
            }
            (messages, bytes) = (messages.saturating_sub(1), bytes.saturating_sub(length));
            taken += 1;
            self.outbox.gather(now, lane, flags, priority, payload.as_ref());
        }
        self.next_message += taken;
        self.accounting.stats.total.queued += taken;
        self.cover_buffered();
        refused
    }

    /// Returns whether the message can be gathered into a bundle with others of its kind.
    #[inline]
    fn is_gathered(&self, message: &Outgoing, length: usize) -> bool {
        length <= self.config.small_message.min(LONGEST_GATHERED) && message.is_plain()
    }

    #[inline]
    fn gather(&mut self, now: Time, slot: StreamSlot, template: &Outgoing, payload: &[u8]) {
        let (service, priority) = (template.service, self.priority_on(slot, template.priority));
        let domain = self.send_domain_of(slot, service);
        let lane = self.lane_for(slot, domain, service, priority, NO_TAG);
        self.next_message += 1;
        self.accounting.stats.total.queued += 1;
        self.outbox.gather(now, lane, u8::from(service.is_reliable()) * RELIABLE, priority, payload);
    }

    /// Returns the stream's priority in place of the default one.
    #[inline]
    fn priority_on(&self, slot: StreamSlot, priority: u8) -> u8 {
        match self.streams.held(slot) {
            Some(stream) if priority == DEFAULT_PRIORITY => stream.content.priority(),
            _ => priority,
        }
    }

    /// Returns how many messages and bytes fit into the send queue now.
    pub fn queue_room(&self) -> (usize, u64) {
        (
            self.config.send_queue_messages.saturating_sub(self.outbox.messages()),
            self.config.send_queue_bytes.saturating_sub(self.outbox.bytes()).min(self.buffer_room()),
        )
    }

    /// Returns the payload bytes that wait to be sent for the first time.
    pub fn backlog(&self) -> u64 {
        self.outbox.bytes()
    }

    /// Returns whether there is room for this message now. If not, [`SessionEvent::Writable`] follows once it is worth
    /// trying again.
    pub fn has_room(&mut self, message: &Outgoing) -> bool {
        // A message on a stream that is gone counts as having room: [`Session::send`] returns the reason it is refused.
        self.streams.find(message.stream).is_none_or(|slot| self.takes_now(slot, message))
    }

    fn takes_now(&mut self, slot: StreamSlot, message: &Outgoing) -> bool {
        self.takes_instead(slot, message, (0, 0))
    }

    /// Returns whether there is room for the message once `leaving` (messages and bytes) has left the queue for it. A
    /// message no longer than the bytes it replaces always fits.
    fn takes_instead(&mut self, slot: StreamSlot, message: &Outgoing, leaving: (usize, u64)) -> bool {
        let (length, priority) = (message.payload.len() as u64, self.priority_on(slot, message.priority));
        let fits = leaving.0 > 0 && length <= leaving.1;
        let full = !fits && self.queue_is_full(slot, length, priority, leaving);
        let unconfirmed = message.confirm && self.has_most_unconfirmed();
        if full {
            if !self.refused.waits_for_room() {
                let (messages, bytes) = (self.outbox.messages() as u64, self.outbox.bytes());
                self.chronicle.note(|| Note::QueueFull { messages, bytes });
            }
            self.refused.on_full(slot);
        }
        if unconfirmed {
            self.refused.on_unconfirmed();
        }
        !full && !unconfirmed
    }

    fn has_most_unconfirmed(&self) -> bool {
        self.accounting.unconfirmed() >= self.config.max_unconfirmed
    }

    /// Returns whether the queue is full, not counting the messages and bytes in `leaving`. A stream with nothing else
    /// waiting may always queue one message, because messages that other readers leave unread may fill the queue for
    /// ever.
    #[inline]
    fn queue_is_full(&self, slot: StreamSlot, length: u64, priority: u8, leaving: (usize, u64)) -> bool {
        self.is_beyond(length, leaving, (0, 0))
            && self.waiting_on(slot) > leaving.0
            && !(self.is_urgent(priority)
                && length <= URGENT_LEN
                && !self.is_beyond(length, leaving, (URGENT_BEYOND, URGENT_BEYOND as u64 * URGENT_LEN)))
    }

    #[inline]
    fn is_beyond(&self, length: u64, leaving: (usize, u64), extra: (usize, u64)) -> bool {
        let (messages, bytes) = (self.outbox.messages() - leaving.0, self.outbox.bytes() - leaving.1);
        messages > 0
            && (messages >= self.config.send_queue_messages.saturating_add(extra.0)
                || bytes + length > self.config.send_queue_bytes.saturating_add(extra.1)
                || !self.has_buffer(length, leaving.1 + extra.1))
    }

    /// Returns whether messages of this priority go ahead of bulk, and are sent twice where that helps.
    pub fn is_urgent(&self, priority: u8) -> bool {
        priority >= self.config.urgent_priority
    }

    /// Returns how many messages of a stream wait to be sent for the first time.
    fn waiting_on(&self, slot: StreamSlot) -> usize {
        let lanes = self.streams.held(slot).map_or(&[][..], |stream| &stream.lanes);
        lanes.iter().map(|lane| self.outbox.lane(*lane).waiting()).sum()
    }

    /// Reports room after a refusal, once half the queue is free or a refused stream has nothing waiting. Called when
    /// something has left the queue or a buffer.
    #[inline]
    pub(super) fn announce_room(&mut self) {
        self.on_buffer_lighter();
        if !self.refused.waits_for_room() {
            return;
        }
        let half = self.outbox.messages() <= self.config.send_queue_messages / 2
            && self.outbox.bytes() <= self.config.send_queue_bytes / 2;
        if half || self.refused.slots().any(|slot| self.waiting_on(slot) == 0) {
            self.refused.on_room();
            self.accounting.events.push_back(SessionEvent::Writable);
        }
    }

    /// Reports the first confirmation after a send was refused for too many unconfirmed messages. It does not wait for
    /// more, since the peer's application may take its time with the next.
    pub(super) fn announce_taken(&mut self) {
        if self.refused.waits_for_confirmation() && !self.has_most_unconfirmed() {
            self.refused.on_confirmed();
            self.accounting.events.push_back(SessionEvent::Writable);
        }
    }

    #[inline]
    fn accepts(&mut self, message: &Outgoing) -> Result<StreamSlot, SendError> {
        if self.closing {
            return Err(SendError::Closed);
        }
        let limit = self.peer.max_message.min(u64::from(u32::MAX));
        if message.payload.len() as u64 > limit {
            return Err(SendError::TooLarge { limit });
        }
        if message.tag.is_some_and(|tag| tag.0 > VARINT_MAX) {
            return Err(SendError::TagTooLarge);
        }
        let slot = self.streams.find(message.stream).ok_or(SendError::UnknownStream)?;
        match self.streams.held(slot).and_then(|stream| stream.takes()) {
            Some(StreamKind::Messages) => Ok(slot),
            Some(StreamKind::Bytes) => Err(SendError::WrongKind),
            None => Err(SendError::UnknownStream),
        }
    }

    #[inline]
    fn item(&mut self, now: Time, slot: StreamSlot, message: Outgoing) -> Result<SendItem, SendError> {
        let (mut priority, mut lifetime, mut tag) = (message.priority, message.lifetime, NO_TAG);
        if let Some(Tag(number)) = message.tag {
            let limit = self.config.max_tags;
            tag = self.accounting.tag(message.stream.0, number, limit).ok_or(SendError::TooManyTags)?;
            if let Some(state) = self.accounting.held_tag(tag) {
                lifetime = lifetime.or(state.settings.lifetime);
                if priority == DEFAULT_PRIORITY {
                    priority = state.settings.priority.unwrap_or(priority);
                }
            }
        }
        priority = self.priority_on(slot, priority);
        let flags = (u8::from(message.service.is_reliable()) * RELIABLE)
            | (u8::from(message.tracked) * TRACKED)
            | (u8::from(message.confirm) * CONFIRM)
            | (u8::from(message.ppid.is_some()) * PPID);
        let id = MessageId(self.next_message);
        self.next_message += 1;
        Ok(SendItem {
            id,
            first: 0,
            count: 1,
            expires: lifetime.map_or(Time::MAX, |lifetime: Duration| now + lifetime),
            tag,
            ppid: message.ppid.unwrap_or(0),
            length: message.payload.len() as u32,
            payload: message.payload,
            reliable_gap: 0,
            route: message.route,
            priority,
            flags,
            state: SendState::Flying,
            copies: 0,
            repeats: 0,
        })
    }

    #[inline]
    fn enqueue(&mut self, now: Time, slot: StreamSlot, service: Service, item: SendItem) {
        let domain = self.send_domain_of(slot, service);
        let lane = self.lane_for(slot, domain, service, item.priority, item.tag);
        let tag = item.tag;
        if !item.is_listed() {
            self.accounting.stats.total.queued += 1;
            self.outbox.push(now, lane, item);
            return;
        }
        let place = MessagePlace::Pending { lane, seq: self.outbox.next_seq(lane) };
        self.accounting.on_queued(&item, place);
        self.outbox.push(now, lane, item);
        let (outbox, streams) = (&self.outbox, &self.streams);
        let keep = |place: &MessagePlace| is_live(outbox, streams, place);
        if tag != NO_TAG {
            self.accounting.thin_places(tag, keep);
        }
        self.accounting.thin_deadlines(keep);
    }

    /// Returns the domain of a service in a stream, creating it if needed.
    #[inline]
    fn send_domain_of(&mut self, slot: StreamSlot, service: Service) -> Domain {
        let (own, peer) = (self.config.cross_sequencing, self.peer.cross_sequencing);
        let side = self.side;
        let Some(stream) = self.streams.held_mut(slot) else { return Domain::of(service) };
        let cross = service.is_sequenced() && {
            let opener = stream.id.opener();
            let set = stream.content.messages().and_then(|halves| halves.options.cross_sequencing);
            *stream.cross_out.get_or_insert(match stream.cross_in {
                _ if opener == side => set.unwrap_or(own),
                followed => set.or(followed).unwrap_or(peer),
            })
        };
        let domain = if cross { Domain::CROSS } else { Domain::of(service) };
        let Some(halves) = stream.content.messages_mut().expected("a stream of messages") else {
            return domain;
        };
        halves.send[domain.index()].get_or_insert_with(|| {
            let unsequenced = if service.is_sequenced() { 0 } else { data::UNSEQUENCED };
            let reliable = if service.is_reliable() || cross { data::RELIABLE } else { 0 };
            Box::new(SendDomain::new(unsequenced | reliable, cross))
        });
        domain
    }

    #[inline]
    fn lane_for(
        &mut self,
        slot: StreamSlot,
        domain: Domain,
        service: Service,
        priority: u8,
        tag: TagSlot,
    ) -> LaneSlot {
        let priority = (!service.is_sequenced()).then_some(priority);
        let tag =
            if priority.is_some() && tag != NO_TAG && self.accounting.is_capped(tag) { tag } else { NO_TAG };
        self.lane_with(slot, domain, priority, tag)
    }

    pub(super) fn lane_with(
        &mut self,
        slot: StreamSlot,
        domain: Domain,
        priority: Option<u8>,
        tag: TagSlot,
    ) -> LaneSlot {
        let Some(stream) = self.streams.held(slot) else { return LaneSlot(0) };
        let fits = |slot: &LaneSlot| {
            let lane = self.outbox.lane(*slot);
            lane.key.domain == domain && lane.priority == priority && lane.tag == tag
        };
        if let Some(lane) = stream.lanes.iter().copied().find(fits) {
            return lane;
        }
        self.open_lane(slot, domain, priority, tag, false)
    }

    pub(super) fn open_lane(
        &mut self,
        slot: StreamSlot,
        domain: Domain,
        priority: Option<u8>,
        tag: TagSlot,
        bytes: bool,
    ) -> LaneSlot {
        const IDLE_LANES: usize = 16;
        let key = self.streams.key(slot, domain);
        let lane = self.outbox.open(key, priority, tag, bytes);
        if let Some(stream) = self.streams.held_mut(slot) {
            if stream.lanes.len() >= IDLE_LANES {
                let (idle, busy): (Vec<LaneSlot>, Vec<LaneSlot>) =
                    stream.lanes.iter().partition(|slot| self.outbox.lane(**slot).is_empty());
                stream.lanes = busy;
                for lane in idle {
                    self.outbox.close(lane);
                }
            }
            stream.lanes.push(lane);
        }
        lane
    }

    /// Gives up every unresolved message of a tag and returns how many. Messages never sent are resolved at once.
    pub fn cancel(&mut self, now: Time, stream: StreamId, tag: Tag) -> usize {
        let _ = now;
        let Some(slot) = self.accounting.find_tag(stream.0, tag.0) else { return 0 };
        let places = self.accounting.take_places(slot);
        let cancelled =
            places.into_iter().filter(|place| self.drop_at(*place, slot, Outcome::Cancelled)).count();
        self.announce_room();
        cancelled
    }

    /// Replaces every unresolved message of a tag by one. It takes the place of the oldest waiting message in its lane,
    /// or else is queued again. Like [`Session::send`] it needs room in the queue, counted without the waiting messages
    /// of the tag. A message no longer than those always fits.
    ///
    /// # Errors
    /// Returns a [`SendError`], as [`Session::send`] does. Nothing is given up then.
    pub fn replace(
        &mut self,
        now: Time,
        stream: StreamId,
        tag: Tag,
        message: Outgoing,
    ) -> Result<MessageId, SendError> {
        let message = Outgoing { stream, tag: Some(tag), ..message };
        let slot = self.accepts(&message)?;
        let leaving = self.waiting_of(stream, tag);
        if !self.takes_instead(slot, &message, leaving) {
            return Err(SendError::QueueFull(Box::new(message)));
        }
        let service = message.service;
        let item = self.item(now, slot, message)?;
        let (id, tag) = (item.id, item.tag);
        let domain = self.send_domain_of(slot, service);
        let wanted = self.lane_for(slot, domain, service, item.priority, item.tag);
        let places = self.accounting.take_places(tag);
        let is_target = |place: &&MessagePlace| {
            matches!(place, MessagePlace::Pending { lane, .. } if *lane == wanted)
                && self.waiting_at(**place, tag).is_some()
        };
        let target = places.iter().find(is_target).copied();
        for place in places.into_iter().filter(|place| Some(*place) != target) {
            self.drop_at(place, tag, Outcome::Replaced);
        }
        match target {
            Some(MessagePlace::Pending { lane, seq }) => {
                self.accounting.on_queued(&item, MessagePlace::Pending { lane, seq });
                if let Some(old) = self.outbox.swap(lane, seq, item) {
                    self.accounting.on_dropped(&old, Outcome::Replaced);
                }
            }
            _ => self.enqueue(now, slot, service, item),
        }
        self.cover_buffered();
        self.announce_room();
        Ok(id)
    }

    /// Returns the messages and bytes of a tag that wait to be sent for the first time.
    fn waiting_of(&self, stream: StreamId, tag: Tag) -> (usize, u64) {
        let Some(tag) = self.accounting.find_tag(stream.0, tag.0) else { return (0, 0) };
        let waiting = self.accounting.places(tag).filter_map(|place| self.waiting_at(place, tag));
        waiting.fold((0, 0), |(messages, bytes), item| (messages + 1, bytes + u64::from(item.length)))
    }

    /// Returns the message waiting at `place` if it still belongs to the tag.
    fn waiting_at(&self, place: MessagePlace, tag: TagSlot) -> Option<&SendItem> {
        let MessagePlace::Pending { lane, seq } = place else { return None };
        self.outbox.get(lane)?.find(seq).filter(|item| item.tag == tag)
    }

    /// Gives up the message at `place` if it still belongs to the tag.
    fn drop_at(&mut self, place: MessagePlace, tag: TagSlot, why: Outcome) -> bool {
        match place {
            MessagePlace::Pending { lane, seq } => {
                self.waiting_at(place, tag).is_some() && self.drop_pending(lane, seq, why)
            }
            MessagePlace::Sent { key, number } => {
                let found = self.streams.still_sending(key).and_then(|domain| domain.get(number));
                found.is_some_and(|item| item.tag == tag) && self.give_up(key, number, why)
            }
        }
    }

    pub(super) fn drop_pending(&mut self, lane: LaneSlot, seq: u64, why: Outcome) -> bool {
        if planted(Mutant::ReplacedStillSent) && why == Outcome::Replaced {
            return true;
        }
        let Some(item) = self.outbox.kill(lane, seq) else { return false };
        self.accounting.on_dropped(&item, why);
        self.check_end(self.outbox.lane(lane).key.slot);
        true
    }

    /// Gives up a message that was sent, and queues a SKIP for the receiver.
    pub(super) fn give_up(&mut self, key: DomainKey, number: u64, why: Outcome) -> bool {
        let Some(domain) = self.streams.still_sending_mut(key) else { return false };
        if !domain.give_up(number, why) {
            return false;
        }
        let charge = domain.get(number).map_or(MESSAGE_CHARGE, SendItem::charge);
        out_blocks::push(&mut self.out_blocks.skips, key, number, 1, charge);
        if let Some(stream) = self.streams.still(key) {
            for lane in stream.lanes.clone() {
                self.outbox.forget_partial(lane, key, number);
            }
        }
        true
    }

    /// Sets a tag's limits and defaults. Messages queued before keep their priority and lifetime.
    pub fn tag_settings(
        &mut self,
        now: Time,
        stream: StreamId,
        tag: Tag,
        settings: TagSettings,
    ) -> Result<(), SendError> {
        if tag.0 > VARINT_MAX {
            return Err(SendError::TagTooLarge);
        }
        let slot =
            self.accounting.tag(stream.0, tag.0, self.config.max_tags).ok_or(SendError::TooManyTags)?;
        self.accounting.set_tag(now, slot, settings);
        self.outbox.uncap(Time::MAX, now);
        Ok(())
    }

    /// Returns the messages and bytes that wait to be sent.
    pub(crate) fn queued(&self) -> (usize, u64) {
        (self.outbox.messages(), self.outbox.bytes())
    }

    /// Returns the session's counters.
    pub fn stats(&self) -> SessionStats {
        SessionStats {
            queue_messages: self.outbox.messages(),
            queue_bytes: self.outbox.bytes(),
            outstanding: self.accounting.outstanding,
            credit_beyond_shares: self.account.reserve.used(),
            unread_streams: self.stalled(Whose::Ours),
            blocked_streams: self.stalled(Whose::Peers),
            ..self.accounting.stats
        }
    }

    /// Returns the session's sums of credit charged: what this end has used, and what the peer has used. At rest each
    /// end's first sum equals the other's second.
    pub fn credit_used(&self) -> (u64, u64) {
        (self.account.sent.used(), self.account.received.charged())
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        let event = self.accounting.pop_event()?;
        match event {
            SessionEvent::Readable => self.incoming.readable_told = false,
            SessionEvent::StreamReadable(id) => {
                if let Some(stream) = self.streams.look_mut(id) {
                    stream.readable_told = false;
                }
            }
            SessionEvent::ReaderStalled { .. } | SessionEvent::SendBlocked(_) => {
                self.account.stalls.on_taken(&event);
            }
            _ => {}
        }
        Some(event)
    }

    /// Frees memory that is kept for speed. Meant for a session that has been idle for a while.
    pub fn trim(&mut self) {
        self.incoming.spares.clear();
        for stream in self.streams.open_mut() {
            stream.content.trim();
        }
        self.arenas = crate::session::send::arena::Arenas::default();
        self.incoming.inbox.shrink();
        self.outbox.shrink();
        self.settle_held();
    }

    /// Closes the session to new messages, streams and bytes.
    pub fn begin_close(&mut self) {
        self.closing = true;
    }

    /// Returns whether no message was queued or received yet and no stream exists but stream 0.
    pub(crate) fn is_unused(&self) -> bool {
        let stats = &self.accounting.stats;
        stats.total.queued == 0 && stats.received == 0 && self.streams.slots().count() <= 1
    }

    /// Returns whether everything queued was delivered or given up.
    pub fn is_drained(&self) -> bool {
        self.has_no_messages() && self.streams.slots().all(|slot| self.is_quiet(slot))
    }

    /// Returns whether everything queued was delivered or given up, of a session that is closing.
    pub(crate) fn poll_drained(&mut self) -> bool {
        if !self.closing || !self.has_no_messages() {
            return self.is_drained();
        }
        let busy = self.streams.slots().skip(self.drained_below).find(|slot| !self.is_quiet(*slot));
        self.drained_below = busy.map_or_else(|| self.streams.slots().count(), StreamSlot::index);
        busy.is_none()
    }

    fn has_no_messages(&self) -> bool {
        self.outbox.messages() == 0 && self.accounting.outstanding == 0
    }

    fn is_quiet(&self, slot: StreamSlot) -> bool {
        let half = self.streams.if_taken(slot).and_then(|stream| stream.content.bytes_out());
        half.is_none_or(|half| half.is_quiet())
    }

    /// Ends the session. Unresolved messages get [`Outcome::Unknown`].
    pub fn end(&mut self) {
        self.closing = true;
        self.account.reserve.close();
        self.account.stalls.clear();
        for lane in self.outbox.slots() {
            self.outbox.lane_mut(lane).settle();
            for seq in self.outbox.lane(lane).seqs() {
                self.drop_pending(lane, seq, Outcome::Unknown);
            }
        }
        for slot in self.streams.slots() {
            for domain in Domain::ALL {
                let key = self.streams.key(slot, domain);
                let stream = self.streams.still_mut(key);
                if let Some(domain) = stream.and_then(|stream| stream.content.sending_mut(key.domain)) {
                    domain.settle_all(key, Outcome::Unknown, &mut self.accounting);
                }
            }
        }
        self.accounting.end();
        self.on_buffer_lighter();
    }
}

pub(super) fn is_live(
    outbox: &crate::session::send::lane::Outbox,
    streams: &crate::session::stream::Streams,
    place: &MessagePlace,
) -> bool {
    match place {
        MessagePlace::Pending { lane, seq } => {
            outbox.get(*lane).is_some_and(|lane| lane.find(*seq).is_some())
        }
        MessagePlace::Sent { key, number } => streams
            .still_sending(*key)
            .and_then(|domain| domain.get(*number))
            .is_some_and(|item| item.state != SendState::Done),
    }
}
