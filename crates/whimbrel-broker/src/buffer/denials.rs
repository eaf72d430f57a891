//! Which brokers cannot give a missing message.

use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::BrokerId;

use crate::Time;
use crate::mutants::{Mutant, planted};

/// What the brokers that were asked do not have of an origin.
#[derive(Debug, Default)]
pub(super) struct Denials {
    brokers: BTreeMap<BrokerId, Denial>,
    /// When a broker last said that something is gone there. Copies that it had sent before may be on their way for a while.
    gone_at: Time,
}

#[derive(Debug, Default)]
struct Denial {
    /// Had and overwritten, for good.
    gone: Ranges,
    /// Never had, so far.
    absent: Ranges,
    absent_at: Time,
}

impl Denials {
    /// Whether `broker` said that it had and overwrote all of `range`.
    pub(super) fn is_gone(&self, broker: BrokerId, range: Range) -> bool {
        self.brokers.get(&broker).is_some_and(|denial| denial.gone.covers(range))
    }

    pub(super) fn note(&mut self, broker: BrokerId, gone: &Ranges, absent: Ranges, now: Time) {
        let denial = self.brokers.entry(broker).or_default();
        let before = denial.gone.count();
        denial.gone.merge(gone);
        if denial.gone.count() != before {
            self.gone_at = now;
        }
        (denial.absent, denial.absent_at) = (absent, now);
    }

    /// What of `missing` no broker can have: each of `peers` said that it is gone, or long enough after the last news of that, that it is
    /// absent.
    pub(super) fn lost(&self, missing: Ranges, peers: &[BrokerId], on_its_way: Duration) -> Ranges {
        let all = if planted(Mutant::LostWithoutAllPeers) { &peers[..1.min(peers.len())] } else { peers };
        all.iter().fold(missing, |left, peer| match self.brokers.get(peer) {
            Some(denial) => denial.of(&left, self.gone_at + on_its_way),
            None => Ranges::default(),
        })
    }

    /// Forgets what is no longer missing.
    pub(super) fn keep(&mut self, missing: &Ranges) {
        let is_missing = |ranges: &Ranges| ranges.iter().flat_map(|range| missing.within(range)).collect();
        for denial in self.brokers.values_mut() {
            denial.gone = is_missing(&denial.gone);
            denial.absent = is_missing(&denial.absent);
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
        let lost = |denials: &Denials| denials.lost(ranges(1, 9), &[a, b], WAY);
        denials.note(a, &ranges(1, 5), ranges(6, 9), at(20));
        assert!(lost(&denials).is_empty(), "the other was not asked");
        denials.note(b, &Ranges::default(), ranges(1, 9), at(21));
        assert!(lost(&denials).is_empty(), "a copy may be on its way from the first");
        denials.note(b, &Ranges::default(), ranges(1, 9), at(30));
        assert_eq!(lost(&denials), ranges(1, 5), "the first may have got 6 to 9 since");
        denials.note(a, &ranges(1, 5), ranges(6, 9), at(31));
        assert_eq!(lost(&denials), ranges(1, 9));
        denials.keep(&ranges(4, 4));
        assert!(
            denials.is_gone(a, Range { first: 4, last: 4 })
                && !denials.is_gone(a, Range { first: 3, last: 4 })
        );
    }
}
