//! The messages of an origin that a log has.

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::Origin;

use super::super::error::StoreError;
use super::super::position::Position;
use super::core::Log;
use super::index::Runs;
use crate::locking::lock;

/// The most indices that one look reads.
const MOST_INDICES: usize = 16;

impl Log {
    /// Returns which messages of a range are there, about `most` of them, and whether these are all. It reads the indices of the segments that
    /// may have some, the oldest first, at most 16 of them.
    ///
    /// # Errors
    /// An index cannot be read.
    pub fn within(&self, origin: Origin, range: Range, most: u64) -> Result<(Ranges, bool), StoreError> {
        let (full, active) = {
            let segments = lock(&self.shared.segments);
            let full: Vec<_> =
                segments.full.iter().filter(|full| full.may_have_any(origin, range)).cloned().collect();
            (full, segments.active.as_ref().map(|active| active.index.runs()))
        };
        let mut found = Ranges::default();
        for (nth, full) in full.iter().enumerate() {
            if nth == MOST_INDICES || found.count() >= most {
                return Ok((found, false));
            }
            let Some(runs) = self.shared.index(full)? else { continue };
            let of_origin = runs.iter().filter(|(other, _)| *other == origin);
            of_origin.filter_map(|(_, run)| run.and(range)).for_each(|part| found.insert(part));
        }
        for (_, run) in active.iter().flat_map(Runs::iter).filter(|(other, _)| *other == origin) {
            run.and(range).into_iter().for_each(|part| found.insert(part));
        }
        Ok((found, true))
    }

    /// Returns the names of the messages between two positions, as the index has them.
    ///
    /// # Errors
    /// An index cannot be read.
    pub fn names(&self, from: Position, until: Position) -> Result<Vec<(Origin, Range)>, StoreError> {
        let (full, active) = {
            let segments = lock(&self.shared.segments);
            let active = segments.active.as_ref().map(|active| (active.opening.first, active.index.runs()));
            let full = segments.full.iter();
            let full = full.filter(|full| full.end() > from.0 && full.opening.first < until.0).cloned();
            (full.collect::<Vec<_>>(), active)
        };
        let mut names = Vec::new();
        for full in full {
            if let Some(runs) = self.shared.index(&full)? {
                names.extend(runs.between(full.opening.first, (from.0, until.0)));
            }
        }
        names.extend(active.iter().flat_map(|(first, runs)| runs.between(*first, (from.0, until.0))));
        Ok(names)
    }
}
