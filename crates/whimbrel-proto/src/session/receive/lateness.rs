//! Handling of messages that arrived too late, at both ends.

use std::ops::Range;

use super::late::LateVerdict;
use super::notices_in::TOO_MUCH;
use crate::mutants::{Mutant, planted};
use crate::session::message::{Carried, DomainKey, Outcome};
use crate::session::send::out_blocks;
use crate::session::send::send_item::{PARTED, RELIABLE};
use crate::session::state::Session;
use crate::wire::skip::{LATE, NumberRange, RangesHead};
use crate::wire::{Writer, block, data};
use crate::{PeerMisbehaved, Time};

impl Session {
    /// Handles a message, or the first part of one, that arrived too late.
    pub(in crate::session) fn on_late(
        &mut self,
        key: DomainKey,
        number: u64,
        whole: bool,
    ) -> Result<(), PeerMisbehaved> {
        self.accounting.stats.late += 1;
        let unsaid = planted(Mutant::LateCountsAsDelivered);
        let forgotten = if unsaid { None } else { self.out_blocks.verdicts.add(key, number, whole) };
        if let Some(oldest) = forgotten {
            self.on_verdict_over(&oldest);
            // The stream may be over, and another in its slot.
            let state = self.streams.still_receiving_mut(oldest.key);
            if let Some(state) = state.filter(|_| !oldest.whole) {
                oldest.numbers.for_each(|number| state.forget(number));
            }
        }
        let Some(state) = self.recv_state(key.slot, key.domain) else { return Ok(()) };
        if whole {
            // A SKIP for it may be on its way.
            state.skipped.insert(number, number + 1);
        }
        if state.is_bounded() { Ok(()) } else { Err(TOO_MUCH) }
    }

    fn on_verdict_over(&mut self, LateVerdict { key, numbers, whole }: &LateVerdict) {
        if let Some(domain) = self.streams.still_receiving_mut(*key).filter(|_| *whole) {
            domain.skipped.remove(numbers.start, numbers.end);
        }
    }

    pub(in crate::session) fn on_verdict_acked(&mut self, key: DomainKey, numbers: &Range<u64>) {
        for verdict in self.out_blocks.verdicts.take(key, numbers) {
            self.on_verdict_over(&verdict);
        }
    }

    pub(in crate::session) fn on_verdict_lost(&mut self, key: DomainKey, numbers: &Range<u64>) {
        let verdicts = &mut self.out_blocks.verdicts;
        verdicts.due |= verdicts
            .list
            .iter()
            .any(|verdict| verdict.key == key && numbers.contains(&verdict.numbers.start));
    }

    /// Returns whether verdicts have to be written before the next acknowledgement.
    #[inline]
    pub fn has_verdicts(&self) -> bool {
        !self.out_blocks.verdicts.list.is_empty()
    }

    /// Writes the verdicts. Returns false if not all fit, so that no acknowledgement may follow.
    pub fn fill_verdicts(&mut self, out: &mut Writer<'_>, carried: &mut Vec<Carried>) -> bool {
        self.out_blocks.verdicts.due = false;
        for LateVerdict { key, numbers, .. } in &self.out_blocks.verdicts.list {
            let (first, count) = (numbers.start, numbers.end - numbers.start);
            let range = NumberRange { first, count, value: LATE };
            let Some(stream) = self.streams.still(*key) else { continue };
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

    /// Handles the peer's verdict that messages arrived too late.
    pub(in crate::session) fn on_verdict(&mut self, now: Time, key: DomainKey, numbers: &Range<u64>) {
        let Some(domain) = self.streams.still_sending(key) else { return };
        if domain.bits & data::UNSEQUENCED != 0 {
            return;
        }
        let parted = domain.items_of(numbers.clone()).filter(|item| item.has(PARTED) && !item.has(RELIABLE));
        for number in parted.map(|item| item.first).collect::<Vec<_>>() {
            // Some parts may not have been sent, so SKIP tells the message's full charge.
            self.give_up(key, number, Outcome::Lost);
        }
        self.with_domain(now, key, |domain, accounting| {
            domain.on_late(key, numbers, accounting);
            domain.pop_done();
        });
    }
}
