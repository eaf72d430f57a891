//! A SACK that came.

use crate::connection::paths::path_set::MOST_PATHS;
use crate::{Cause, PathId, PeerMisbehaved};

/// The paths a packet has brought a SACK of. Each looks at all that is in flight, so a packet may hold one of a path.
#[derive(Debug, Default)]
pub(in crate::connection) struct Sacked {
    paths: [Option<PathId>; MOST_PATHS],
}

impl Sacked {
    /// # Errors
    /// It is the second of its path, or one more than there can be paths.
    pub(in crate::connection) fn note(&mut self, path: PathId) -> Result<(), PeerMisbehaved> {
        let taken = self.paths.contains(&Some(path));
        match self.paths.iter_mut().find(|free| free.is_none()).filter(|_| !taken) {
            Some(free) => *free = Some(path),
            None => return Err(PeerMisbehaved::new(Cause::InvalidField, "two SACKs of a path in a packet")),
        }
        Ok(())
    }
}
