//! A broker of the cluster: its disk, and what a crash takes.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_broker::durable::{Claim, Copies, Known, Life, Step, wanted};
use whimbrel_broker::store::{Batch, Entry, Position, Record};
use whimbrel_pubsub::coverage::{ChannelCoverage, Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, Draft, Hlc, Origin, PartitionId, Publication, PublisherId, Stamp};

/// How many brokers there are.
pub(crate) const BROKERS: usize = 3;
/// How many have to have a message.
pub(crate) const REPLICAS: usize = 2;
/// How many subscriptions there are.
pub(crate) const SUBSCRIPTIONS: usize = 2;
/// The name that two brokers make at once.
pub(crate) const DISPUTED: usize = SUBSCRIPTIONS;
/// How many names there are.
const NAMES: usize = SUBSCRIPTIONS + 1;
/// The messages of a segment.
const SEGMENT: usize = 8;

pub(crate) type Name = (Origin, u64);

pub(crate) fn one(sequence: u64) -> Range {
    Range { first: sequence, last: sequence }
}

/// What survives a crash.
#[derive(Default)]
pub(crate) struct Disk {
    /// The log, and how many messages went from its front.
    pub(crate) log: Vec<Entry>,
    pub(crate) removed: usize,
    /// What is known of each subscription.
    pub(crate) subscriptions: [Option<Kept>; NAMES],
}

#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) life: Life,
    /// What it selects, as far as it matters here: whether it is the same.
    pub(crate) selects: u8,
    pub(crate) coverage: ChannelCoverage,
}

pub(crate) struct Node {
    pub(crate) id: usize,
    pub(crate) alive: bool,
    pub(crate) disk: Disk,
    /// Appended, and not on disk yet.
    pub(crate) waiting: Vec<Entry>,
    /// On disk, or once there in this run.
    pub(crate) stored: BTreeMap<Origin, Ranges>,
    pub(crate) own: Origin,
    next: u64,
    pub(crate) copies: Copies,
    /// Whether another broker has told of its subscriptions since the start: with this one, these are most.
    knows_all: bool,
    /// The generation of each subscription that is attached here, unless it had to give way.
    pub(crate) attached: [Option<u64>; NAMES],
}

impl Node {
    pub(crate) fn start(id: usize, epoch: u64, disk: Disk) -> Self {
        let own = Origin { broker: BrokerId(id as u64), epoch };
        let peers: Vec<_> = (0..BROKERS as u64).filter(|peer| *peer != id as u64).map(BrokerId).collect();
        let mut stored: BTreeMap<Origin, Ranges> = BTreeMap::new();
        for entry in &disk.log {
            stored.entry(entry.stamp.origin).or_default().insert(one(entry.stamp.sequence));
        }
        let (copies, waiting) = (Copies::new(own, &peers, REPLICAS - 1), Vec::new());
        let attached = [None; NAMES];
        Self { id, alive: true, disk, waiting, stored, own, next: 1, copies, knows_all: false, attached }
    }

    /// Takes a message of a publisher.
    pub(crate) fn publish(&mut self, number: u64) -> Entry {
        let (origin, sequence) = (self.own, self.next);
        self.next += 1;
        let stamp =
            Stamp { origin, sequence, partition: PartitionId(0), ordinal: sequence, published: Hlc(number) };
        let publication = Some(Publication { publisher: PublisherId(1), number });
        let message = Draft { topic: "t", publication, ..Draft::default() }.finish().unwrap();
        let entry = Entry { stamp, arrived_ms: 1, age: Duration::ZERO, message };
        self.waiting.push(entry.clone());
        entry
    }

    pub(crate) fn has(&self, (origin, sequence): Name) -> bool {
        let waits = |entry: &Entry| (entry.stamp.origin, entry.stamp.sequence) == (origin, sequence);
        self.stored.get(&origin).is_some_and(|stored| stored.contains(sequence))
            || self.waiting.iter().any(waits)
    }

    /// Takes a message of another broker.
    pub(crate) fn receive(&mut self, entry: &Entry) {
        if !self.has((entry.stamp.origin, entry.stamp.sequence)) {
            self.waiting.push(entry.clone());
        }
    }

