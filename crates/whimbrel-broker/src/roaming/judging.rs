//! Whether a subscription gets a message.

use super::reader::Reader;
use super::verdict::Verdict;
use super::wish::{Recover, Slow};
use crate::Time;
use crate::buffer::{Channel, Newness, Reach, Slot};
use crate::mutants::{Mutant, planted};

impl Reader {
    #[inline]
    pub(super) fn judge(&self, channel: &Channel, slot: &Slot, recovered: bool, now: Time) -> Verdict {
        if slot.is_expired(now) && !planted(Mutant::ExpiredDelivered) || !self.wants(slot) {
            return Verdict::Unwanted;
        }
        if self.takes_all() || !self.passes_over(channel, slot, recovered, now) {
            return Verdict::Wanted;
        }
        Verdict::Superseded
    }

    /// Whether the filter and the selector pick a message. Where its partition tells, they are not evaluated.
    #[inline]
    fn wants(&self, slot: &Slot) -> bool {
        match slot.reached(&self.wanted.reach) {
            Reach::None => false,
            Reach::Whole => true,
            Reach::Part => self.wanted.picks.picks(slot.message()),
        }
    }

    /// Whether the subscription has no policy of its own that passes over messages.
    #[inline]
    pub(super) fn takes_all(&self) -> bool {
        matches!(self.recover, Recover::First | Recover::Beside) && self.slow == Slow::Wait
    }

    /// Whether the subscription's own policy passes over a message that matches.
    fn passes_over(&self, channel: &Channel, slot: &Slot, recovered: bool, now: Time) -> bool {
        let is_old = match self.recover {
            Recover::MaxAge(most) => recovered && slot.age(now) > most,
            _ => false,
        };
        let is_dropped = slot.arrival() < self.dropping_until && !recovered;
        let by_key = self.slow == Slow::ReplaceByKey || recovered && self.recover == Recover::NewestPerKey;
        is_old || is_dropped || by_key && self.is_replaced(channel, slot, now)
    }

    /// Whether a newer message with the same topic and key is held that the subscription wants, too.
    fn is_replaced(&self, channel: &Channel, slot: &Slot, now: Time) -> bool {
        let newness = |slot: &Slot| Newness::of(slot.stamp(), slot.message());
        channel.newest(slot.message()).is_some_and(|(_, newest)| {
            newness(newest).is_newer_than(&newness(slot))
                && !newest.is_expired(now)
                && self.wanted.picks.picks(newest.message())
        })
    }
}
