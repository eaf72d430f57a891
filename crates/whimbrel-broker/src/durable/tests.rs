use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use whimbrel_pubsub::coverage::{ChannelCoverage, Fate, Range, Ranges, Told};
use whimbrel_pubsub::message::{BrokerId, Draft, Hlc, Origin, PartitionId, Stamp};

use super::*;
use crate::selection::Selection;
use crate::store::{Batch, Entry, Position, Record};

fn origin(broker: u64) -> Origin {
    Origin { broker: BrokerId(broker), epoch: 1 }
}

fn record(position: u64, broker: u64, sequence: u64, topic: &str) -> Record {
    let stamp = Stamp {
        origin: origin(broker),
        sequence,
        partition: PartitionId(0),
        ordinal: 1,
        published: Hlc::at(1),
    };
    let message = Draft { topic, payload: &[7; 100], ..Draft::default() }.finish().unwrap();
    let entry = Entry { stamp, arrived_ms: 1_000, age: Duration::ZERO, message };
    Record { position: Position(position), entry }
}

fn batch(records: Vec<Record>) -> Batch {
    let next = records.last().map_or(Position(0), |record| Position(record.position.0 + 1));
    Batch { records, next }
}

fn reader(acknowledged: ChannelCoverage, first: u64) -> Reader {
    let picks = Arc::new(Selection::new("a/#".parse().unwrap(), None));
    let (claimed, until) = (ChannelCoverage::default(), Position(0));
    Reader::new(Begin { picks, is_whole: false, acknowledged, claimed, first: Position(first), until })
}

/// All that is told until the reader is hungry or full, and whether it is full.
fn all(reader: &mut Reader) -> (Vec<Told>, bool) {
    let mut told = Vec::new();
    loop {
        match reader.next(1_000) {
            Next::Told(one) => told.push(one),
            Next::Hungry(_) => return (told, false),
            Next::Full => return (told, true),
        }
    }
}

fn delivered(told: &[Told]) -> Vec<u64> {
    let sequence = |told: &Told| match told {
        Told::Delivery(delivery) => Some(delivery.stamp.sequence),
        _ => None,
    };
    told.iter().filter_map(sequence).collect()
}

