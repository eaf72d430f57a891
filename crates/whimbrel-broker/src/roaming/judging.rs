//! Whether a subscription gets a message.

use super::{Reader, Recover, Slow};
use crate::Time;
use crate::buffer::{Channel, Newness, Slot};
use crate::mutants::{Mutant, planted};

/// Whether a subscription gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Wanted,
    /// It does not match, or its lifetime has ended.
    Unwanted,
    /// The subscription's own policy passes over it.
    Superseded,
}

impl Reader {
    #[inline]
    pub(super) fn judge(&self, channel: &Channel, slot: &Slot, recovered: bool, now: Time) -> Verdict {
        if slot.is_expired(now) && !planted(Mutant::ExpiredDelivered)
            || !self.wanted.picks.picks(slot.message())
        {
            return Verdict::Unwanted;
        }
        let is_old = match self.recover {
            Recover::MaxAge(most) => recovered && slot.age(now) > most,
            _ => false,
        };
        let by_key = self.slow == Slow::ReplaceByKey || recovered && self.recover == Recover::NewestPerKey;
        if is_old
            || slot.arrival() < self.dropping_until && !recovered
            || by_key && self.is_replaced(channel, slot, now)
        {
            return Verdict::Superseded;
        }
        Verdict::Wanted
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