    /// Writes what waits. Returns the names.
    pub(crate) fn sync(&mut self) -> Vec<Name> {
        let names: Vec<_> =
            self.waiting.iter().map(|entry| (entry.stamp.origin, entry.stamp.sequence)).collect();
        for (origin, sequence) in &names {
            self.stored.entry(*origin).or_default().insert(one(*sequence));
        }
        self.disk.log.append(&mut self.waiting);
        names
    }

    /// Removes the oldest segments that no subscription wants.
    pub(crate) fn trim(&mut self) -> usize {
        let mut segments = 0;
        while self.knows_all && self.disk.log.len() > SEGMENT {
            let is_wanted = |entry: &Entry| {
                let Stamp { origin, sequence, .. } = entry.stamp;
                let kept = self.disk.subscriptions.iter().flatten();
                !wanted(one(sequence), kept.map(|kept| kept.coverage.of(origin))).is_empty()
            };
            if self.disk.log[..SEGMENT].iter().any(is_wanted) {
                break;
            }
            self.disk.log.drain(..SEGMENT);
            self.disk.removed += SEGMENT;
            segments += 1;
        }
        segments
    }

    /// The records from a position on.
    pub(crate) fn read(&self, from: Position, most: usize) -> Batch {
        let removed = self.disk.removed;
        let from = (from.0 as usize).max(removed);
        let all = self.disk.log.iter().enumerate().skip(from - removed).take(most);
        let record = |(at, entry): (usize, &Entry)| Record {
            position: Position((at + removed) as u64),
            entry: entry.clone(),
        };
        let records: Vec<_> = all.map(record).collect();
        let next = records.last().map_or(Position(from as u64), |record| Position(record.position.0 + 1));
        Batch { records, next }
    }

    pub(crate) fn end(&self) -> Position {
        Position((self.disk.removed + self.disk.log.len()) as u64)
    }

    /// What is published here is covered by a subscription that begins now.
    pub(crate) fn heads(&self) -> ChannelCoverage {
        let mut coverage = ChannelCoverage::default();
        for (origin, stored) in &self.stored {
            coverage.insert(*origin, Range { first: 1, last: stored.highest() }).unwrap();
        }
        for entry in &self.waiting {
            coverage.insert(entry.stamp.origin, Range { first: 1, last: entry.stamp.sequence }).unwrap();
        }
        coverage
    }

    /// Another broker tells what it knows of a subscription.
    pub(crate) fn learn(&mut self, subscription: usize, told: &Kept) {
        self.knows_all |= subscription == SUBSCRIPTIONS - 1;
        let kept = &mut self.disk.subscriptions[subscription];
        let known = kept.as_ref().map_or(Known::Nothing, |kept| Known::Alive(kept.life));
        let selection = kept.as_ref().map_or(Ordering::Equal, |kept| told.selects.cmp(&kept.selects));
        match known.hear_alive(told.life, selection) {
            Step::Keep => {}
            Step::GoOn(life) => kept.iter_mut().for_each(|kept| kept.life = life),
            Step::Begin(life) => {
                *kept = Some(Kept { life, selects: told.selects, coverage: ChannelCoverage::default() });
                self.attached[subscription] = None;
            }
            Step::End(_) => unreachable!("nothing is ended here"),
        }
        let Some(kept) = kept.as_mut().filter(|kept| kept.selects == told.selects) else { return };
        kept.coverage.merge(&told.coverage).unwrap();
        if self.attached[subscription].is_some_and(|generation| generation < kept.life.generation) {
            self.attached[subscription] = None;
        }
    }

    /// Another broker serves a subscription.
    pub(crate) fn hear_attached(&mut self, subscription: usize, told: &Kept, there: Claim) {
        let kept = self.disk.subscriptions[subscription].as_ref();
        let is_same = kept.is_some_and(|kept| kept.selects == told.selects && kept.life.is_same(told.life));
        let here = self.attached[subscription]
            .map(|generation| Claim { generation, broker: BrokerId(self.id as u64) });
        if is_same && here.is_some_and(|here| here.gives_way_to(there)) {
            self.attached[subscription] = None;
        }
    }
}
