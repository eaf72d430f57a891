//! Answers from the log to what the buffer has overwritten.

use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::frame::Refusal;
use whimbrel_pubsub::message::{BrokerId, ChannelId, Origin};

use super::between::Aged;
use super::core::Hub;
use crate::store::{Log, Most, StoreError};

/// The most messages in an answer.
const MOST_MESSAGES: usize = 4_096;
/// The most bytes of messages in an answer, or one message (1 MiB).
const MOST_BYTES: usize = 1 << 20;
/// The most reads of the log for an answer.
const MOST_READS: usize = 16;
/// How much is read at once.
const READ: Most = Most { messages: 1_000, bytes: 256 << 10 };

/// The part of a question that a log answers. What it does not mention may be asked for again.
#[derive(Debug, Default)]
pub struct Dug {
    /// Messages, each with its age.
    pub messages: Vec<Aged>,
    /// Messages that are not in the log either.
    pub gone: Vec<Range>,
}

impl Hub {
    /// Whether a channel has a log that may answer.
    pub fn has_log(&self, channel: ChannelId) -> bool {
        self.room(channel).is_some_and(|room| room.logging().log().is_some())
    }

    /// Looks for a peer as [`Hub::dig`] does, in a thread.
    ///
    /// # Errors
    /// The broker stops.
    pub async fn dig_for(
        self: &Arc<Self>,
        peer: BrokerId,
        channel: ChannelId,
        origin: Origin,
        ranges: Vec<Range>,
    ) -> Result<Dug, Refusal> {
        let hub = Arc::clone(self);
        // Its questions do not wait for what it tells of subscriptions.
        let share = [&peer.0.to_le_bytes()[..], b"log"].concat();
        self.errands.run(&share, move || hub.dig(channel, origin, &ranges)).await
    }

    /// Looks in the log of a channel for messages that its buffer does not hold any more. It reads the disk.
    pub fn dig(&self, channel: ChannelId, origin: Origin, ranges: &[Range]) -> Dug {
        let mut digging =
            Digging { dug: Dug::default(), bytes: 0, reads: 0, wall_ms: self.clock.now().wall_ms };
        match self.room(channel).and_then(|room| room.logging().log()) {
            Some(log) => ranges.iter().for_each(|range| digging.dig(log, origin, *range)),
            None => digging.dug.gone.extend_from_slice(ranges),
        }
        digging.dug
    }
}

struct Digging {
    dug: Dug,
    bytes: usize,
    reads: usize,
    wall_ms: u64,
}

impl Digging {
    fn is_full(&self) -> bool {
        self.dug.messages.len() >= MOST_MESSAGES || self.bytes >= MOST_BYTES || self.reads >= MOST_READS
    }

    fn dig(&mut self, log: &Log, origin: Origin, range: Range) {
        if self.is_full() {
            return;
        }
        self.reads += 1;
        let Ok((mut left, is_whole)) = log.within(origin, range, MOST_MESSAGES as u64) else { return };
        if is_whole {
            self.dug.gone.extend(left.gaps(range));
        }
        while !self.is_full() {
            let Some(next) = left.iter().next() else { return };
            self.reads += 1;
            let position = match log.find(origin, next.first) {
                Ok(Some(position)) => position,
                // It was removed meanwhile.
                Ok(None) => {
                    left = without(&left, next.first);
                    continue;
                }
                Err(_) => return,
            };
            match log.read(position, READ) {
                Ok(batch) => {
                    let mut found = Ranges::default();
                    for record in batch.records {
                        let stamp = record.entry.stamp;
                        let is_wanted = stamp.origin == origin
                            && left.contains(stamp.sequence)
                            && !found.contains(stamp.sequence);
                        if !is_wanted || self.dug.messages.len() >= MOST_MESSAGES || self.bytes >= MOST_BYTES
                        {
                            continue;
                        }
                        found.insert(Range { first: stamp.sequence, last: stamp.sequence });
                        self.bytes += record.entry.message.encoded().len();
                        let since =
                            Duration::from_millis(self.wall_ms.saturating_sub(record.entry.arrived_ms));
                        let age = record.entry.age.saturating_add(since);
                        self.dug.messages.push((stamp, record.entry.message, age));
                    }
                    if found.is_empty() {
                        return;
                    }
                    left = left.iter().flat_map(|range| found.gaps(range)).collect();
                }
                // It is here no more than if it had been removed.
                Err(StoreError::Damaged(_)) => {
                    self.dug.gone.push(Range { first: next.first, last: next.first });
                    left = without(&left, next.first);
                }
                Err(_) => return,
            }
        }
    }
}

fn without(ranges: &Ranges, sequence: u64) -> Ranges {
    let one = Ranges::of(Range { first: sequence, last: sequence });
    ranges.iter().flat_map(|range| one.gaps(range)).collect()
}
