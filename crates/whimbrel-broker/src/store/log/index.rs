//! The index of a segment: the positions of its messages.

use std::collections::BTreeMap;

use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::Origin;

use crate::store::format::{Held, MARK_EVERY, Run, Summary, encode_runs};

/// The index of a segment that is being written.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    origins: BTreeMap<Origin, BTreeMap<u64, Run>>,
    summary: Summary,
}

impl Index {
    /// Takes note of the next message, which is at `offset` and ends at `end`.
    pub(super) fn note(&mut self, (origin, sequence): (Origin, u64), arrived_ms: u64, offset: u32, end: u32) {
        let summary = &mut self.summary;
        let ordinal = summary.messages;
        if ordinal.is_multiple_of(MARK_EVERY) {
            summary.marks.push(offset);
        }
        if ordinal == 0 {
            summary.first_arrived = arrived_ms;
        }
        summary.last_arrived = arrived_ms;
        summary.messages += 1;
        summary.end = end;
        let runs = self.origins.entry(origin).or_default();
        match runs.range_mut(..=sequence).next_back() {
            Some((_, run)) if run.last() + 1 == sequence && run.ordinal + run.count == ordinal => {
                run.count += 1;
            }
            _ => {
                runs.insert(sequence, Run { sequence, ordinal, count: 1 });
            }
        }
    }

    /// The number of messages.
    pub(super) fn messages(&self) -> u32 {
        self.summary.messages
    }

    /// The number of origins.
    pub(super) fn origins(&self) -> usize {
        self.origins.len()
    }

    /// Marks, counts and bounds. It has no origins yet.
    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The summary of the whole, if the record of the runs is at `runs`.
    pub(super) fn finish(&self, runs: u32) -> Summary {
        let held = |(origin, runs): (&Origin, &BTreeMap<u64, Run>)| {
            let lowest = runs.first_key_value().map_or(0, |(lowest, _)| *lowest);
            Held { origin: *origin, lowest, highest: runs.values().map(Run::last).max().unwrap_or(lowest) }
        };
        Summary { runs, origins: self.origins.iter().map(held).collect(), ..self.summary.clone() }
    }

    /// The runs as they are in the file.
    pub(super) fn encode_runs(&self) -> Vec<u8> {
        let places = self.origins.values().enumerate();
        encode_runs(places.flat_map(|(place, runs)| runs.values().map(move |run| (place as u32, *run))))
    }

    /// The runs.
    pub(super) fn runs(&self) -> Runs {
        let origins = self.origins.keys().copied().collect();
        let places = self.origins.values().enumerate();
        let runs = places.flat_map(|(place, runs)| runs.values().map(move |run| (place, *run))).collect();
        Runs { origins, runs }
    }

    /// The ordinal of a message.
    pub(super) fn find(&self, origin: Origin, sequence: u64) -> Option<u32> {
        let mut before = self.origins.get(&origin)?.range(..=sequence);
        ordinal_in(before.next_back()?.1, sequence)
    }
}

/// The index of a full segment.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    origins: Vec<Origin>,
    /// In ascending order of origin and sequence.
    runs: Vec<(usize, Run)>,
}

impl Runs {
    pub(super) fn new(summary: &Summary, runs: Vec<(usize, Run)>) -> Self {
        Self { origins: summary.origins.iter().map(|held| held.origin).collect(), runs }
    }

    /// The ordinal of a message.
    pub(super) fn find(&self, origin: Origin, sequence: u64) -> Option<u32> {
        let place = self.origins.binary_search(&origin).ok()?;
        let behind = self.runs.partition_point(|(at, run)| (*at, run.sequence) <= (place, sequence));
        let (at, run) = self.runs.get(behind.checked_sub(1)?)?;
        if *at == place { ordinal_in(run, sequence) } else { None }
    }

    /// The lowest ordinal of a message that is not covered. `lowest` says the lowest sequence of a range that is not.
    pub(super) fn first(&self, lowest: impl Fn(Origin, Range) -> Option<u64>) -> Option<u32> {
        let first = |(place, run): &(usize, Run)| {
            let range = Range { first: run.sequence, last: run.last() };
            ordinal_in(run, lowest(*self.origins.get(*place)?, range)?)
        };
        self.runs.iter().filter_map(first).min()
    }

    /// The names of the messages at positions from the first of `bounds` to before the last, if the first message of all has `first`.
    pub(super) fn between(
        &self,
        first: u64,
        (from, until): (u64, u64),
    ) -> impl Iterator<Item = (Origin, Range)> + '_ {
        self.runs.iter().filter_map(move |(place, run)| {
            let begin = first + u64::from(run.ordinal);
            let (low, high) = (from.max(begin), until.min(begin + u64::from(run.count)));
            let range = Range::new(
                run.sequence + low.checked_sub(begin)?,
                (run.sequence + high).checked_sub(begin + 1)?,
            );
            Some((*self.origins.get(*place)?, range.filter(|_| low < high)?))
        })
    }

    /// Returns the origin and the range of sequences of each run.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Origin, Range)> + '_ {
        let range = |run: &Run| Range { first: run.sequence, last: run.last() };
        self.runs.iter().filter_map(move |(place, run)| Some((*self.origins.get(*place)?, range(run))))
    }
}

fn ordinal_in(run: &Run, sequence: u64) -> Option<u32> {
    (sequence <= run.last()).then(|| run.ordinal + (sequence - run.sequence) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::format::parse_runs;
    use proptest::prelude::*;
    use whimbrel_pubsub::message::BrokerId;

    proptest! {
        #[test]
        fn every_message_is_found_before_and_after_the_segment_is_full(
            picks in proptest::collection::vec((0_u64..3, 0_u64..4), 1..400),
        ) {
            let mut next = BTreeMap::new();
            let (mut index, mut names) = (Index::default(), Vec::new());
            for (at, (epoch, skip)) in picks.into_iter().enumerate() {
                let origin = Origin { broker: BrokerId(1), epoch };
                let sequence = next.entry(epoch).or_insert(0);
                *sequence += 1 + skip / 3;
                index.note((origin, *sequence), 7, 40 + at as u32 * 10, 50 + at as u32 * 10);
                names.push((origin, *sequence));
            }
            let summary = index.finish(names.len() as u32 * 10 + 40);
            prop_assert_eq!(Summary::parse(&summary.encode()), Some(summary.clone()));
            let runs = parse_runs(&index.encode_runs(), summary.origins.len(), summary.messages).unwrap();
            let runs = Runs::new(&summary, runs);
            for (ordinal, (origin, sequence)) in names.iter().enumerate() {
                prop_assert_eq!(index.find(*origin, *sequence), Some(ordinal as u32));
                prop_assert_eq!(runs.find(*origin, *sequence), Some(ordinal as u32));
            }
            let total: u64 = runs.iter().map(|(_, range)| range.count()).sum();
            prop_assert_eq!(total, names.len() as u64);
            let nobody = Origin { broker: BrokerId(9), epoch: 0 };
            prop_assert_eq!((index.find(nobody, 1), runs.find(nobody, 1)), (None, None));
        }
    }
}
