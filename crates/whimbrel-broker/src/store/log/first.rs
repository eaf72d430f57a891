//! The position from which a subscription has to read.

use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::Origin;

use super::super::error::StoreError;
use super::super::position::Position;
use super::core::Log;
use crate::locking::lock;

impl Log {
    /// Returns the position of the first message that is not covered, or the end. `lowest` says the lowest sequence of a range that is not
    /// covered. It reads the index of each full segment up to there, so it may take a while.
    ///
    /// # Errors
    /// An index cannot be read.
    pub fn first(&self, lowest: impl Fn(Origin, Range) -> Option<u64>) -> Result<Position, StoreError> {
        let (full, active, end) = {
            let segments = lock(&self.shared.segments);
            let active = segments.active.as_ref().map(|active| (active.opening.first, active.index.runs()));
            (segments.full.clone(), active, segments.end())
        };
        for full in full {
            let runs = match self.shared.index(&full) {
                Ok(Some(runs)) => runs,
                Ok(None) => continue,
                // Nobody knows what is in it: whoever reads it finds out.
                Err(StoreError::Damaged(_)) => return Ok(Position(full.opening.first)),
                Err(error) => return Err(error),
            };
            if let Some(ordinal) = runs.first(&lowest) {
                return Ok(Position(full.opening.first + u64::from(ordinal)));
            }
        }
        let found = active.and_then(|(first, runs)| Some(first + u64::from(runs.first(&lowest)?)));
        Ok(Position(found.unwrap_or(end)))
    }
}
