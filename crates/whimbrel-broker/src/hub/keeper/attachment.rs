//! A durable subscription that is attached.

use std::sync::Arc;

use whimbrel_pubsub::coverage::{Coverage, Told};
use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::ChannelId;

use super::super::{Hub, Progress};
use super::attaching::floors;
use super::{Presence, unavailable};
use crate::durable::{Next, Reader};
use crate::hub::signal::Signal;
use crate::store::{Batch, Log, Most, Position, StoreError, SubscriptionName};

/// How much is read from a log at once.
const READ: Most = Most { messages: 256, bytes: 64 << 10 };

/// A durable subscription that is attached. Dropping it detaches it; the subscription stays.
#[derive(Debug)]
pub struct DurableAttachment {
    hub: Arc<Hub>,
    name: SubscriptionName,
    number: u64,
    signal: Arc<Signal>,
    parts: Vec<Part>,
    /// The part whose turn it is.
    turn: usize,
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
    pub(super) fn new(
        hub: Arc<Hub>,
        name: SubscriptionName,
        number: u64,
        signal: Arc<Signal>,
        parts: Vec<Part>,
    ) -> Self {
        Self { hub, name, number, signal, parts, turn: 0 }
    }

    /// The channels that may have messages for it.
    pub fn channels(&self) -> Vec<ChannelId> {
        self.parts.iter().map(|part| part.channel).collect()
    }

    /// Waits until there may be something to read.
    pub async fn woken(&self) {
        self.signal.woken().await;
    }

    /// Whether it was woken since it was read.
    pub fn is_ready(&self) -> bool {
        self.signal.is_ready()
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
        self.signal.is_superseded()
    }

    /// Reads on until `tell` says that it is enough, there is nothing more, or too much is not acknowledged.
    ///
    /// # Errors
    /// A log cannot be read.
    pub async fn read(&mut self, mut tell: impl FnMut(ChannelId, Told) -> bool) -> Result<Progress, Refusal> {
        self.signal.look();
        for _ in 0..self.parts.len() {
            let at = self.turn % self.parts.len();
            loop {
                let part = &mut self.parts[at];
                match part.reader.next(self.hub.clock.now().wall_ms) {
                    Next::Told(told) => {
                        if !tell(part.channel, told) {
                            return Ok(Progress::More);
                        }
                    }
                    Next::Hungry(position) if position < part.log.end() => {
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
        let permit = Arc::clone(&self.hub.keeper.reads).acquire_owned().await;
        let (hub, part) = (Arc::clone(&self.hub), &mut self.parts[at]);
        let (log, channel) = (part.log.clone(), part.channel);
        let read = tokio::task::spawn_blocking(move || {
            let read = log.read(position, READ);
            drop(permit);
            read
        });
        match read.await.map_err(unavailable)? {
            Ok(batch) => {
                if part.reader.feed(batch) {
                    let (log, hub) = (part.log.clone(), hub);
                    let swept = tokio::task::spawn_blocking(move || {
                        let held = log.held().map_err(unavailable)?;
                        let store = hub.keeper.opened().ok_or_else(|| unavailable("the store is closed"))?;
                        let floors = hub.room(channel).map(|room| floors(&store, room, &held));
                        Ok::<_, Refusal>((held, floors.unwrap_or_default()))
                    });
                    let (held, floors) = swept.await.map_err(unavailable)??;
                    part.reader.sweep(&held, &floors);
                }
                Ok(())
            }
            Err(StoreError::Damaged(damage)) if damage.resume.is_some_and(|to| to > position) => {
                // The messages are lost at this broker. What they were is not known.
                let next = damage.resume.unwrap_or(position);
                part.reader.feed(Batch { records: Vec::new(), next });
                Ok(())
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Has all that is settled told at the next reading, without a message.
    pub fn tell_covers(&mut self) {
        self.parts.iter_mut().for_each(|part| part.reader.tell_covers());
    }

    /// The subscriber acknowledges. It is written within a time. It does not wait for the disk.
    ///
    /// # Errors
    /// The acknowledged messages have more gaps than can be kept.
    pub fn acknowledge(&mut self, coverage: &Coverage) -> Result<(), Refusal> {
        let Some(store) = self.hub.keeper.opened() else { return Ok(()) };
        for part in &mut self.parts {
            let Some(coverage) = coverage.of(part.channel) else { continue };
            let acknowledged = part.reader.acknowledge(coverage);
            let new = acknowledged.map_err(|error| Refusal::new(RefusalCode::Limit, error))?;
            for (origin, range) in new {
                // One that was ended meanwhile, or whose coverage is full, gets nothing wrong by it.
                store.meta().cover(&self.name, part.channel, origin, range).ok();
            }
        }
        Ok(())
    }
}

impl Drop for DurableAttachment {
    fn drop(&mut self) {
        for part in &self.parts {
            if let Some(room) = self.hub.room(part.channel) {
                room.logging().unfollow(part.number);
            }
        }
        let mut presence = self.hub.keeper.presence();
        if let Some(Presence::Attached { number, .. }) = presence.get(&self.name)
            && *number == self.number
        {
            presence.insert(self.name.clone(), Presence::Away(self.hub.clock.now().wall_ms));
        }
    }
}
