//! The brokers that cannot supply a missing message.

use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, Origin};

use crate::Time;
use crate::mutants::{Mutant, planted};

/// The messages of an origin that the brokers that were asked do not have.
///
/// A broker that had a message and overwrote it may have sent a copy before, which can be on its way for a while. What it said is gone
/// therefore counts only after that while, and then an older word of another broker that the message is absent there counts no more.
/// A broker that was started anew may get again what it had before. So its words are those of one run, which must have been heard of since.
#[derive(Debug, Default)]
pub(super) struct Denials {
    brokers: BTreeMap<BrokerId, Denial>,
    /// When words about what is gone were last moved on.
    moved: Time,
}

#[derive(Debug, Default)]
struct Denial {
    /// The epoch of the broker's run, and when it was last heard of.
    epoch: u64,
    heard: Time,
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

    /// The run of a broker was heard of.
    pub(super) fn hear(&mut self, by: Origin, now: Time) {
        let Some(denial) = self.brokers.get_mut(&by.broker) else { return };
        if denial.epoch != by.epoch {
            *denial = Denial { epoch: by.epoch, ..Denial::default() };
        }
        denial.heard = now;
    }

    pub(super) fn note(&mut self, by: Origin, gone: &Ranges, absent: Ranges, now: Time) {
        self.brokers.entry(by.broker).or_default();
        self.hear(by, now);
        let Some(denial) = self.brokers.get_mut(&by.broker) else { return };
        denial.fresh.merge(gone);
        (denial.absent, denial.absent_at) = (absent, now);
    }

    /// Returns the part of `missing` that no broker can have. A copy may be on its way for as long as `on_its_way`.
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
    /// Returns the part of `ranges` that the broker cannot have, if that was said, or still held, from `since` on.
    fn of(&self, ranges: &Ranges, since: Time) -> Ranges {
        let gone = ranges.iter().flat_map(|range| self.gone.within(range));
        let absent = ranges.iter().flat_map(|range| self.absent.within(range));
        let (gone, absent) =
            (gone.filter(|_| self.heard >= since), absent.filter(|_| self.absent_at >= since));
        gone.chain(absent).collect()
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
        let run = |broker, epoch| Origin { broker: BrokerId(broker), epoch };
        let (a, b) = (run(1, 7), run(2, 7));
        let at = |seconds| Time::at(Duration::from_secs(seconds));
        let mut denials = Denials::default();
        let lost =
            |denials: &mut Denials, now| denials.lost(ranges(1, 9), &[a.broker, b.broker], WAY, at(now));
        denials.note(a, &ranges(1, 5), ranges(6, 9), at(20));
        denials.note(b, &Ranges::default(), ranges(1, 9), at(21));
        assert!(lost(&mut denials, 21).is_empty(), "a copy may be on its way from the first");
        denials.note(b, &Ranges::default(), ranges(1, 9), at(29));
        assert!(lost(&mut denials, 31).is_empty(), "and may have reached the second since");
        denials.note(b, &Ranges::default(), ranges(1, 9), at(32));
        assert!(lost(&mut denials, 33).is_empty(), "the first may have been started anew");
        denials.hear(a, at(33));
        assert_eq!(lost(&mut denials, 33), ranges(1, 5), "the first may have got 6 to 9 since");
        denials.note(a, &ranges(1, 5), ranges(6, 9), at(34));
        assert_eq!(lost(&mut denials, 35), ranges(1, 9));
        denials.keep(&ranges(4, 4));
        let is_gone = |denials: &Denials, first, last| denials.is_gone(a.broker, Range { first, last });
        assert!(is_gone(&denials, 4, 4) && !is_gone(&denials, 3, 4));
        denials.hear(run(1, 8), at(36));
        assert!(!is_gone(&denials, 4, 4), "another run");
    }
}
