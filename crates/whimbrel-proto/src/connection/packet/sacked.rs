//! The paths that the SACKs in one packet report on.

use crate::connection::paths::path_set::MOST_PATHS;
use crate::{Cause, PathId, PeerMisbehaved};

/// The paths of which a packet has brought a SACK. Each SACK means a look at everything in flight, so a packet may hold
/// only one of each path.
#[derive(Debug, Default)]
pub(in crate::connection) struct Sacked {
    paths: [Option<PathId>; MOST_PATHS],
}

impl Sacked {
    /// Records a SACK of `path`.
    ///
    /// # Errors
    /// It is the second SACK of its path, or there are more SACKs than there can be paths.
    pub(in crate::connection) fn note(&mut self, path: PathId) -> Result<(), PeerMisbehaved> {
        let taken = self.paths.contains(&Some(path));
        match self.paths.iter_mut().find(|free| free.is_none()).filter(|_| !taken) {
            Some(free) => *free = Some(path),
            None => return Err(PeerMisbehaved::new(Cause::InvalidField, "two SACKs of a path in a packet")),
        }
        Ok(())
    }
}
