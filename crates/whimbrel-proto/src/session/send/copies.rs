//! Copies sent on purpose, on another path or in a following packet, before there is any sign that the first was lost.

use std::time::Duration;

use super::copied::{Copied, Copies, Pressed};
use super::data_out::{Flow, bytes_head, head_of, write_bytes, write_part};
use super::resend::Resend;
use super::retransmit::Want;
use super::send_item::PRESSED;
use crate::Time;
use crate::expected::Expected;
use crate::session::message::Carried;
use crate::session::state::Session;
use crate::wire::Writer;
use crate::wire::data::DataHead;

/// Most runs remembered, to find out whether their copies were useful.
const MOST_PRESSED: usize = 64;

impl Session {
    /// Returns whether messages that are urgent or have a lifetime were begun since the last call.
    pub(crate) fn take_special(&mut self) -> bool {
        std::mem::take(&mut self.retransmit.special)
    }

    /// Takes the first end of a lifetime of the messages whose parts were sent since the last call, and whether one of
    /// them is urgent.
    pub(crate) fn take_expiring_parts(&mut self) -> Option<(Time, bool)> {
        self.retransmit.expiring_parts.take()
    }

    /// Marks messages of `carried` for copies if a retransmission, which takes `recovery`, would come too late for
    /// their lifetime. Of these, urgent messages are always marked, others while `afford` accepts the bytes that their
    /// copies cost. Messages in parts are not marked: one that fills packets would use a whole budget.
    pub(crate) fn press(
        &mut self,
        now: Time,
        carried: &Carried,
        recovery: Duration,
        copies: Copies,
        mut afford: impl FnMut(u64) -> bool,
    ) -> Pressed {
        let mut pressed = Pressed::default();
        let Carried::Run { key, first, count } = *carried else { return pressed };
        let Some(domain) = self.streams.still_sending_mut(key) else { return pressed };
        let (count_each, following) = match copies {
            Copies::Elsewhere => (1, 0),
            Copies::Following(count) => (count, count),
        };
        let mut number = first;
        while number < first + u64::from(count)
            && let Some(item) = domain.get_mut(number)
        {
            number = item.end();
            let late = item.expires != Time::MAX && item.expires.since(now) < recovery;
            let cost = u64::from(item.length) * u64::from(count_each);
            let urgent = item.priority >= self.config.urgent_priority;
            if late && !item.has(PRESSED) && (urgent || afford(cost)) {
                item.flags |= PRESSED;
                pressed.messages += 1;
                pressed.bytes += cost;
                pressed.exempt += if urgent { cost } else { 0 };
            }
        }
        if pressed.messages > 0 {
            // Others may still wait for copies in following packets. A copy on another path needs none there.
            self.retransmit.pressed = self.retransmit.pressed.max(following);
            if self.retransmit.pressed_runs.len() == MOST_PRESSED {
                self.retransmit.pressed_runs.pop_front();
            }
            self.retransmit.pressed_runs.push_back(*carried);
        }
        pressed
    }

    /// Returns whether anything in `carried` should also go on another path.
    pub(crate) fn is_pressing(&self, carried: &Carried) -> bool {
        let Carried::Run { key, first, count } = *carried else { return false };
        let want = Want::Copy { copied: Copied::Pressing, urgent: self.config.urgent_priority };
        self.streams.still_sending(key).is_some_and(|domain| {
            domain.items_of(first..first + u64::from(count)).any(|item| want.takes(item))
        })
    }

    /// Returns how many messages a copy had delivered by the time their first packet was lost.
    pub(crate) fn saved(&self) -> u64 {
        self.retransmit.saved
    }

    /// Counts messages saved by a copy, when the packet with their run was lost.
    pub(in crate::session) fn count_saved(&mut self, carried: &Carried) {
        let Carried::Run { key, first, count } = *carried else { return };
        let Some(at) = self.retransmit.pressed_runs.iter().position(|run| run == carried) else { return };
        self.retransmit.pressed_runs.remove(at);
        let domain = self.streams.still_sending(key);
        let mut items =
            domain.into_iter().flat_map(|domain| domain.items_of(first..first + u64::from(count)));
        if !items.any(|item| item.is_live()) {
            self.retransmit.saved += u64::from(count);
        }
    }

    /// Writes a copy of what `of` names and is not acknowledged. Returns what is left of it, and whether the packet is
    /// full. Anything that would not fit into a packet with `most` bytes of room is not copied. A part is copied whole
    /// or not at all, because its acknowledgement counts for the whole part.
    pub(crate) fn fill_copy(
        &mut self,
        of: &Carried,
        copied: Copied,
        most: usize,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> (Option<Carried>, Flow) {
        let gone = (None, Flow::Go);
        let unfit = (Some(*of), Flow::Full);
        match *of {
            Carried::Run { key, first, count } => {
                let Some(stream) = self.streams.still(key).map(|stream| stream.id.0) else { return gone };
                let want = Want::Copy { copied, urgent: self.config.urgent_priority };
                let Some(domain) = self.streams.still_sending_mut(key) else { return gone };
                let mut again = Resend { domain, accounting: &self.accounting, stream, key, want };
                let end = first + u64::from(count);
                let (mut next, flow) = again.write(first..end, out, carried);
                if let Some(item) = domain.get(next).filter(|_| next < end) {
                    let head = head_of(domain, &self.accounting, stream, next, item, 0);
                    let head = DataHead { message_length: None, ..head };
                    next += u64::from(head.len() + item.first_share().length as usize > most);
                }
                let left = end.saturating_sub(next) as u16;
                ((left > 0).then_some(Carried::Run { key, first: next, count: left }), flow)
            }
            Carried::Fragment { key, number, offset, len } if copied == Copied::All => {
                let Some(stream) = self.streams.still(key).map(|stream| stream.id.0) else { return gone };
                let Some(domain) = self.streams.still_sending_mut(key) else { return gone };
                let Some(item) = domain.get(number).filter(|item| item.is_live()) else { return gone };
                let head = head_of(domain, &self.accounting, stream, number, item, offset);
                let Some(rest) = item.payload.get(offset as usize..) else { return gone };
                let length = head.len() + usize::from(len);
                if length > most {
                    return gone;
                }
                if length > out.remaining() {
                    return unfit;
                }
                let (taken, flow) = write_part(head, rest, usize::from(len), item.length, out);
                if taken == 0 {
                    return unfit;
                }
                carried.push(Carried::Fragment { key, number, offset, len: taken });
                (None, flow)
            }
            Carried::Bytes { key, offset, len, .. } if copied == Copied::All => {
                let Some(stream) = self.streams.still(key) else { return gone };
                let half = stream.content.bytes_out().expected("a byte stream");
                let Some(half) = half.filter(|half| !half.is_reset()) else {
                    return gone;
                };
                let length = bytes_head(half, stream.id.0, offset).len() + usize::from(len) + 1;
                if offset < half.acked() || len == 0 || length > most {
                    return gone;
                }
                if length > out.remaining() {
                    return unfit;
                }
                let Some((taken, flow)) = write_bytes(half, stream.id.0, offset, u64::from(len), out) else {
                    return unfit;
                };
                carried.push(Carried::Bytes { key, offset, len: taken, fin: false });
                (None, flow)
            }
            _ => gone,
        }
    }
}