#[test]
fn what_is_covered_is_skipped_and_covers_reach_over_what_does_not_match() {
    let mut acknowledged = ChannelCoverage::default();
    acknowledged.insert(origin(1), Range { first: 1, last: 3 }).unwrap();
    let mut reader = reader(acknowledged, 0);
    let topics = ["a/1", "a/2", "a/3", "b", "b", "a/4", "b"];
    let records = topics.iter().zip(1..).map(|(topic, at)| record(at - 1, 1, at, topic)).collect();
    assert!(!reader.feed(batch(records)));
    let (told, _) = all(&mut reader);
    let [Told::Covers(before), Told::Delivery(delivery)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(
        before.range,
        Range { first: 1, last: 3 },
        "what the broker knows, and the subscriber did not say"
    );
    assert_eq!((delivery.stamp.sequence, delivery.cover.range), (6, Range { first: 4, last: 6 }));
    reader.tell_covers();
    let (told, _) = all(&mut reader);
    assert_eq!(told[0].cover().unwrap().range, Range { first: 7, last: 7 });
}

#[test]
fn the_window_bounds_what_is_told_and_only_what_was_told_counts() {
    let mut reader = reader(ChannelCoverage::default(), 0);
    reader.feed(batch((0..2 * WINDOW as u64).map(|at| record(at, 1, at + 1, "a")).collect()));
    let (told, is_full) = all(&mut reader);
    assert!(is_full && delivered(&told).len() == WINDOW);
    let mut coverage = ChannelCoverage::default();
    coverage.insert(origin(1), Range { first: 1, last: 1 << 60 }).unwrap();
    coverage.insert(origin(9), Range { first: 1, last: 9 }).unwrap();
    let new = reader.acknowledge(&coverage).unwrap();
    assert_eq!(new, [(origin(1), Range { first: 1, last: WINDOW as u64 })], "what was not told is not");
    assert!(reader.window().is_empty() && reader.acknowledge(&coverage).unwrap().is_empty());
    assert_eq!(delivered(&all(&mut reader).0).len(), WINDOW);
}

#[test]
fn regression_what_was_not_acknowledged_is_never_taken_for_it() {
    let mut reader = reader(ChannelCoverage::default(), 0);
    reader.feed(batch((0..WINDOW as u64).map(|at| record(at, 1, at + 1, "a")).collect()));
    assert_eq!(delivered(&all(&mut reader).0).len(), WINDOW);
    let mut refused = false;
    // Every second message, a few at a time: more ranges than a coverage has.
    for first in (1..WINDOW as u64).step_by(100) {
        let mut coverage = ChannelCoverage::default();
        for at in (first..first + 100).step_by(2) {
            coverage.insert(origin(1), Range { first: at, last: at }).unwrap();
        }
        let new = reader.acknowledge(&coverage);
        refused |= new == Err(TooManyGaps);
        let is_odd = |(_, range): &(Origin, Range)| range.first == range.last && range.first % 2 == 1;
        assert!(new.unwrap_or_default().iter().all(is_odd));
        if refused {
            break;
        }
    }
    assert!(refused, "a gap would have been closed");
}

#[test]
fn what_was_removed_is_told_once() {
    let mut reader = reader(ChannelCoverage::default(), 0);
    assert!(reader.feed(batch(vec![record(40, 1, 41, "a")])), "40 messages are not there any more");
    for _ in 0..2 {
        reader.sweep(&BTreeMap::from([(origin(1), Ranges::of(Range { first: 1, last: 40 }))]));
    }
    let (told, _) = all(&mut reader);
    let gone = told.iter().filter_map(|told| match told {
        Told::Fate { fate: Fate::Gone, count, closed: true, .. } => Some((count.number, count.exact)),
        _ => None,
    });
    assert_eq!(gone.collect::<Vec<_>>(), [(40, false)]);
    assert_eq!(delivered(&told), [41]);
}

proptest! {
    /// Whatever the order, the repetitions, the batches and the acknowledgements: each message that matches comes once, and at the end all
    /// is covered.
    #[test]
    fn each_message_comes_once(
        order in Just((1..=60_u64).collect::<Vec<_>>()).prop_shuffle(),
        twice in proptest::collection::vec(1..=60_u64, 0..10),
        cut in 1..20_usize,
        acknowledge in 1..20_usize,
        matching in proptest::collection::vec(any::<bool>(), 61),
    ) {
        let topic = |sequence: u64| if matching[sequence as usize] { "a/x" } else { "b" };
        let log: Vec<Record> = order.iter().chain(&twice).zip(0..)
            .map(|(sequence, at)| record(at, 1 + sequence % 2, sequence.div_ceil(2), topic(*sequence)))
            .collect();
        let mut reader = reader(ChannelCoverage::default(), 0);
        let (mut heard, mut times) = (ChannelCoverage::default(), BTreeMap::new());
        let mut hear = |told: Vec<Told>, heard: &mut ChannelCoverage| {
            for told in told {
                if let Told::Delivery(delivery) = &told {
                    *times.entry((delivery.stamp.origin, delivery.stamp.sequence)).or_insert(0) += 1;
                }
                if let Some(cover) = told.cover() {
                    heard.insert(cover.origin, cover.range).unwrap();
                }
            }
        };
        for (nth, records) in log.chunks(cut).enumerate() {
            prop_assert!(!reader.feed(batch(records.to_vec())));
            hear(all(&mut reader).0, &mut heard);
            if nth % acknowledge == 0 {
                reader.acknowledge(&heard).unwrap();
            }
        }
        reader.tell_covers();
        hear(all(&mut reader).0, &mut heard);
        let wanted: BTreeMap<_, _> = (1..=60_u64).filter(|sequence| matching[*sequence as usize])
            .map(|sequence| ((origin(1 + sequence % 2), sequence.div_ceil(2)), 1)).collect();
        prop_assert_eq!(times, wanted);
        for broker in [1, 2] {
            let all = Range { first: 1, last: 30 };
            prop_assert!(heard.of(origin(broker)).unwrap().covers(all));
        }
    }
}
