//! A durable subscription's part in one channel, and how it reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::coverage::{
    ChannelCoverage, Count, Cover, Delivery, Fate, MOST_RANGES, Range, Ranges, Told,
};
use whimbrel_pubsub::message::Origin;

use super::window::Window;
use crate::buffer::Picks;
use crate::roaming::reading::Reading;
use crate::store::{Batch, Entry, Position, Record};

/// The start of a reader.
#[derive(Debug)]
pub struct Begin {
    /// The messages that are wanted.
    pub picks: Arc<dyn Picks>,
    /// Whether all messages of the channel are: counts of those that are gone are exact then.
    pub is_whole: bool,
    /// The acknowledged messages.
    pub acknowledged: ChannelCoverage,
    /// The messages that the subscriber claims to have.
    pub claimed: ChannelCoverage,
    /// The position of the first message that neither covers, or one before it.
    pub first: Position,
    /// The end of the log now. What is before it is told as recovered.
    pub until: Position,
}

/// The acknowledged messages have too many gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {MOST_RANGES} ranges of an origin's messages are acknowledged: acknowledge messages in their order"
)]
pub struct TooManyGaps;

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each delivery")]
pub enum Next {
    /// Something to tell the subscriber.
    Told(Told),
    /// It needs the records from this position on.
    Hungry(Position),
    /// Too much was told that is not acknowledged.
    Full,
}

/// A durable subscription's part in one channel: a position and a coverage.
#[derive(Debug)]
pub struct Reader {
    picks: Arc<dyn Picks>,
    is_whole: bool,
    readings: BTreeMap<Origin, Reading>,
    acknowledged: ChannelCoverage,
    window: Window,
    /// Records that were not looked at.
    records: VecDeque<Record>,
    /// The position behind them.
    next: Position,
    until: Position,
    /// The reports that come before anything else.
    notices: VecDeque<Told>,
}

impl Reader {
    /// A subscription comes.
    pub fn new(begin: Begin) -> Self {
        let Begin { picks, is_whole, acknowledged, claimed, first, until } = begin;
        let mut readings: BTreeMap<Origin, Reading> = BTreeMap::new();
        for (origin, ranges) in acknowledged.iter().chain(claimed.iter()) {
            readings.entry(origin).or_default().covered.merge(ranges);
        }
        // So the subscriber's own coverage is whole, wherever it goes next.
        let notices = acknowledged.iter().flat_map(|(origin, ranges)| {
            let claimed = claimed.of(origin).cloned().unwrap_or_default();
            let new: Vec<_> = ranges.iter().flat_map(|range| claimed.gaps(range)).collect();
            new.into_iter().map(move |range| Told::Covers(Cover { origin, range }))
        });
        let notices = notices.collect();
        let (window, records) = (Window::default(), VecDeque::new());
        Self { picks, is_whole, readings, acknowledged, window, records, next: first, until, notices }
    }

    /// Takes records that were read from where it was hungry. Returns whether some between are not in the log any more:
    /// [`Reader::sweep`] then has to tell them.
    pub fn feed(&mut self, batch: Batch) -> bool {
        let first = batch.records.first().map_or(batch.next, |record| record.position);
        let has_jumped = first > self.next;
        self.next = self.next.max(batch.next);
        self.records.extend(batch.records);
        has_jumped
    }

    /// Takes a step. `wall_ms` is the time of day, by which lifetimes end.
    pub fn next(&mut self, wall_ms: u64) -> Next {
        loop {
            if let Some(told) = self.notices.pop_front() {
                return Next::Told(told);
            }
            let Some(record) = self.records.pop_front() else { return Next::Hungry(self.next) };
            let stamp = record.entry.stamp;
            let reading = self.readings.entry(stamp.origin).or_default();
            if reading.covered.contains(stamp.sequence) {
                continue;
            }
            let is_wanted = !is_expired(&record.entry, wall_ms) && self.picks.picks(&record.entry.message);
            if !is_wanted {
                self.settle(stamp.origin, Range { first: stamp.sequence, last: stamp.sequence });
                continue;
            }
            if self.window.is_full_for(record.entry.message.encoded().len()) {
                self.records.push_front(record);
                return Next::Full;
            }
            if let Some(range) = reading.take_apart(stamp.sequence) {
                self.records.push_front(record);
                return Next::Told(Told::Covers(Cover { origin: stamp.origin, range }));
            }
            self.settle(stamp.origin, Range { first: stamp.sequence, last: stamp.sequence });
            let delivery = self.deliver(record);
            match self.notices.pop_front() {
                // What was settled before is told before.
                Some(first) => {
                    self.notices.extend(delivery.map(Told::Delivery));
                    return Next::Told(first);
                }
                None => {
                    if let Some(delivery) = delivery {
                        return Next::Told(Told::Delivery(delivery));
                    }
                }
            }
        }
    }

