//! The thread that writes a log.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use whimbrel_pubsub::message::Origin;

use super::super::error::AppendError;
use super::super::position::Position;
use super::super::settings::Sync;
use super::file_names::file_name;
use super::queue::{Batch, Name, Work};
use super::seal;
use super::segments::{Active, Full};
use super::shared::Shared;
use super::tail::{Tail, Trouble};
use super::ticket::Outcome;
use crate::locking::lock;
use crate::store::disk::write_all;
use crate::store::format::{Head, Kind, LONGEST_BODY, OPENING, Opening, Salt};

/// The most messages of a segment, so that its index stays small. A group may go beyond it.
pub(super) const MOST_MESSAGES: u32 = 1 << 18;
/// The most origins of a segment. A group may go beyond it.
pub(super) const MOST_ORIGINS: usize = 1_024;
/// The longest buffer that is kept for the next group, bytes.
const LONGEST_SPARE: usize = 9 << 20;

const _: () = assert!(MOST_MESSAGES as usize * 2 * 20 <= LONGEST_BODY, "an index must fit into a record");

/// Writes what is queued. It owns the end of the active segment.
pub(super) struct Writer {
    shared: Arc<Shared>,
    /// The active segment's file.
    tail: Option<Tail>,
    spare: Vec<u8>,
    sync_at: Option<Instant>,
    /// The messages of the group that are stored.
    stored: Vec<(Origin, u64)>,
}

impl Writer {
    /// A writer that goes on behind `end` of the active segment, if there is one. All before it is on disk.
    pub(super) fn new(shared: Arc<Shared>, end: u32) -> Self {
        let tail = lock(&shared.segments).active.as_ref().map(|active| Tail {
            handle: active.handle.clone(),
            salt: active.opening.salt,
            end,
            synchronised: end,
        });
        Self { shared, tail, spare: Vec::new(), sync_at: None, stored: Vec::new() }
    }

    /// Writes until the log is closed or broken.
    pub(super) fn run(mut self) {
        loop {
            let trouble = match self.shared.queue.next(&mut self.spare, self.sync_at) {
                Work::Write(batch) => self.write(batch),
                Work::Sync => self.synchronise(),
                Work::Roll => self.roll(),
                Work::Close => return self.close(),
            };
            match trouble {
                Ok(()) | Err(Trouble::Full(_)) => {}
                Err(Trouble::Broken(error)) => return self.give_up(error),
            }
        }
    }

    /// Writes a batch, and tells its appenders.
    fn write(&mut self, mut batch: Batch) -> Result<(), Trouble> {
        self.stored.clear();
        let written = match self.prepare() {
            Ok(()) => self.store(&mut batch).or_else(|trouble| match trouble {
                Trouble::Full(error) if batch.names.len() > 1 => self.write_singly(&mut batch, error),
                trouble => Err(trouble),
            }),
            Err(trouble) => Err(trouble),
        };
        let (outcome, done) = match written {
            Ok(outcome) => (outcome, Ok(())),
            Err(Trouble::Full(error)) => (Outcome::Failed(AppendError::Full(error)), Ok(())),
            Err(Trouble::Broken(error)) => {
                let refusal = AppendError::Broken(error.clone());
                // Whoever hears of it and tries again must hear that the log is broken.
                self.shared.queue.refuse(refusal.clone());
                (Outcome::Failed(refusal), Err(Trouble::Broken(error)))
            }
        };
        self.shared.groups.fetch_add(1, Ordering::Relaxed);
        batch.promise.finish(outcome);
        self.shared.listener.call(&self.stored);
        batch.bytes.clear();
        if batch.bytes.capacity() <= LONGEST_SPARE {
            self.spare = batch.bytes;
        }
        done
    }

    /// Makes sure that there is a file with room.
    fn prepare(&mut self) -> Result<(), Trouble> {
        let is_full = self.tail.as_ref().is_some_and(|tail| tail.end >= self.shared.segment_bytes());
        let is_crowded = {
            let segments = lock(&self.shared.segments);
            segments.active.as_ref().is_some_and(|active| {
                active.index.messages() >= MOST_MESSAGES || active.index.origins() >= MOST_ORIGINS
            })
        };
        if is_full || is_crowded {
            self.roll()?;
        }
        if self.tail.is_none() { self.begin() } else { Ok(()) }
    }

    /// Begins a segment.
    fn begin(&mut self) -> Result<(), Trouble> {
        let shared = &self.shared;
        let first = lock(&shared.segments).end();
        let opening = Opening { channel: shared.channel, first, salt: Salt::random() };
        let path = shared.folder.join(file_name(first));
        let made = shared.disk.create(&path).and_then(|handle| {
            write_all(&*handle, &opening.encode(), 0)?;
            handle.sync()?;
            shared.disk.sync_folder(&shared.folder)?;
            Ok(handle)
        });
        let handle = made.map_err(|error| match shared.disk.remove(&path) {
            Err(left) if left.kind() != io::ErrorKind::NotFound => Trouble::broken(error),
            _ => Trouble::of(error),
        })?;
        self.tail =
            Some(Tail { handle: handle.clone(), salt: opening.salt, end: OPENING, synchronised: OPENING });
        lock(&shared.segments).active =
            Some(Active { file: path, opening, handle, index: Default::default() });
        Ok(())
    }

