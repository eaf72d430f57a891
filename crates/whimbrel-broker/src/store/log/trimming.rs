//! Removing what nobody needs any more, and what there is no room or time for.

use std::sync::Arc;

use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::Origin;

use super::super::error::StoreError;
use super::core::Log;
use super::segments::Full;
use crate::locking::lock;

/// Counts of what was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Segments.
    pub segments: u64,
    /// Messages in them.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that a durable subscription still wanted, and that went because of a limit.
    pub uncovered: u64,
}

impl Log {
    /// Removes the oldest full segments that every durable subscription covers, and those beyond the limits of bytes and age. `wall_ms` is the
    /// time of day, milliseconds since 1970. `uncovered` says how many messages of a range some subscription does not cover.
    ///
    /// Call it about once a second, not under a lock. It reads the index of each segment it removes, and of one more.
    ///
    /// # Errors
    /// A file cannot be read or removed. It stays in the log then.
    pub fn trim(
        &self,
        wall_ms: u64,
        uncovered: impl Fn(Origin, Range) -> u64,
    ) -> Result<Trimmed, StoreError> {
        let shared = &self.shared;
        let _one_at_a_time = lock(&shared.trimming);
        let mut trimmed = Trimmed::default();
        while let Some(oldest) = self.oldest() {
            let is_beyond = self.is_beyond_limits(&oldest, wall_ms);
            let wanted = match shared.index(&oldest) {
                Ok(runs) => runs
                    .iter()
                    .flat_map(|runs| runs.iter())
                    .map(|(origin, range)| uncovered(origin, range))
                    .sum(),
                // Nobody knows what was in it.
                Err(StoreError::Damaged(_)) if is_beyond => u64::from(oldest.summary.messages),
                Err(error) => return Err(error),
            };
            if wanted > 0 && !is_beyond {
                break;
            }
            shared.disk.remove(&oldest.file).map_err(|error| StoreError::io(&oldest.file, error))?;
            {
                let mut segments = lock(&shared.segments);
                segments.full.pop_front();
                segments.after_all = segments.after_all.max(oldest.end());
            }
            shared.handles.forget(oldest.opening.first);
            trimmed.segments += 1;
            trimmed.messages += u64::from(oldest.summary.messages);
            trimmed.bytes += oldest.bytes;
            trimmed.uncovered += wanted;
        }
        if trimmed.segments > 0 {
            shared.disk.sync_folder(&shared.folder).map_err(|error| StoreError::io(&shared.folder, error))?;
        }
        self.end_old_segment(wall_ms);
        Ok(trimmed)
    }

    fn oldest(&self) -> Option<Arc<Full>> {
        lock(&self.shared.segments).full.front().cloned()
    }

    fn is_beyond_limits(&self, oldest: &Full, wall_ms: u64) -> bool {
        let settings = &self.shared.settings;
        let is_old = |arrived_ms| self.is_too_old(arrived_ms, wall_ms);
        settings.max_bytes.is_some_and(|most| lock(&self.shared.segments).bytes() > most)
            || is_old(oldest.summary.last_arrived)
    }

    fn is_too_old(&self, arrived_ms: u64, wall_ms: u64) -> bool {
        let age = u128::from(wall_ms.saturating_sub(arrived_ms));
        self.shared.settings.max_age.is_some_and(|most| age > most.as_millis())
    }

    /// Has the segment that is being written ended if all in it is too old, so that it can go the next time.
    fn end_old_segment(&self, wall_ms: u64) {
        let last = lock(&self.shared.segments)
            .active
            .as_ref()
            .filter(|active| active.index.messages() > 0)
            .map(|active| active.index.summary().last_arrived);
        if last.is_some_and(|arrived_ms| self.is_too_old(arrived_ms, wall_ms)) {
            self.shared.queue.ask_to_roll();
        }
    }
}
