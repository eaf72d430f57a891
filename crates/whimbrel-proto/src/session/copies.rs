//! Copies sent on purpose, on another path or in a packet that follows, before anything says that the first was lost.

use std::time::Duration;

use super::Session;
use super::again::Want;
use super::data_out::{Flow, head_of, write_bytes, write_part};
use super::item::PRESSED;
use super::message::Carried;
use super::resend::Resend;
use crate::Time;
use crate::wire::Writer;

/// Runs remembered to see whether their copies were of use.
const MOST_PRESSED: usize = 64;

/// What of a packet goes a second time on another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Everything.
    All,
    /// Urgent messages, and those that could not be sent again in time.
    Pressing,
}

impl Session {
    /// Since the last call messages were begun that are urgent or have a lifetime.
    pub(crate) fn take_special(&mut self) -> bool {
        std::mem::take(&mut self.again.special)
    }

    /// Marks messages of `carried` that could not be sent again in time if they were lost, since that takes `recovery`, for `repeats` more
    /// copies in packets that follow. Urgent ones always; others while `afford` takes the bytes that a copy costs. Returns messages and
    /// bytes marked.
    pub(crate) fn press(
        &mut self,
        now: Time,
        carried: &Carried,
        recovery: Duration,
        repeats: u8,
        mut afford: impl FnMut(u64) -> bool,
    ) -> (u64, u64) {
        let Carried::Run { key, first, count } = *carried else { return (0, 0) };
        let (urgent, mut messages, mut bytes) = (self.config.urgent_priority, 0, 0);
        let Some(domain) = self.streams.send_domain(key) else { return (0, 0) };
        let mut number = first;
        while number < first + u64::from(count)
            && let Some(item) = domain.get_mut(number)
        {
            number = item.end();
            let late = item.expires != Time::MAX && item.expires.since(now) < recovery;
            let cost = u64::from(item.length) * u64::from(repeats);
            if late && !item.has(PRESSED) && (item.priority >= urgent || afford(cost)) {
                item.flags |= PRESSED;
                messages += 1;
                bytes += cost;
            }
        }
        if messages > 0 {
            self.again.pressed = repeats;
            if self.again.pressed_runs.len() == MOST_PRESSED {
                self.again.pressed_runs.pop_front();
            }
            self.again.pressed_runs.push_back(*carried);
        }
        (messages, bytes)
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
        self.again.saved
    }

    /// The packet with this run was lost.
    pub(super) fn count_saved(&mut self, carried: &Carried) {
        let Carried::Run { key, first, count } = *carried else { return };
        let Some(at) = self.again.pressed_runs.iter().position(|run| run == carried) else { return };
        self.again.pressed_runs.remove(at);
        let domain = self.streams.send_domain_ref(key);
        let mut items =
            domain.into_iter().flat_map(|domain| domain.items_of(first..first + u64::from(count)));
        if !items.any(|item| item.is_live()) {
            self.again.saved += u64::from(count);
        }
    }

    /// Writes a copy of what `of` says and is not acknowledged; false if it did not fit.
    pub(crate) fn fill_copy(
        &mut self,
        of: &Carried,
        copied: Copied,
        out: &mut Writer<'_>,
        carried: &mut Vec<Carried>,
    ) -> bool {
        match *of {
            Carried::Run { key, first, count } => {
                let Some(stream) = self.streams.by_key(key).map(|stream| stream.id.0) else { return true };
                let want = Want::Copy { copied, urgent: self.config.urgent_priority };
                let Some(domain) = self.streams.send_domain(key) else { return true };
                let mut again = Resend { domain, ledger: &self.ledger, stream, key, want };
                let end = first + u64::from(count);
                let (next, flow) = again.write(first..end, out, carried);
                flow == Flow::Go || next >= end
            }
            Carried::Fragment { key, number, offset, len } if copied == Copied::All => {
                let Some(stream) = self.streams.by_key(key).map(|stream| stream.id.0) else { return true };
                let Some(domain) = self.streams.send_domain(key) else { return true };
                let Some(item) = domain.get(number).filter(|item| item.is_live()) else { return true };
                let head = head_of(domain, &self.ledger, stream, number, item, offset);
                let Some(rest) = item.payload.get(offset as usize..) else { return true };
                if head.len() + usize::from(len) > out.remaining() {
                    return false;
                }
                let (taken, _) = write_part(head, rest, usize::from(len), item.length, out);
                carried.push(Carried::Fragment { key, number, offset, len: taken });
                taken == len
            }
            Carried::Bytes { key, offset, len, .. } if copied == Copied::All => {
                let Some(stream) = self.streams.by_key(key) else { return true };
                let Some(half) = stream.bytes_out.as_ref().filter(|half| !half.is_reset()) else {
                    return true;
                };
                if offset < half.parts.acked() || len == 0 {
                    return true;
                }
                let Some((taken, _)) = write_bytes(half, stream.id.0, offset, u64::from(len), out) else {
                    return false;
                };
                carried.push(Carried::Bytes { key, offset, len: taken, fin: false });
                taken == len
            }
            _ => true,
        }
    }
}