    /// Writes all of a batch as one.
    fn store(&mut self, batch: &mut Batch) -> Result<Outcome, Trouble> {
        let Some(tail) = &mut self.tail else { return Err(Trouble::broken(io::ErrorKind::NotFound.into())) };
        tail.address(&mut batch.bytes, &batch.names, 0);
        let base = tail.end;
        tail.append(&batch.bytes)?;
        if self.shared.settings.sync == Sync::Always {
            tail.synchronise()?;
        }
        self.sync_later();
        Ok(Outcome::Stored(self.note(base, &batch.names)))
    }

    /// Takes note of stored messages, the first record of which is at `base`. Returns the position of the first.
    fn note(&mut self, base: u32, names: &[Name]) -> Position {
        let mut segments = lock(&self.shared.segments);
        let first = Position(segments.end());
        if let Some(active) = &mut segments.active {
            let mut offset = base;
            for name in names {
                let end = offset + name.length();
                active.index.note((name.origin, name.sequence), name.arrived_ms, offset, end);
                self.stored.push((name.origin, name.sequence));
                offset = end;
            }
        }
        first
    }

    /// Writes the records of a batch one by one, as far as there is room.
    fn write_singly(&mut self, batch: &mut Batch, error: Arc<io::Error>) -> Result<Outcome, Trouble> {
        let Some(tail) = &mut self.tail else { return Err(Trouble::Full(error)) };
        let base = tail.end;
        let mut stored = Vec::new();
        let mut taken = Vec::new();
        let mut too_long = u32::MAX;
        for name in &batch.names {
            let from = name.from as usize;
            let record = &mut batch.bytes[from..from + name.length() as usize];
            let mut is_stored = name.length() < too_long;
            if is_stored {
                tail.address(record, &[*name], name.from);
                match tail.append(record) {
                    Ok(()) => taken.push(*name),
                    Err(Trouble::Full(_)) => {
                        is_stored = false;
                        too_long = name.length();
                    }
                    Err(trouble) => return Err(trouble),
                }
            }
            stored.push(is_stored);
        }
        if self.shared.settings.sync == Sync::Always {
            tail.synchronise()?;
        }
        self.sync_later();
        let mut next = self.note(base, &taken);
        let positions = stored.into_iter().map(|is_stored| {
            is_stored.then(|| {
                let position = next;
                next = Position(next.0 + 1);
                position
            })
        });
        Ok(Outcome::Some(positions.collect(), AppendError::Full(error)))
    }

    /// Sets the time of the next synchronisation, if there is to be one.
    fn sync_later(&mut self) {
        if let Sync::Interval(time) = self.shared.settings.sync {
            self.sync_at.get_or_insert_with(|| Instant::now() + time);
        }
    }

    fn synchronise(&mut self) -> Result<(), Trouble> {
        self.sync_at = None;
        self.tail.as_mut().map_or(Ok(()), Tail::synchronise)
    }

    /// Ends the active segment, unless it is empty.
    fn roll(&mut self) -> Result<(), Trouble> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        if lock(&self.shared.segments).active.as_ref().is_none_or(|active| active.index.messages() == 0) {
            return Ok(());
        }
        tail.synchronise()?;
        self.sync_at = None;
        let sealed = lock(&self.shared.segments)
            .active
            .as_ref()
            .map(|active| seal::encode(tail.salt, &active.index, tail.end));
        let Some((summary, end)) = sealed else { return Ok(()) };
        tail.append(&end)?;
        tail.synchronise()?;
        let bytes = tail.end.into();
        self.tail = None;
        let mut segments = lock(&self.shared.segments);
        if let Some(active) = segments.active.take() {
            let full = Full { file: active.file, opening: active.opening, summary, bytes };
            segments.full.push_back(Arc::new(full));
        }
        Ok(())
    }

    /// Says in the file that all of it is on disk.
    fn close(mut self) {
        let Some(tail) = &mut self.tail else { return };
        // Without the mark, the next start reads the end of the file again.
        tail.synchronise()
            .and_then(|()| {
                let head = Head { synchronised: tail.end, ..Head::of(Kind::Closed, &[]) };
                let record = head.encode(tail.salt, tail.end);
                tail.append(&record)?;
                tail.synchronise()
            })
            .ok();
    }

    /// Takes nothing any more. What was not acknowledged is cut off, if that is possible.
    fn give_up(self, error: Arc<io::Error>) {
        let stored = lock(&self.shared.segments).active.as_ref().map(|active| active.index.summary().end);
        if let (Some(tail), Some(end)) = (&self.tail, stored) {
            tail.handle.set_len(end.max(OPENING).into()).ok();
        }
        self.shared.queue.fail(AppendError::Broken(error));
    }
}

impl Drop for Writer {
    /// Leaves nobody waiting, whatever ended the thread.
    fn drop(&mut self) {
        self.shared.queue.fail(AppendError::Closed);
    }
}
