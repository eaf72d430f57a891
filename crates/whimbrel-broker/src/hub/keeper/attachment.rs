//! A durable subscription that is attached.

use std::collections::BTreeSet;
use std::sync::Arc;

use whimbrel_pubsub::coverage::{Coverage, Told};
use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::super::attachment::Progress;
use super::super::register::{Client, SubscriberRecord, SubscriptionKind};
use super::place::Place;
use super::presence::Served;
use super::refusals::unavailable;
use super::removed::removed;
use crate::durable::{Next, Reader};
use crate::selection::Selection;
use crate::store::{Batch, Log, Most, Position, StoreError, SubscriptionName};

/// How much is read from a log at once.
const READ: Most = Most { messages: 256, bytes: 64 << 10 };
/// The most reads until others get their turn, whether anything matches or not.
const MOST_READS: usize = 8;

/// A durable subscription that is attached. Dropping it detaches it; the subscription stays.
#[derive(Debug)]
pub struct DurableAttachment {
    place: Place,
    owner: Vec<u8>,
    served: Served,
    pub(super) unconfirmed: Vec<BrokerId>,
    parts: Vec<Part>,
    /// The part whose turn it is.
    turn: usize,
    /// Its entry for those who run the broker.
    record: Option<(u64, Arc<SubscriberRecord>)>,
}

/// The part in one channel.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) channel: ChannelId,
    pub(super) log: Log,
    pub(super) reader: Reader,
    /// Its number among those that follow the log.
    pub(super) number: u64,
}

impl DurableAttachment {
    pub(super) fn new(place: Place, owner: Vec<u8>, served: Served, parts: Vec<Part>) -> Self {
        Self { place, owner, served, unconfirmed: Vec::new(), parts, turn: 0, record: None }
    }

    /// Enters it for those who run the broker, as this client's. One that is not entered is not among the subscribers of a report.
    pub fn introduce(&mut self, client: &Arc<Client>, selection: &Selection) {
        let (channels, since) = (self.channels(), self.place.hub.clock.time());
        let (client, signal) = (Arc::clone(client), Arc::clone(&self.place.signal));
        let channels = channels.into_iter();
        let record =
            SubscriberRecord::new(client, SubscriptionKind::Durable, selection, signal, channels, since);
        self.record = Some(self.place.hub.register().subscribe(record));
        self.on_read();
    }

    /// The channels that may have messages for it.
    pub fn channels(&self) -> Vec<ChannelId> {
        self.parts.iter().map(|part| part.channel).collect()
    }

    /// Its name.
    pub(crate) fn name(&self) -> &SubscriptionName {
        &self.place.name
    }

    /// Whether all was read that its logs had when it was attached.
    pub(crate) fn is_through(&self) -> bool {
        self.parts.iter().all(|part| part.reader.position() >= part.reader.until())
    }

    /// Returns the number of times it was attached, this time included.
    pub fn generation(&self) -> u64 {
        self.served.life.generation
    }

    /// The brokers of the cluster that have not confirmed that they keep it.
    pub fn unconfirmed(&self) -> &[BrokerId] {
        &self.unconfirmed
    }

    /// Waits until there may be something to read.
    pub async fn woken(&self) {
        self.place.signal.woken().await;
    }

    /// Whether it was woken since it was read.
    pub fn is_ready(&self) -> bool {
        self.place.signal.is_ready()
    }

