//! Filling packets: lost data first, then new data, then repeats.

use super::accounting::MessagePlace;
use super::data_out::{Flow, LONGEST_RUN, SHORTEST_PART, head_of, write_bytes, write_part};
use super::lane::{Lane, LaneState};
use super::retransmit::Repeatable;
use super::send_item::{DEAD, NO_TAG, SendItem};
use crate::Time;
use crate::expected::Expected;
use crate::session::account::stalls::Whose;
use crate::session::config::MAX_REPEATABLE;
use crate::session::message::{Carried, DomainKey, Outcome};
use crate::session::numbers::{LaneSlot, TagSlot};
use crate::session::state::Session;
use crate::session::stream::WHOLE;
use crate::wire::data::{self, DataHead, Length};
use crate::wire::{Writer, varint_len};

/// The name, in assertions, of the domain that a lane's key stands for.
const DOMAIN: &str = "the domain of a lane";
/// The name, in assertions, of a message that was just looked at.
const FRONT: &str = "the front message of a lane";

impl Session {
    /// Returns whether [`Session::fill`] would send anything now, apart from repeats.
    #[inline]
    pub fn wants_to_send(&self) -> bool {
        self.outbox.has_active() || !self.retransmit.lost.is_empty() || self.has_control()
    }

    /// Returns whether anything waits for credit.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.outbox.has_blocked()
    }

    /// Returns whether blocks other than DATA wait to be sent.
    #[inline]
    pub fn has_control(&self) -> bool {
        !self.out_blocks.is_empty()
    }

    /// Returns whether unacknowledged small messages were repeated fewer than `repeats` times.
    pub fn wants_repeat(&self, repeats: u8) -> bool {
        let want = self.repeat(repeats);
        repeats > 0 && self.retransmit.repeatable.iter().any(|entry| self.repeats_any(entry, want))
    }

    /// Appends blocks to a packet until it is full or nothing is left. Records in `carried` what the packet carries,
    /// and returns whether anything was written. Nothing may be written into the packet afterwards.
    ///
    /// The order is: control blocks, lost data, new messages by priority and age, and at last small messages still
    /// unacknowledged, oldest first. The latter are repeated at most `repeats` times beyond their first transmission.
    pub fn fill(&mut self, now: Time, out: &mut Writer<'_>, carried: &mut Vec<Carried>, repeats: u8) -> bool {
        let (start, room) = (out.len(), out.remaining());
        self.retransmit.packet += 1;
        self.clock = now;
        if self.has_control() {
            self.fill_control(out, carried);
        }
        let mut flow = Flow::Go;
        if !self.retransmit.lost.is_empty() {
            flow = self.fill_lost(now, out, carried, room);
        }
        if flow == Flow::Go && self.retransmit.pressed > 0 {
            self.fill_pressed(out, carried);
        }
        if flow == Flow::Go {
            let last = repeats == 0 && self.retransmit.pressed == 0;
            flow = self.fill_new(now, out, carried, room, last);
            self.outbox.tidy();
        }
        if flow == Flow::Go && repeats > 0 {
            self.fill_repeats(out, carried, repeats);
        }
        self.announce_room();
        out.len() > start
    }

    /// Fills a packet like [`Session::fill`], but only with lost data.
    pub(crate) fn fill_again(&mut self, now: Time, out: &mut Writer<'_>, carried: &mut Vec<Carried>) {
        let room = out.remaining();
        self.retransmit.packet += 1;
        self.fill_lost(now, out, carried, room);
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
                self.serve_bytes(now, lane, out, carried)
            } else {
                self.serve_messages(now, lane, out, carried, room, last)
            };
            self.outbox.served(now, lane);
            self.close_byte_lane(lane);
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
        lane: LaneSlot,
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
            self.outbox.lane_mut(lane).settle();
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
                && let Some(until) = self.accounting.capped_until(now, tag)
            {
                if self.set_aside(now, lane, tag) {
                    continue;
                }
                self.outbox.deactivate(lane, LaneState::Capped(until));
                return Flow::Go;
            }
            let Some(stream) = self.streams.still(key) else {
                self.outbox.deactivate(lane, LaneState::Idle);
                return Flow::Go;
            };
            let domain = stream.content.sending(key.domain).expected(DOMAIN);
            let spacious = domain.is_some_and(|domain| domain.is_open());
            let credit = stream.send_credit.is_open();
            if !credit || !self.account.sent.is_open() || !spacious {
                self.outbox.deactivate(lane, LaneState::Blocked);
                self.note_blocked(now, key, credit);
                return Flow::Go;
            }
            if self.begin_messages(now, lane, key, out, carried, room, last) == Flow::Full {
                return Flow::Full;
            }
        }
    }

    /// Moves the front message, which was queued before its tag was limited, to that tag's own lane, where it holds up
    /// nothing else. Returns false, and moves nothing, if its order matters.
    fn set_aside(&mut self, now: Time, lane: LaneSlot, tag: TagSlot) -> bool {
        let Lane { key, priority, tag: of, .. } = *self.outbox.lane(lane);
        if priority.is_none() || of == tag {
            return false;
        }
        let own = self.lane_with(key.slot, key.domain, priority, tag);
        let Some(item) = self.outbox.pop(lane).expected(FRONT) else { return false };
        let place = MessagePlace::Pending { lane: own, seq: self.outbox.next_seq(own) };
        self.accounting.on_moved(&item, place);
        self.outbox.push(now, own, item);
        true
    }

    fn drop_front(&mut self, lane: LaneSlot) {
        if let Some(item) = self.outbox.pop(lane).expected(FRONT)
            && !item.has(DEAD)
        {
            self.accounting.on_dropped(&item, Outcome::Expired);
            self.check_end(self.outbox.lane(lane).key.slot);
        }
    }

    /// Sends the front message for the first time: in a run with those behind it, alone, or its first part.
    #[allow(clippy::too_many_arguments, reason = "the innermost step of one loop, split for reading")]
    fn begin_messages(
        &mut self,
        now: Time,
        lane_slot: LaneSlot,
        key: DomainKey,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
        room: usize,
        last: bool,
    ) -> Flow {
        let alone = self.outbox.messages() == 1 && last;
        let Some(stream) = self.streams.still_mut(key) else { return Flow::Go };
        let Some(domain) = stream.content.sending_mut(key.domain).expected(DOMAIN) else { return Flow::Go };
        let lane = self.outbox.lane(lane_slot);
        let Some(front) = lane.front().expected(FRONT) else { return Flow::Go };
        let number = domain.next();
        let head = head_of(domain, &self.accounting, stream.id.0, number, front, 0);
        let head_len = DataHead { message_length: None, ..head }.len();
        let length = front.first_length();
        let left = out.remaining();
        let capped = front.tag != NO_TAG && self.accounting.is_capped(front.tag);

        if head_len + length > left {
            if head_len + 8 + length <= room || left < head_len + 8 + SHORTEST_PART {
                return Flow::Full;
            }
            let share = front.first_share();
            let Some(item) = self.outbox.take(lane_slot, share).expected(FRONT) else { return Flow::Go };
            self.account.sent.charge(item.charge());
            stream.send_credit.charge(item.charge());
            self.accounting.on_begun(&item, key, number);
            domain.begin(item);
            domain.split(number);
            self.outbox.lane_mut(lane_slot).partial = Some(number);
            return Flow::Go;
        }

        let run_len = head_len + 2 + varint_len(length as u64) + length;
        let follows = |item: &SendItem, front: &SendItem| {
            !item.has(DEAD) && item.runs_with(front) && item.expires > now
        };
        let next = front.second_length().or_else(|| {
            let next = lane.second().filter(|next| follows(next, front))?;
            Some(next.first_length())
        });
        let pair = next.is_some_and(|next| {
            let pair_len = run_len + varint_len(next as u64) + next;
            pair_len <= left && pair_len < LONGEST_RUN
        });
        if !pair || capped {
            let to_end = alone || head_len + length + varint_len(length as u64) >= left;
            let bounded = if to_end { Length::ToEnd } else { Length::Bytes(length) };
            let share = front.first_share();
            let Some(mut item) = self.outbox.take(lane_slot, share).expected(FRONT) else { return Flow::Go };
            DataHead { flags: head.flags | data::END, message_length: None, ..head }.write(out, bounded);
            out.bytes(&item.payload);
            item.copies = 1;
            self.account.sent.charge(item.charge());
            stream.send_credit.charge(item.charge());
            self.accounting.on_begun(&item, key, number);
            let mortal = item.expires != Time::MAX;
            self.retransmit.special |= mortal || item.priority >= self.config.urgent_priority;
            domain.begin(item);
            carried.push(Carried::Run { key, first: number, count: 1 });
            self.note_repeatable(key, number, 1, length, mortal);
            return if to_end { Flow::Full } else { Flow::Go };
        }

        DataHead { flags: head.flags | data::END | data::MANY, message_length: None, ..head }
            .write(out, Length::Reserved);
        let mark = out.len();
        let (first, mut mortal) = (front.kind(), false);
        let most = domain.room().min(u32::from(u16::MAX));
        let mut count = 0;
        while let Some(item) = self.outbox.lane(lane_slot).front() {
            let goes = count == 0 || (!item.has(DEAD) && item.kind() == first && item.expires > now);
            let room = out.remaining().min(LONGEST_RUN - (out.len() - mark));
            let (session, stream) = (&mut self.account.sent, &mut stream.send_credit);
            let share =
                item.share(room, most - count, |before| session.admits(before) && stream.admits(before));
            if !goes || share.count == 0 {
                break;
            }
            item.write(share, out);
            let Some(mut item) = self.outbox.take(lane_slot, share).expected(FRONT) else { break };
            item.copies = 1;
            session.charge(item.charge());
            stream.charge(item.charge());
            self.accounting.on_begun(&item, key, domain.next());
            mortal |= item.expires != Time::MAX;
            self.retransmit.special |= mortal || item.priority >= self.config.urgent_priority;
            domain.begin(item);
            count += share.count;
        }
        let count = count as u16;
        let payload = out.len() - mark;
        out.patch_varint2(mark - 2, payload);
        carried.push(Carried::Run { key, first: number, count });
        self.note_repeatable(key, number, count, length, mortal);
        Flow::Go
    }

    /// Remembers messages that may be repeated: small ones, and those with a lifetime. The latter may turn out too late
    /// for a retransmission, so they are repeated however long they are.
    fn note_repeatable(&mut self, key: DomainKey, first: u64, count: u16, length: usize, mortal: bool) {
        if length <= self.config.small_message || mortal {
            if self.retransmit.repeatable.len() >= MAX_REPEATABLE {
                self.retransmit.repeatable.pop_front();
            }
            let packet = self.retransmit.packet;
            self.retransmit.repeatable.push_back(Repeatable { key, first, count, packet });
        }
    }

    /// Sends the next part of a message that was begun.
    fn continue_message(
        &mut self,
        lane: LaneSlot,
        number: u64,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> Flow {
        let key = self.outbox.lane(lane).key;
        let Some(stream) = self.streams.still_mut(key) else {
            self.outbox.lane_mut(lane).partial = None;
            return Flow::Go;
        };
        let id = stream.id.0;
        let domain = stream.content.sending_mut(key.domain).expected(DOMAIN);
        // The message may have been given up since it was begun.
        let sent = domain.and_then(|domain| {
            let offset = domain.parts_mut(number)?.sent();
            let length = domain.get(number).filter(|item| item.is_live()).map_or(0, |item| item.length);
            (offset < u64::from(length)).then_some((domain, offset, length))
        });
        let Some((domain, offset, length)) = sent else {
            self.outbox.lane_mut(lane).partial = None;
            return Flow::Go;
        };
        let Some(item) = domain.get(number).expected("a message in parts") else { return Flow::Go };
        let head = head_of(domain, &self.accounting, id, number, item, offset);
        let (expires, priority) = (item.expires, item.priority);
        let rest = &item.payload[offset as usize..];
        let (taken, flow) = write_part(head, rest, rest.len(), length, out);
        if taken == 0 {
            return Flow::Full;
        }
        if let Some(parts) = domain.parts_mut(number).expected("the list of a message's parts") {
            parts.on_sent(u32::from(taken));
        }
        carried.push(Carried::Fragment { key, number, offset, len: taken });
        if expires != Time::MAX {
            let urgent = priority >= self.config.urgent_priority;
            let before = self.retransmit.expiring_parts.unwrap_or((Time::MAX, false));
            self.retransmit.expiring_parts = Some((before.0.min(expires), before.1 | urgent));
        }
        if offset + u64::from(taken) == u64::from(length) {
            self.outbox.lane_mut(lane).partial = None;
        }
        flow
    }

    /// Notes a stall if a lane is blocked for lack of stream credit.
    fn note_blocked(&mut self, now: Time, key: DomainKey, has_credit: bool) {
        if !has_credit {
            self.account.stalls.begin(now, DomainKey { domain: WHOLE, ..key }, Whose::Peers);
        }
    }

    fn serve_bytes(
        &mut self,
        now: Time,
        lane: LaneSlot,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> Flow {
        let key = self.outbox.lane(lane).key;
        while let Some(stream) = self.streams.still_mut(key) {
            let Some(half) = stream.content.bytes_out_mut().expected("a byte stream") else { break };
            let unsent = half.unsent();
            if unsent == 0 && !half.fin_due() {
                break;
            }
            let credit = stream.send_credit.room();
            let allowed = unsent.min(self.account.sent.room()).min(credit);
            if unsent > 0 && allowed == 0 {
                self.outbox.deactivate(lane, LaneState::Blocked);
                self.note_blocked(now, key, credit > 0);
                return Flow::Go;
            }
            let offset = half.sent();
            let Some((taken, flow)) = write_bytes(half, stream.id.0, offset, allowed, out) else {
                return Flow::Full;
            };
            if taken > 0 {
                half.on_sent(u32::from(taken));
            }
            self.account.sent.charge(u64::from(taken));
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

    /// Closes the lane of a byte stream that has nothing to send. Most byte streams have nothing most of the time.
    fn close_byte_lane(&mut self, lane: LaneSlot) {
        let Lane { key, bytes: true, state: LaneState::Idle, .. } = *self.outbox.lane(lane) else { return };
        self.outbox.close(lane);
        if let Some(stream) = self.streams.still_mut(key) {
            stream.lanes = Vec::new();
        }
    }
}
