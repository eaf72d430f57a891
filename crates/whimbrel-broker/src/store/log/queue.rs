//! The queue in which appends wait for the writer.

use std::sync::{Condvar, Mutex};
use std::time::Instant;

use whimbrel_pubsub::message::{LONGEST_MESSAGE, Origin};

use super::super::error::AppendError;
use super::super::format::Entry;
use super::ticket::{Outcome, Promise, Ticket};
use crate::locking::lock;
use crate::store::format::{HEAD, Head, begin_record};

/// The most bytes that may wait, whatever the settings (32 MiB): the index of a segment that ends with such a group fits into a record.
const MOST_WAITING: usize = 32 << 20;

/// A record of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) origin: Origin,
    pub(super) sequence: u64,
    pub(super) arrived_ms: u64,
    /// Its head, without salt and place.
    pub(super) head: Head,
    /// Where it begins in the batch.
    pub(super) from: u32,
}

impl Name {
    /// The length of the whole record.
    pub(super) fn length(&self) -> u32 {
        HEAD as u32 + self.head.length
    }
}

/// Records that are written together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) names: Vec<Name>,
    pub(super) promise: Promise,
}

/// A task for the writer.
pub(super) enum Work {
    /// Write these.
    Write(Batch),
    /// The time to synchronise has come.
    Sync,
    /// Begin a new segment.
    Roll,
    /// End.
    Close,
}

/// Appends that wait, with a bound.
pub(super) struct Queue {
    most: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Batch,
    /// Why nothing is taken any more.
    refusal: Option<AppendError>,
    is_roll_wanted: bool,
}

impl Queue {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.min(MOST_WAITING), state: Mutex::default(), work: Condvar::new() }
    }

    /// Takes an entry. One is taken whatever its length if nothing waits.
    pub(super) fn push(&self, entry: &Entry) -> Result<Ticket, AppendError> {
        let length = entry.message.encoded().len();
        if length > LONGEST_MESSAGE {
            return Err(AppendError::TooLong(length));
        }
        let mut state = lock(&self.state);
        if let Some(refusal) = &state.refusal {
            return Err(refusal.clone());
        }
        let waiting = state.waiting.bytes.len();
        if waiting > 0 && waiting + length > self.most {
            return Err(AppendError::Busy(waiting));
        }
        let Batch { bytes, names, promise } = &mut state.waiting;
        let from = bytes.len() as u32;
        let head = begin_record(bytes, entry);
        let ticket = promise.ticket(names.len() as u32);
        let (origin, sequence) = (entry.stamp.origin, entry.stamp.sequence);
        names.push(Name { origin, sequence, arrived_ms: entry.arrived_ms, head, from });
        let is_first = names.len() == 1;
        drop(state);
        if is_first {
            self.work.notify_one();
        }
        Ok(ticket)
    }

    /// Asks the writer to begin a new segment.
    pub(super) fn ask_to_roll(&self) {
        lock(&self.state).is_roll_wanted = true;
        self.work.notify_one();
    }

    /// Takes nothing any more, for this reason unless there is one already. What waits is still written if that is possible.
    pub(super) fn refuse(&self, reason: AppendError) {
        lock(&self.state).refusal.get_or_insert(reason);
        self.work.notify_one();
    }

    /// Takes nothing any more, for this reason unless there is one already, and fails what waits.
    pub(super) fn fail(&self, reason: AppendError) {
        let (waiting, reason) = {
            let mut state = lock(&self.state);
            let reason = state.refusal.get_or_insert(reason).clone();
            (std::mem::take(&mut state.waiting), reason)
        };
        waiting.promise.finish(Outcome::Failed(reason));
    }

    /// Why nothing is taken any more.
    pub(super) fn refusal(&self) -> Option<AppendError> {
        lock(&self.state).refusal.clone()
    }

    /// Waits for something to do. `spare` is an empty buffer to be filled next.
    pub(super) fn next(&self, spare: &mut Vec<u8>, sync_at: Option<Instant>) -> Work {
        let mut state = lock(&self.state);
        loop {
            let left = sync_at.map(|at| at.saturating_duration_since(Instant::now()));
            // What is due goes first, since new appends may never end.
            if left.is_some_and(|left| left.is_zero()) {
                return Work::Sync;
            }
            if std::mem::take(&mut state.is_roll_wanted) {
                return Work::Roll;
            }
            if !state.waiting.names.is_empty() {
                let next = Batch { bytes: std::mem::take(spare), ..Batch::default() };
                return Work::Write(std::mem::replace(&mut state.waiting, next));
            }
            if state.refusal.is_some() {
                return Work::Close;
            }
            state = match left {
                Some(left) => match self.work.wait_timeout(state, left) {
                    Ok((state, _)) => state,
                    Err(poisoned) => poisoned.into_inner().0,
                },
                None => self.work.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner),
            };
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &lock(&self.state).waiting.bytes.len()).finish()
    }
}
