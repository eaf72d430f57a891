//! Which brokers cannot give a missing message.

use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::BrokerId;

use crate::Time;
use crate::mutants::{Mutant, planted};

/// What the brokers that were asked do not have of an origin.
///
/// A broker that had a message and overwrote it may have sent a copy before, which can be on its way for a while. What it said is gone
/// therefore counts only after that while, and then an older word of another broker that the message is absent there counts no more.
#[derive(Debug, Default)]
pub(super) struct Denials {
    brokers: BTreeMap<BrokerId, Denial>,
    /// When words about what is gone were last moved on.
    moved: Time,
}

#[derive(Debug, Default)]
struct Denial {
    /// Had and overwritten, for good: said since the last move, since the one before, and earlier.
    fresh: Ranges,
    waiting: Ranges,
    gone: Ranges,
    /// Never had, so far.
    absent: Ranges,
    absent_at: Time,
}

impl Denials {
    /// Whether `broker` said that it had and overwrote all of `range`.
    pub(super) fn is_gone(&self, broker: BrokerId, range: Range) -> bool {
        self.brokers.get(&broker).is_some_and(|denial| {
            [&denial.fresh, &denial.waiting, &denial.gone].iter().any(|gone| gone.covers(range))
        })
    }

    pub(super) fn note(&mut self, broker: BrokerId, gone: &Ranges, absent: Ranges, now: Time) {
        let denial = self.brokers.entry(broker).or_default();
        denial.fresh.merge(gone);
        (denial.absent, denial.absent_at) = (absent, now);
    }

    /// What of `missing` no broker can have. `on_its_way` is how long a copy may be.
    pub(super) fn lost(
        &mut self,
        missing: Ranges,
        peers: &[BrokerId],
        on_its_way: Duration,
        now: Time,
    ) -> Ranges {
        self.move_on(on_its_way, now);
        let all = if planted(Mutant::LostWithoutAllPeers) { &peers[..1.min(peers.len())] } else { peers };
        all.iter().fold(missing, |left, peer| match self.brokers.get(peer) {
            Some(denial) => denial.of(&left, self.moved),
            None => Ranges::default(),
        })
    }

    /// Forgets what is no longer missing.
    pub(super) fn keep(&mut self, missing: &Ranges) {
        let is_missing = |ranges: &Ranges| ranges.iter().flat_map(|range| missing.within(range)).collect();
        for denial in self.brokers.values_mut() {
            let Denial { fresh, waiting, gone, absent, .. } = denial;
            for ranges in [fresh, waiting, gone, absent] {
                *ranges = is_missing(ranges);
            }
        }
    }

    fn move_on(&mut self, on_its_way: Duration, now: Time) {
        if now.since(self.moved) < on_its_way {
            return;
        }
        self.moved = now;
        for denial in self.brokers.values_mut() {
            denial.gone.merge(&denial.waiting);
            denial.waiting = std::mem::take(&mut denial.fresh);
        }
    }
}

impl Denial {
    fn of(&self, ranges: &Ranges, absent_from: Time) -> Ranges {
        let gone = ranges.iter().flat_map(|range| self.gone.within(range));
        let absent = ranges.iter().flat_map(|range| self.absent.within(range));
        gone.chain(absent.filter(|_| self.absent_at >= absent_from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Duration = Duration::from_secs(10);

    fn ranges(first: u64, last: u64) -> Ranges {
        Ranges::of(Range { first, last })
    }

    #[test]
    fn only_what_nobody_can_have_is_lost() {
        let (a, b) = (BrokerId(1), BrokerId(2));
        let at = |seconds| Time::at(Duration::from_secs(seconds));
        let mut denials = Denials::default();
        let lost = |denials: &mut Denials, now| denials.lost(ranges(1, 9), &[a, b], WAY, at(now));
        denials.note(a, &ranges(1, 5), ranges(6, 9), at(20));
        denials.note(b, &Ranges::default(), ranges(1, 9), at(21));
        assert!(lost(&mut denials, 21).is_empty(), "a copy may be on its way from the first");
        denials.note(b, &Ranges::default(), ranges(1, 9), at(29));
        assert!(lost(&mut denials, 31).is_empty(), "and may have reached the second since");
        denials.note(b, &Ranges::default(), ranges(1, 9), at(32));
        assert_eq!(lost(&mut denials, 33), ranges(1, 5), "the first may have got 6 to 9 since");
        denials.note(a, &ranges(1, 5), ranges(6, 9), at(34));
        assert_eq!(lost(&mut denials, 35), ranges(1, 9));
        denials.keep(&ranges(4, 4));
        assert!(
            denials.is_gone(a, Range { first: 4, last: 4 })
                && !denials.is_gone(a, Range { first: 3, last: 4 })
        );
    }
}
