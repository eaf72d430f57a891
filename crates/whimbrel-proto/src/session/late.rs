//! Messages that came after their gap was passed over: the sender must not take their acknowledgement for delivery.
//!
//! So a verdict, an answer to a SKIP that was not asked for, rides before the acknowledgement in every packet that has one, until it
//! has arrived: then no acknowledgement can be there before it.

use super::Session;
use super::control;
use super::item::{PARTED, RELIABLE};
use super::message::{Carried, DomainKey, Outcome};
use super::notices_in::TOO_MUCH;
use crate::mutants::{Mutant, planted};
use crate::wire::skip::{LATE, NumberRange, RangesHead};
use crate::wire::{Writer, block, data};
use crate::{PeerMisbehaved, Time};

/// Verdicts that ride with every acknowledgement. With more at a time the oldest is forgotten: its message counts as delivered.
const MAX_VERDICTS: usize = 32;

/// What the peer says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It never got it, and will not take it any more.
    Skipped,
    /// It had come.
    Delivered,
    /// It came after it had been passed over. Nobody need have asked.
    Late,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verdict {
    key: DomainKey,
    number: u64,
    /// It came in one piece: nothing more will be heard of it. Of one in parts the sender sends a SKIP yet.
    whole: bool,
}

/// Verdicts on their way.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    list: Vec<Verdict>,
    due: bool,
}

impl Verdicts {
    /// Numbers of a domain, and whether all of the message came.
    pub(super) fn of(&self, key: DomainKey) -> Vec<(u64, bool)> {
        let of = self.list.iter().filter(|verdict| verdict.key == key);
        of.map(|verdict| (verdict.number, verdict.whole)).collect()
    }

    /// One that was on its way when the session was written down.
    pub(super) fn restore(&mut self, key: DomainKey, number: u64, whole: bool) -> bool {
        self.list.push(Verdict { key, number, whole });
        self.due = true;
        self.list.len() <= MAX_VERDICTS
    }

    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due
    }
}

impl Session {
    /// A message, or the first part of one, came too late.
    pub(super) fn on_late(&mut self, key: DomainKey, number: u64, whole: bool) -> Result<(), PeerMisbehaved> {
        self.ledger.stats.late += 1;
        if self.control.verdicts.list.len() >= MAX_VERDICTS {
            let oldest = self.control.verdicts.list.remove(0);
            self.on_verdict_over(oldest);
            if let Some(state) = self.recv_state(oldest.key.slot, oldest.key.domain).filter(|_| !oldest.whole)
            {
                state.forget(oldest.number);
            }
        }
        if !planted(Mutant::LateCountsAsDelivered) {
            self.control.verdicts.list.push(Verdict { key, number, whole });
            self.control.verdicts.due = true;
        }
        let Some(state) = self.recv_state(key.slot, key.domain) else { return Ok(()) };
        if whole {
            // Should a SKIP be on its way.
            state.skipped.insert(number, number + 1);
        }
        if state.is_bounded() { Ok(()) } else { Err(TOO_MUCH) }
    }

    fn on_verdict_over(&mut self, Verdict { key, number, whole }: Verdict) {
        let domain = self.streams.by_key_mut(key);
        let domain = domain.and_then(|stream| stream.recv.get_mut(usize::from(key.domain))?.as_deref_mut());
        if let Some(domain) = domain.filter(|_| whole) {
            domain.skipped.remove(number, number + 1);
        }
    }

    pub(super) fn on_verdict_acked(&mut self, key: DomainKey, number: u64) {
        let list = &mut self.control.verdicts.list;
        if let Some(at) = list.iter().position(|verdict| (verdict.key, verdict.number) == (key, number)) {
            let verdict = list.remove(at);
            self.on_verdict_over(verdict);
        }
    }

    pub(super) fn on_verdict_lost(&mut self, key: DomainKey, number: u64) {
        let verdicts = &mut self.control.verdicts;
        verdicts.due |= verdicts.list.iter().any(|verdict| (verdict.key, verdict.number) == (key, number));
    }

    /// Verdicts are to be written before the next acknowledgement.
    #[inline]
    pub fn has_verdicts(&self) -> bool {
        !self.control.verdicts.list.is_empty()
    }

    /// Writes them. False: not all fit, so that no acknowledgement may follow.
    pub fn fill_verdicts(&mut self, out: &mut Writer<'_>, carried: &mut Vec<Carried>) -> bool {
        self.control.verdicts.due = false;
        for Verdict { key, number, .. } in self.control.verdicts.list.iter().copied() {
            let range = NumberRange { first: number, count: 1, value: LATE };
            let Some(stream) = self.streams.by_key(key) else { continue };
            if out.remaining() < RangesHead::MAX_LEN + range.len(0, true) {
                self.control.verdicts.due = true;
                return false;
            }
            let mark = RangesHead::open(out, block::SKIP_ACK, stream.id.0, control::bits(stream, key));
            range.write(out, 0, true);
            RangesHead::close(out, mark, 1);
            carried.push(Carried::Verdict { key, number });
        }
        true
    }

    /// The peer's verdict on a message: it came too late.
    pub(super) fn on_verdict(&mut self, now: Time, key: DomainKey, number: u64) {
        let Some(domain) = self.streams.send_domain_ref(key) else { return };
        let Some(item) = domain.get(number) else { return };
        if domain.bits & data::UNSEQUENCED != 0 || item.has(RELIABLE) {
            return;
        }
        if item.has(PARTED) {
            // Some parts may not have been sent: SKIP says what they are charged.
            self.give_up(key, number, Outcome::Lost);
            return;
        }
        self.with_domain(now, key, |domain, ledger| {
            domain.on_answer(key, number, Answer::Late, ledger);
            domain.pop_done();
        });
    }
}
