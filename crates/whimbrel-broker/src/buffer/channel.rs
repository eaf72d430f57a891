//! A channel's buffer: what it consists of, and what can be asked of it.

use std::collections::BTreeSet;
use std::time::Duration;

use whimbrel_pubsub::message::{BrokerId, ChannelId, Message, Origin, PartitionId, Publications, Stamp};

use super::arrivals::{Arrivals, Entry};
use super::hybrid::HybridClock;
use super::newest::Newest;
use super::origin_log::OriginLog;
use super::origins::Origins;
use super::partition::Partition;
use super::places::LogIndex;
use super::places::SlotId;
use super::retained::Retained;
use super::settings::{ChannelSettings, PartitionSettings};
use super::slots::{Slot, Slots};
use super::tally::MOST_PARTITIONS;
use crate::Time;
use crate::mutants::{Mutant, planted};

/// The most places that are looked at for the oldest messages.
const LOOKED_AT: usize = 4_096;

/// The part of a channel that one broker holds.
#[derive(Debug)]
pub struct Channel {
    pub(super) settings: ChannelSettings,
    pub(super) own: Origin,
    pub(super) origins: Origins,
    pub(super) slots: Slots,
    pub(super) arrivals: Arrivals,
    pub(super) partitions: Vec<Partition>,
    /// The number of own messages in each partition.
    pub(super) ordinals: Vec<u64>,
    pub(super) newest: Newest,
    pub(super) retained: Retained,
    pub(super) publications: Publications<Stamp>,
    pub(super) clock: HybridClock,
    /// When slots are emptied whatever the policies say.
    pub(super) ends: BTreeSet<(Time, SlotId)>,
    /// The number of messages given up because no broker has them.
    pub(super) losses: u64,
    /// How often the messages of a run were given up for those of another.
    pub(super) runs_given_up: u64,
}

/// Figures of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Messages that are held.
    pub messages: u64,
    /// Their encoded bytes.
    pub bytes: u64,
    /// Messages for which there is room at the present rate.
    pub room: u64,
    /// Messages that were overwritten.
    pub overwritten: u64,
}

impl Channel {
    /// An empty channel. `own` is this run of this broker, with a new random epoch. At most 250 partitions are used, and one if none is given.
    pub fn new(settings: ChannelSettings, own: Origin, now: Time) -> Self {
        let own = if planted(Mutant::EpochReused) { Origin { epoch: 1, ..own } } else { own };
        let log = OriginLog::new(own, &settings, now);
        let partitions = settings.partitions.iter().take(MOST_PARTITIONS).cloned().map(Partition::new);
        let mut partitions: Vec<_> = partitions.collect();
        if partitions.is_empty() {
            partitions.push(Partition::new(PartitionSettings::default()));
        }
        Self {
            own,
            origins: Origins::new(log),
            slots: Slots::default(),
            arrivals: Arrivals::default(),
            ordinals: vec![0; partitions.len()],
            partitions,
            newest: Newest::default(),
            retained: Retained::default(),
            publications: Publications::new(settings.most_publishers),
            clock: HybridClock::default(),
            ends: BTreeSet::new(),
            losses: 0,
            runs_given_up: 0,
            settings,
        }
    }

    /// The channel's id.
    pub fn id(&self) -> ChannelId {
        self.settings.id
    }

    /// The settings.
    pub fn settings(&self) -> &ChannelSettings {
        &self.settings
    }

    /// Records whether another broker carries the channel.
    pub fn carry(&mut self, broker: BrokerId, carries: bool, now: Time) {
        let peers = &mut self.settings.peers;
        peers.retain(|peer| *peer != broker);
        if carries {
            peers.push(broker);
            // It may have what is missing.
            self.origins.iter_mut().filter(|log| log.is_missing_any()).for_each(|log| log.asking.on_gap(now));
        }
    }

    /// The origin of what is published here.
    pub fn own(&self) -> Origin {
        self.own
    }

    /// The position of the next arrival.
    pub fn end(&self) -> u64 {
        self.arrivals.end()
    }

    /// The first arrival from `position` on that was not removed.
    #[inline]
    pub fn from(&self, position: u64) -> Option<Entry> {
        self.arrivals.from(position)
    }

    /// A held message.
    #[inline]
    pub fn slot(&self, slot: SlotId) -> Option<&Slot> {
        self.slots.find(slot)
    }

    /// The newest held message with the topic and key of `message`.
    pub fn newest(&self, message: &Message) -> Option<(SlotId, &Slot)> {
        let slot = self.newest.of(message)?;
        Some((slot, self.slot(slot)?))
    }

    /// The log of an origin, and its index.
    pub fn log_of(&self, origin: Origin) -> Option<(LogIndex, &OriginLog)> {
        self.origins.find(origin)
    }

    /// The log with this index, unless it was forgotten.
    #[inline]
    pub fn log(&self, index: LogIndex) -> Option<&OriginLog> {
        self.origins.at(index)
    }

    /// All logs.
    pub fn logs(&self) -> impl Iterator<Item = (LogIndex, &OriginLog)> {
        self.origins.iter()
    }

    /// The number of indices of logs.
    pub fn log_indices(&self) -> usize {
        self.origins.len()
    }

    /// Returns the number of times an origin was forgotten and its index reused.
    pub fn forgotten(&self) -> u64 {
        self.origins.forgotten()
    }

    /// The message `sequence` of `origin`, if it is held.
    pub fn find(&self, origin: Origin, sequence: u64) -> Option<&Slot> {
        let (_, log) = self.log_of(origin)?;
        self.slot(*log.held.get(&sequence)?)
    }

    /// The last values of topics.
    pub fn retained(&self) -> &Retained {
        &self.retained
    }

    /// Returns the number of messages given up because no broker has them.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Returns the number of times the held messages of a broker's run were given up, since there were too many runs.
    pub fn runs_given_up(&self) -> u64 {
        self.runs_given_up
    }

    /// Figures of a partition.
    pub fn figures(&self, partition: PartitionId) -> Option<Figures> {
        let partition = self.partitions.get(usize::from(partition.0))?;
        Some(Figures {
            messages: partition.load.messages,
            bytes: partition.load.bytes,
            room: partition.room().messages,
            overwritten: partition.overwritten,
        })
    }

    /// Returns the age of the oldest message of each partition. `None` for an empty one, and where so many of other partitions are older that it
    /// is not looked for further.
    pub fn oldest(&self, now: Time) -> Vec<Option<Duration>> {
        let mut oldest = vec![None; self.partitions.len()];
        let mut left = self.partitions.iter().filter(|partition| partition.load.messages > 0).count();
        let mut position = 0;
        for _ in 0..LOOKED_AT {
            let Some(entry) = self.from(position).filter(|_| left > 0) else { break };
            position = entry.arrival + 1;
            let Some(slot) = entry.slot().and_then(|slot| self.slot(slot)) else { continue };
            let place = &mut oldest[usize::from(slot.stamp.partition.0)];
            if place.is_none() {
                *place = Some(slot.age(now));
                left -= 1;
            }
        }
        oldest
    }

    /// The partition to which `message` belongs.
    pub fn partition_of(&self, message: &Message) -> PartitionId {
        let place = self.partitions.iter().position(|partition| partition.settings.rule.picks(message));
        PartitionId(place.unwrap_or(self.partitions.len().saturating_sub(1)) as u8)
    }
}
