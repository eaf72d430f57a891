//! Copies sent on purpose, on another path or in a packet that follows, before anything says that the first was lost.

use std::time::Duration;

use super::copied::{Copied, Copies, Pressed};
use super::data_out::{Flow, bytes_head, head_of, write_bytes, write_part};
use super::resend::Resend;
use super::retransmit::Want;
use super::send_item::PRESSED;
use crate::Time;
use crate::session::message::Carried;
use crate::session::state::Session;
use crate::wire::Writer;
use crate::wire::data::DataHead;

/// Runs remembered to see whether their copies were of use.
const MOST_PRESSED: usize = 64;

impl Session {
    /// Since the last call messages were begun that are urgent or have a lifetime.
    pub(crate) fn take_special(&mut self) -> bool {
        std::mem::take(&mut self.retransmit.special)
    }

    /// Marks messages of `carried` that could not be sent again in time if they were lost, since that takes `recovery`, for more
    /// copies. Urgent ones always; others while `afford` takes the bytes that a copy costs. Those in parts are not
    /// marked: one that fills packets would take a budget for itself.
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
        let Some(domain) = self.streams.send_domain(key) else { return pressed };
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
            // Others may wait for copies behind the first still; what goes elsewhere now needs none there.
            self.retransmit.pressed = self.retransmit.pressed.max(following);
            if self.retransmit.pressed_runs.len() == MOST_PRESSED {
                self.retransmit.pressed_runs.pop_front();
            }
            self.retransmit.pressed_runs.push_back(*carried);
        }
        pressed
    }

    /// Something of `carried` should go on another path too.
    pub(crate) fn is_pressing(&self, carried: &Carried) -> bool {
        let Carried::Run { key, first, count } = *carried else { return false };
        let want = Want::Copy { copied: Copied::Pressing, urgent: self.config.urgent_priority };
        self.streams.send_domain_ref(key).is_some_and(|domain| {
            domain.items_of(first..first + u64::from(count)).any(|item| want.takes(item))
        })
    }

    /// Messages whose first packet was lost and that a copy had brought by then.
    pub(crate) fn saved(&self) -> u64 {
        self.retransmit.saved
    }

    /// The packet with this run was lost.
    pub(in crate::session) fn count_saved(&mut self, carried: &Carried) {
        let Carried::Run { key, first, count } = *carried else { return };
        let Some(at) = self.retransmit.pressed_runs.iter().position(|run| run == carried) else { return };
        self.retransmit.pressed_runs.remove(at);
        let domain = self.streams.send_domain_ref(key);
        let mut items =
            domain.into_iter().flat_map(|domain| domain.items_of(first..first + u64::from(count)));
        if !items.any(|item| item.is_live()) {
            self.retransmit.saved += u64::from(count);
        }
    }

    /// Writes a copy of what `of` says and is not acknowledged; what is left of it, and whether the packet is full. What would not fit into a
    /// packet with `most` bytes of room is not copied. Of parts there is no part: what is acknowledged of it would count for the whole.
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
                let Some(stream) = self.streams.by_key(key).map(|stream| stream.id.0) else { return gone };
                let want = Want::Copy { copied, urgent: self.config.urgent_priority };
                let Some(domain) = self.streams.send_domain(key) else { return gone };
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
                let Some(stream) = self.streams.by_key(key).map(|stream| stream.id.0) else { return gone };
                let Some(domain) = self.streams.send_domain(key) else { return gone };
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
                let Some(stream) = self.streams.by_key(key) else { return gone };
                let Some(half) = stream.bytes_out.as_ref().filter(|half| !half.is_reset()) else {
                    return gone;
                };
                let length = bytes_head(half, stream.id.0, offset).len() + usize::from(len) + 1;
                if offset < half.parts.acked() || len == 0 || length > most {
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
