//! The log of one durable channel.
//!
//! Appenders leave encoded records in the `queue`. The `writer`, a thread, takes all that wait at once, writes them behind the last segment,
//! synchronises, takes note of them in the index, and tells the `ticket`s. Readers see what is stored, never more.

mod first;
mod handles;
mod index;
mod listener;

mod queue;
mod reading;
mod recovery;
mod salvage;
mod scan;
mod seal;
mod segments;
mod tail;
mod ticket;
mod trimming;
mod window;
mod within;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use whimbrel_pubsub::coverage::Ranges;
use whimbrel_pubsub::message::{ChannelId, Origin};

pub use reading::{Batch, Most, Record};
pub(super) use recovery::OpenLog;
pub use salvage::{Salvaged, salvage};
pub use ticket::Ticket;
pub use trimming::Trimmed;

use self::handles::Handles;
use self::listener::Listener;
use self::queue::Queue;
use self::segments::Segments;
use super::disk::Disk;
use super::error::{AppendError, Damage, Notice, StoreError};
use super::format::Entry;
use super::settings::LogSettings;

/// A place in a log's order of arrival. It means nothing after the log was opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

/// The log of a durable channel. Clones are handles to the same log.
#[derive(Clone)]
pub struct Log {
    shared: Arc<Shared>,
}

/// The state that handles and the writer share.
#[derive(Debug)]
struct Shared {
    channel: ChannelId,
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    queue: Queue,
    segments: Mutex<Segments>,
    handles: Handles,
    /// Held while segments are removed.
    trimming: Mutex<()>,
    notices: Vec<Notice>,
    groups: AtomicU64,
    listener: Listener,
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
    /// When the oldest message arrived, milliseconds since 1970. `None` if there is none.
    pub oldest_ms: Option<u64>,
    /// The groups that were written since the log was opened. Each was synchronised once if `sync` is `always`.
    pub groups: u64,
}

impl Log {
    /// The channel.
    pub fn channel(&self) -> ChannelId {
        self.shared.channel
    }

    /// Returns notices of everything that was found and put right when the log was opened.
    pub fn notices(&self) -> &[Notice] {
        &self.shared.notices
    }

    /// Appends a message. The ticket resolves when it is as safe as [`Sync`](super::Sync) says. A message that was appended before is stored again:
    /// the channel's buffer knows what it has.
    ///
    /// # Errors
    /// The log is busy, broken or closed. Nothing is stored then.
    pub fn append(&self, entry: &Entry) -> Result<Ticket, AppendError> {
        self.shared.queue.push(entry)
    }

    /// Why the log takes nothing any more, if it does not. [`Store::log`](super::Store::log) opens a broken one again.
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

    /// The position of the next message.
    pub fn end(&self) -> Position {
        Position(lock(&self.shared.segments).end())
    }

    /// Has `listener` called after each group, by the thread that writes, with the messages that were stored. Only the first one counts.
    pub fn on_stored(&self, listener: impl Fn(&[(Origin, u64)]) + Send + std::marker::Sync + 'static) {
        self.shared.listener.set(listener);
    }

    /// The position of a message; `None` if it is not there.
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

    /// All that is stored, by origin and sequence: what a channel's buffer has to know after a start.
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
        for (origin, range) in active.iter().flat_map(index::Runs::iter) {
            held.entry(origin).or_default().insert(range);
        }
        Ok(held)
    }
}

impl Shared {
    fn segment_bytes(&self) -> u32 {
        self.settings.segment_bytes.clamp(4 << 10, 1 << 30)
    }

    /// The index of a full segment; `None` if the segment was trimmed meanwhile.
    fn index(&self, full: &segments::Full) -> Result<Option<Arc<index::Runs>>, StoreError> {
        match self.handles.index(full) {
            Ok(Some(runs)) => Ok(Some(runs)),
            Ok(None) => Err(StoreError::Damaged(Damage {
                file: full.file.clone(),
                offset: full.summary.runs.into(),
                why: "the segment's index is not as it was written",
                resume: None,
            })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !self.has(full.opening.first) => {
                Ok(None)
            }
            Err(error) => Err(StoreError::io(&full.file, error)),
        }
    }

    /// Whether the segment whose first message has this position is there.
    fn has(&self, first: u64) -> bool {
        let segments = lock(&self.segments);
        let is_full = segments.full.binary_search_by_key(&first, |full| full.opening.first).is_ok();
        is_full || segments.active.as_ref().is_some_and(|active| active.opening.first == first)
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

/// Locks a mutex, even if a panic elsewhere poisoned it: no lock here is held over a change that can panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a segment file.
fn file_name(first: u64) -> String {
    format!("{first:020}.seg")
}

/// The position in the name of a segment file.
fn position_in(path: &Path) -> Option<u64> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".seg")?;
    if stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit()) { stem.parse().ok() } else { None }
}
