//! The log as others use it: figures, appending and finding.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use whimbrel_pubsub::coverage::Ranges;
use whimbrel_pubsub::message::{ChannelId, Origin};

use super::index::Runs;
use super::shared::Shared;
use super::ticket::Ticket;
use crate::locking::lock;
use crate::store::error::{AppendError, Notice, StoreError};
use crate::store::format::Entry;
use crate::store::position::Position;

/// The log of a durable channel. Clones are handles to the same log.
#[derive(Clone)]
pub struct Log {
    pub(super) shared: Arc<Shared>,
}

/// Figures of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The position of the oldest message.
    pub begin: Position,
    /// The position of the next message.
    pub end: Position,
    /// The number of segments.
    pub segments: usize,
    /// The bytes of all segments.
    pub bytes: u64,
    /// The arrival time of the oldest message, milliseconds since 1970. `None` if the log is empty.
    pub oldest_ms: Option<u64>,
    /// The groups that were written since the log was opened. Each was synchronised once if `sync` is `always`.
    pub groups: u64,
}

impl Log {
    /// Returns the channel.
    pub fn channel(&self) -> ChannelId {
        self.shared.channel
    }

    /// Returns notices of everything that was found and put right when the log was opened.
    pub fn notices(&self) -> &[Notice] {
        &self.shared.notices
    }

    /// Appends a message. The ticket resolves when it is as safe as [`Sync`](crate::store::Sync) says. A message that was appended before is stored again:
    /// the channel's buffer knows what it has.
    ///
    /// # Errors
    /// The log is busy, broken or closed. Nothing is stored then.
    pub fn append(&self, entry: &Entry) -> Result<Ticket, AppendError> {
        self.shared.queue.push(entry)
    }

    /// Why the log takes nothing any more, if it does not. [`Store::log`](crate::store::Store::log) opens a broken one again.
    pub fn refusal(&self) -> Option<AppendError> {
        self.shared.queue.refusal()
    }

    /// Figures.
    pub fn figures(&self) -> Figures {
        let segments = lock(&self.shared.segments);
        Figures {
            begin: Position(segments.begin()),
            end: Position(segments.end()),
            segments: segments.full.len() + usize::from(segments.active.is_some()),
            bytes: segments.bytes(),
            oldest_ms: segments.oldest_ms(),
            groups: self.shared.groups.load(Ordering::Relaxed),
        }
    }

    /// Returns the position of the next message.
    pub fn end(&self) -> Position {
        Position(lock(&self.shared.segments).end())
    }

    /// Has `listener` called after each group, by the thread that writes, with the messages that were stored. Only the first one counts.
    pub fn on_stored(&self, listener: impl Fn(&[(Origin, u64)]) + Send + std::marker::Sync + 'static) {
        self.shared.listener.set(listener);
    }

    /// Returns the position of a message; `None` if it is not there.
    ///
    /// # Errors
    /// An index cannot be read.
    pub fn find(&self, origin: Origin, sequence: u64) -> Result<Option<Position>, StoreError> {
        let candidates = {
            let segments = lock(&self.shared.segments);
            if let Some(found) = segments.find_active(origin, sequence) {
                return Ok(Some(Position(found)));
            }
            segments.candidates(origin, sequence)
        };
        for full in candidates {
            let Some(runs) = self.shared.index(&full)? else { continue };
            if let Some(ordinal) = runs.find(origin, sequence) {
                return Ok(Some(Position(full.opening.first + u64::from(ordinal))));
            }
        }
        Ok(None)
    }

    /// Returns all that is stored, by origin and sequence: what a channel's buffer has to know after a start.
    ///
    /// # Errors
    /// An index cannot be read.
    pub fn held(&self) -> Result<BTreeMap<Origin, Ranges>, StoreError> {
        let (full, active) = {
            let segments = lock(&self.shared.segments);
            (segments.full.clone(), segments.active.as_ref().map(|active| active.index.runs()))
        };
        let mut held: BTreeMap<Origin, Ranges> = BTreeMap::new();
        for full in full {
            let Some(runs) = self.shared.index(&full)? else { continue };
            runs.iter().for_each(|(origin, range)| held.entry(origin).or_default().insert(range));
        }
        for (origin, range) in active.iter().flat_map(Runs::iter) {
            held.entry(origin).or_default().insert(range);
        }
        Ok(held)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("channel", &self.shared.channel)
            .field("figures", &self.figures())
            .finish()
    }
}