    /// Returns the coverage of everything settled so far, told or not, acknowledged or not.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        for part in &self.parts {
            if let Ok(entry) = coverage.entry(part.channel) {
                *entry = part.reader.coverage();
            }
        }
        coverage
    }

    /// Whether it was attached elsewhere or ended since, so that it has to end here.
    pub fn is_superseded(&self) -> bool {
        self.place.signal.is_superseded()
    }

    /// Why it has to end, for its client.
    pub fn end(&self) -> Refusal {
        let store = self.place.hub.keeper.opened();
        let other = store.and_then(|store| store.meta().subscription(&self.place.name));
        let other = other.filter(|other| other.selects() != self.served.selects);
        let why = other.map_or_else(
            || "the subscription was attached elsewhere, or ended".to_owned(),
            |other| {
                let selector = other.selector.as_ref().map(|text| format!(" and the selector `{text}`"));
                format!(
                    "another broker has made a durable subscription of this name, with the filter `{}`{}, and that one stays: use another name, \
                     or end it",
                    other.filter,
                    selector.unwrap_or_default()
                )
            },
        );
        Refusal::new(RefusalCode::Superseded, why)
    }

    /// Reads on until `tell` says that it is enough, there is nothing more, too much is not acknowledged, or enough was read for now.
    ///
    /// # Errors
    /// A log cannot be read.
    pub async fn read(&mut self, tell: impl FnMut(ChannelId, Told) -> bool) -> Result<Progress, Refusal> {
        self.place.signal.look();
        let progress = self.read_parts(tell).await;
        self.on_read();
        progress
    }

    async fn read_parts(
        &mut self,
        mut tell: impl FnMut(ChannelId, Told) -> bool,
    ) -> Result<Progress, Refusal> {
        let record = self.record.as_ref().map(|(_, record)| Arc::clone(record));
        let mut reads = 0;
        for _ in 0..self.parts.len() {
            let at = self.turn % self.parts.len();
            loop {
                let part = &mut self.parts[at];
                match part.reader.next(self.place.hub.clock.now().wall_ms) {
                    Next::Told(told) => {
                        if let Some(record) = &record {
                            record.on_told(at, &told);
                        }
                        if !tell(part.channel, told) {
                            return Ok(Progress::More);
                        }
                    }
                    Next::Hungry(position) if position < part.log.end() => {
                        if reads == MOST_READS {
                            return Ok(Progress::More);
                        }
                        reads += 1;
                        self.feed(at, position).await?;
                    }
                    // It goes on when more is stored, or more is acknowledged.
                    Next::Hungry(_) | Next::Full => break,
                }
            }
            self.turn = at + 1;
        }
        Ok(Progress::Idle)
    }

    /// Reads from the disk, elsewhere than on this task.
    async fn feed(&mut self, at: usize, position: Position) -> Result<(), Refusal> {
        let hub = Arc::clone(&self.place.hub);
        let (log, channel) = (self.parts[at].log.clone(), self.parts[at].channel);
        let read = hub.errands.run(&self.owner, move || log.read(position, READ)).await?;
        let part = &mut self.parts[at];
        match read {
            Ok(batch) => {
                if part.reader.feed(batch) {
                    let (log, kept) = (part.log.clone(), Arc::clone(&hub));
                    let removed = hub.errands.run(&self.owner, move || {
                        let held = log.held().map_err(unavailable)?;
                        let store = kept.keeper.opened().ok_or_else(|| unavailable("the store is closed"))?;
                        let removed = kept.room(channel).map(|room| removed(store.meta(), room, &held));
                        Ok::<_, Refusal>(removed.unwrap_or_default())
                    });
                    part.reader.sweep(&removed.await??);
                }
                Ok(())
            }
            Err(StoreError::Damaged(damage)) if damage.resume.is_some_and(|to| to > position) => {
                // The messages are lost at this broker. The index says which they were.
                let next = damage.resume.unwrap_or(position);
                let log = part.log.clone();
                let names = hub.errands.run(&self.owner, move || log.names(position, next)).await?;
                let names = names.map_err(unavailable)?;
                if let Some(room) = hub.room(channel) {
                    room.logging().on_unreadable(position, next);
                }
                part.reader.lose(&names);
                part.reader.feed(Batch { records: Vec::new(), next });
                Ok(())
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Has its places known: what is behind the end of the log as it was when it came is recovered.
    fn on_read(&self) {
        let Some((_, record)) = &self.record else { return };
        let mut is_idle = true;
        let places = self.parts.iter().map(|part| {
            let (end, position, until) = (part.log.end().0, part.reader.position().0, part.reader.until().0);
            let arrived = self.place.hub.room(part.channel).map_or(0, |room| room.read().end());
            is_idle &= position >= end;
            (arrived.saturating_sub(end.saturating_sub(position.max(until))), until.saturating_sub(position))
        });
        let places: Vec<_> = places.collect();
        record.on_read(places.into_iter(), is_idle);
    }

    /// Has all that is settled told at the next reading, without a message.
    pub fn tell_covers(&mut self) {
        self.parts.iter_mut().for_each(|part| part.reader.tell_covers());
    }

    /// The subscriber acknowledges. It is written, and told to other brokers, within a time. It does not wait for the disk.
    ///
    /// # Errors
    /// The acknowledged messages have more gaps than can be kept.
    pub fn acknowledge(&mut self, coverage: &Coverage) -> Result<(), Refusal> {
        let Some(store) = self.place.hub.keeper.opened() else { return Ok(()) };
        for part in &mut self.parts {
            let Some(coverage) = coverage.of(part.channel) else { continue };
            let acknowledged = part.reader.acknowledge(coverage);
            let new = acknowledged.map_err(|error| Refusal::new(RefusalCode::Limit, error))?;
            for (origin, range) in new {
                // One that was ended meanwhile, or whose coverage is full, gets nothing wrong by it.
                let named = (&self.place.name, self.served.selects);
                store.meta().cover_as(named, part.channel, origin, range).ok();
            }
        }
        self.place.hub.keeper.on_covered(&self.place.name);
        Ok(())
    }
}

impl Drop for DurableAttachment {
    fn drop(&mut self) {
        let hub = &self.place.hub;
        if let Some((number, _)) = self.record {
            hub.register().unsubscribe(number);
        }
        for part in &self.parts {
            if let Some(room) = hub.room(part.channel) {
                room.logging().unfollow(part.number);
            }
        }
        // Wherever it comes next, what it acknowledged is known soon.
        hub.sharers.tell_coverage(&BTreeSet::from([self.place.name.clone()]));
    }
}
