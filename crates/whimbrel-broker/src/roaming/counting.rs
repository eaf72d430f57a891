//! The number of messages that a returning subscription has to expect.

use whimbrel_pubsub::coverage::{Count, Outstanding, Range, Ranges};

use super::reader::Reader;
use super::verdict::Verdict;
use crate::Time;
use crate::buffer::{Channel, OriginLog};

/// Returns the sequences that came here, are no longer held, and are not covered.
pub(super) fn gone_in(log: &OriginLog, covered: &Ranges) -> impl Iterator<Item = Range> {
    let all = Range::new(1, log.highest());
    let gaps = all.into_iter().flat_map(|all| covered.gaps(all));
    gaps.flat_map(|gap| log.received().within(gap)).flat_map(|part| unheld(log, part))
}

/// Returns the ranges of `part` that are not held.
fn unheld(log: &OriginLog, part: Range) -> impl Iterator<Item = Range> {
    let ends = log.held(part).map(|(sequence, _)| sequence).chain([part.last + 1]);
    let mut next = part.first;
    ends.filter_map(move |sequence| {
        let before = Range::new(next, sequence - 1).filter(|_| sequence > next);
        next = sequence + 1;
        before
    })
}

impl Reader {
    /// Counts what is outstanding, gone and missing. Returns it with the first arrival that has to be read.
    pub(super) fn count(&self, channel: &Channel, now: Time) -> (Outstanding, Option<u64>) {
        let mut sum = Outstanding { outstanding: 0, gone: Count::NONE, missing: 0 };
        let mut first: Option<u64> = None;
        for (index, log) in channel.logs() {
            let covered = &self.readings[index.place()].covered;
            let Some(all) = Range::new(1, log.highest()) else { continue };
            for gap in covered.gaps(all) {
                // Heads are what other brokers say: their sum may be any number.
                let missing = log.received().gaps(gap).map(|range| range.count());
                sum.missing = missing.fold(sum.missing, u64::saturating_add);
                for (_, slot) in log.held(gap) {
                    let Some(slot) = channel.slot(slot) else { continue };
                    first = Some(first.map_or(slot.arrival(), |first| first.min(slot.arrival())));
                    sum.outstanding += u64::from(self.judge(channel, slot, true, now) == Verdict::Wanted);
                }
            }
            for range in gone_in(log, covered) {
                sum.gone = sum.gone.and(log.count(range, &self.wanted.reach));
            }
        }
        (sum, first)
    }
}