    /// Tells as gone all that is not covered and that was removed from the log.
    pub fn sweep(&mut self, removed: &BTreeMap<Origin, Ranges>) {
        for (origin, removed) in removed {
            removed.iter().for_each(|range| self.lose_one(*origin, range));
        }
    }

    /// Tells as gone what cannot be read, unless it is covered.
    pub fn lose(&mut self, names: &[(Origin, Range)]) {
        names.iter().for_each(|(origin, range)| self.lose_one(*origin, *range));
    }

    fn lose_one(&mut self, origin: Origin, range: Range) {
        let covered = &self.readings.entry(origin).or_default().covered;
        let gone: Vec<Range> = covered.gaps(range).collect();
        for range in gone {
            self.settle(origin, range);
            // It is told with its fate.
            let count = Count { number: range.count(), exact: self.is_whole };
            let cover = Cover { origin, range };
            self.notices.push_back(Told::Fate { cover, fate: Fate::Gone, count, closed: true });
        }
    }

    /// Returns the position of the next message that it looks at.
    pub fn position(&self) -> Position {
        self.records.front().map_or(self.next, |record| record.position)
    }

    /// Returns the end of the log when it came.
    pub fn until(&self) -> Position {
        self.until
    }

    /// Has the subscriber told of all that is settled, without a message.
    pub fn tell_covers(&mut self) {
        for (origin, reading) in &mut self.readings {
            if let Some(range) = reading.take_pending() {
                self.notices.push_back(Told::Covers(Cover { origin: *origin, range }));
            }
        }
    }

    /// The subscriber acknowledges. Only what it was told counts. Returns what is newly acknowledged. Fails if what is acknowledged has more
    /// gaps than can be kept: closing one would acknowledge what was not.
    pub fn acknowledge(&mut self, coverage: &ChannelCoverage) -> Result<Vec<(Origin, Range)>, TooManyGaps> {
        let mut new = Vec::new();
        for (origin, ranges) in coverage.iter() {
            let Some(reading) = self.readings.get(&origin) else { continue };
            let known = self.acknowledged.of(origin);
            for told in ranges.iter().flat_map(|range| reading.covered.within(range)) {
                match known {
                    Some(known) => new.extend(known.gaps(told).map(|gap| (origin, gap))),
                    None => new.push((origin, told)),
                }
            }
        }
        for (origin, range) in &new {
            // Origins are among those of the readings.
            if let Ok(Some(_)) = self.acknowledged.insert(*origin, *range) {
                return Err(TooManyGaps);
            }
        }
        if !new.is_empty() {
            let acknowledged = &self.acknowledged;
            self.window.release(|origin, sequence| acknowledged.contains(origin, sequence));
        }
        Ok(new)
    }

    /// Returns the coverage of all that is settled, acknowledged or not.
    pub fn coverage(&self) -> ChannelCoverage {
        let mut coverage = ChannelCoverage::default();
        for (origin, reading) in &self.readings {
            for range in reading.covered.iter() {
                // There are no more origins and ranges than a coverage has.
                coverage.insert(*origin, range).ok();
            }
        }
        coverage
    }

    /// Returns the messages that were told and not acknowledged.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Settles a range. What has to be told of it by itself becomes a notice.
    fn settle(&mut self, origin: Origin, range: Range) {
        let reading = self.readings.entry(origin).or_default();
        if let Some(range) = reading.settle(range) {
            self.notices.push_back(Told::Covers(Cover { origin, range }));
        }
        let reading = self.readings.entry(origin).or_default();
        if reading.covered.len() > MOST_RANGES
            && let Some(range) = reading.covered.close_oldest_gap()
        {
            let count = Count { number: range.count(), exact: false };
            let cover = Cover { origin, range };
            self.notices.push_back(Told::Fate { cover, fate: Fate::Unknown, count, closed: true });
        }
    }

    /// Delivers a settled message.
    fn deliver(&mut self, record: Record) -> Option<Delivery> {
        let Record { position, entry: Entry { stamp, message, .. } } = record;
        let reading = self.readings.entry(stamp.origin).or_default();
        let range = reading.take_pending()?;
        let late = stamp.sequence < reading.delivered;
        reading.delivered = reading.delivered.max(stamp.sequence);
        self.window.push(stamp.origin, stamp.sequence, message.encoded().len());
        let cover = Cover { origin: stamp.origin, range };
        let recovered = position < self.until;
        Some(Delivery { cover, stamp, message, recovered, late, retained: false })
    }
}

/// Whether the lifetime of a message has ended.
fn is_expired(entry: &Entry, wall_ms: u64) -> bool {
    let since = Duration::from_millis(wall_ms.saturating_sub(entry.arrived_ms));
    entry.message.lifetime().is_some_and(|lifetime| lifetime <= entry.age.saturating_add(since))
}
