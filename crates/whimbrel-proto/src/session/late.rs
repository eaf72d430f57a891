//! Messages that came after their gap was passed over: the sender must not take their acknowledgement for delivery.
//!
//! So a verdict, an answer to a SKIP that was not asked for, rides before the acknowledgement in every packet that has one, until it
//! has arrived: then no acknowledgement can be there before it.

use std::ops::Range;

use super::Session;
use super::message::{Carried, DomainKey, Outcome};
use super::notices_in::TOO_MUCH;
use super::out_blocks;
use super::send_item::{PARTED, RELIABLE};
use crate::mutants::{Mutant, planted};
use crate::wire::skip::{LATE, NumberRange, RangesHead};
use crate::wire::{Writer, block, data};
use crate::{PeerMisbehaved, Time};

/// Verdicts that ride with every acknowledgement, all in one packet. With more at a time the oldest is forgotten: its messages count as
/// delivered.
const MAX_VERDICTS: usize = 64;

/// Messages that one verdict is on: the sender looks at each.
pub(super) const MAX_TOGETHER: u64 = 256;

/// What the peer says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It never got it, and will not take it any more.
    Skipped,
    /// It had come.
    Delivered,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LateVerdict {
    key: DomainKey,
    numbers: Range<u64>,
    /// They came in one piece each: nothing more will be heard of them. Of those in parts the sender sends SKIPs yet.
    whole: bool,
}

impl LateVerdict {
    /// Takes in the number after the last. Messages that travel together are late together.
    fn extend(&mut self, key: DomainKey, number: u64, whole: bool) -> bool {
        let room = self.numbers.end - self.numbers.start < MAX_TOGETHER;
        let next = (self.key, self.numbers.end, self.whole) == (key, number, whole) && room;
        self.numbers.end += u64::from(next);
        next
    }
}

/// Verdicts on their way.
#[derive(Debug, Default)]
pub(super) struct LateVerdicts {
    list: Vec<LateVerdict>,
    due: bool,
}

impl LateVerdicts {
    /// Numbers of a domain, and whether all of the message came.
    pub(super) fn of(&self, key: DomainKey) -> Vec<(u64, bool)> {
        let of = self.list.iter().filter(|verdict| verdict.key == key);
        of.flat_map(|verdict| verdict.numbers.clone().map(|number| (number, verdict.whole))).collect()
    }

    /// One that was on its way when the session was written down.
    pub(super) fn restore(&mut self, key: DomainKey, number: u64, whole: bool) -> bool {
        self.add(key, number, whole).is_none()
    }

    /// One more; the oldest if there is no room for both.
    fn add(&mut self, key: DomainKey, number: u64, whole: bool) -> Option<LateVerdict> {
        self.due = true;
        if self.list.iter_mut().any(|verdict| verdict.extend(key, number, whole)) {
            return None;
        }
        let forgotten = (self.list.len() >= MAX_VERDICTS).then(|| self.list.remove(0));
        self.list.push(LateVerdict { key, numbers: number..number + 1, whole });
        forgotten
    }

    /// Takes out what is over of these numbers.
    fn take(&mut self, key: DomainKey, numbers: &Range<u64>) -> Vec<LateVerdict> {
        let mut taken = Vec::new();
        for verdict in self.list.iter_mut().filter(|verdict| verdict.key == key) {
            let of = &mut verdict.numbers;
            // It was written whole, and can only have grown at its end since.
            if of.start >= numbers.start && of.start < numbers.end {
                let end = of.end.min(numbers.end);
                taken.push(LateVerdict { key, numbers: of.start..end, whole: verdict.whole });
                of.start = end;
            }
        }
        self.list.retain(|verdict| !verdict.numbers.is_empty());
        taken
    }

    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }
}

impl Session {
    /// A message, or the first part of one, came too late.
    pub(super) fn on_late(&mut self, key: DomainKey, number: u64, whole: bool) -> Result<(), PeerMisbehaved> {
        self.accounting.stats.late += 1;
        let unsaid = planted(Mutant::LateCountsAsDelivered);
        let forgotten = if unsaid { None } else { self.out_blocks.verdicts.add(key, number, whole) };
        if let Some(oldest) = forgotten {
            self.on_verdict_over(&oldest);
            if let Some(state) = self.recv_state(oldest.key.slot, oldest.key.domain).filter(|_| !oldest.whole)
            {
                oldest.numbers.for_each(|number| state.forget(number));
            }
        }
        let Some(state) = self.recv_state(key.slot, key.domain) else { return Ok(()) };
        if whole {
            // Should a SKIP be on its way.
            state.skipped.insert(number, number + 1);
        }
        if state.is_bounded() { Ok(()) } else { Err(TOO_MUCH) }
    }

    fn on_verdict_over(&mut self, LateVerdict { key, numbers, whole }: &LateVerdict) {
        let domain = self.streams.by_key_mut(*key);
        let domain = domain.and_then(|stream| stream.recv.get_mut(usize::from(key.domain))?.as_deref_mut());
        if let Some(domain) = domain.filter(|_| *whole) {
            domain.skipped.remove(numbers.start, numbers.end);
        }
    }

    pub(super) fn on_verdict_acked(&mut self, key: DomainKey, numbers: &Range<u64>) {
        for verdict in self.out_blocks.verdicts.take(key, numbers) {
            self.on_verdict_over(&verdict);
        }
    }

    pub(super) fn on_verdict_lost(&mut self, key: DomainKey, numbers: &Range<u64>) {
        let verdicts = &mut self.out_blocks.verdicts;
        verdicts.due |= verdicts
            .list
            .iter()
            .any(|verdict| verdict.key == key && numbers.contains(&verdict.numbers.start));
    }

    /// Verdicts are to be written before the next acknowledgement.
    #[inline]
    pub fn has_verdicts(&self) -> bool {
        !self.out_blocks.verdicts.list.is_empty()
    }

    /// Writes them. False: not all fit, so that no acknowledgement may follow.
    pub fn fill_verdicts(&mut self, out: &mut Writer<'_>, carried: &mut Vec<Carried>) -> bool {
        self.out_blocks.verdicts.due = false;
        for LateVerdict { key, numbers, .. } in &self.out_blocks.verdicts.list {
            let (first, count) = (numbers.start, numbers.end - numbers.start);
            let range = NumberRange { first, count, value: LATE };
            let Some(stream) = self.streams.by_key(*key) else { continue };
            if out.remaining() < RangesHead::MAX_LEN + range.len(0, true) {
                self.out_blocks.verdicts.due = true;
                return false;
            }
            let mark = RangesHead::open(out, block::SKIP_ACK, stream.id.0, out_blocks::bits(stream, *key));
            range.write(out, 0, true);
            RangesHead::close(out, mark, 1);
            carried.push(Carried::Verdict { key: *key, first, count: count as u16 });
        }
        true
    }

    /// The peer's verdict on messages: they came too late.
    pub(super) fn on_verdict(&mut self, now: Time, key: DomainKey, numbers: &Range<u64>) {
        let Some(domain) = self.streams.send_domain_ref(key) else { return };
        if domain.bits & data::UNSEQUENCED != 0 {
            return;
        }
        let parted = domain.items_of(numbers.clone()).filter(|item| item.has(PARTED) && !item.has(RELIABLE));
        for number in parted.map(|item| item.first).collect::<Vec<_>>() {
            // Some parts may not have been sent: SKIP says what they are charged.
            self.give_up(key, number, Outcome::Lost);
        }
        self.with_domain(now, key, |domain, accounting| {
            domain.on_late(key, numbers, accounting);
            domain.pop_done();
        });
    }
}
