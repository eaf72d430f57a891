//! Automatic Changeover (MMSP): data leaves a primary path that fails, and returns to it once it has worked for a
//! while.

use std::net::IpAddr;
use std::time::Duration;

use super::path::Path;
use super::path_set::{At, Paths};
use super::path_state::PathState;
use crate::{PathId, Time};

/// How long a path that failed must have worked before data returns to it.
pub(in crate::connection) const PATIENCE: Duration = Duration::from_secs(2);
/// The longest such time. It doubles when a path fails again less than `STEADY` after data returned to it.
const LONGEST_PATIENCE: Duration = Duration::from_secs(64);
/// After this long without failing, a path counts as one that never failed.
const STEADY: Duration = Duration::from_secs(60);

/// Whether data has left a primary path, and when it returned to one.
#[derive(Debug, Default)]
pub(in crate::connection) struct Changeover {
    pub(in crate::connection) left: Option<Box<Left>>,
    pub(in crate::connection) returned: Option<Time>,
    pub(in crate::connection) patience: Duration,
}

/// The primary path that failed. It is also known by its addresses: a network that comes back may have another path,
/// and a NAT in between may use another port.
#[derive(Debug)]
pub(in crate::connection) struct Left {
    id: PathId,
    local: Option<IpAddr>,
    remote: IpAddr,
    /// Since when it has worked again.
    pub(in crate::connection) works: Option<Time>,
    /// Whether it was probed, at the end of that time, to see whether it still works.
    pub(in crate::connection) asked: bool,
}

impl Left {
    /// Returns the path itself while it is open, otherwise another one over the same networks. The current primary is
    /// not considered then: behind one NAT several paths look alike.
    pub(in crate::connection) fn find(&self, paths: &Paths) -> Option<At> {
        let open = |at: &At| paths[*at].lifecycle.state() != PathState::Closed;
        let alike = |at: &At| {
            let path = &paths[*at];
            *at != paths.main() && (self.local, self.remote) == (path.local(), path.remote().ip())
        };
        paths.by_id(self.id).filter(open).or_else(|| paths.all().filter(open).find(alike))
    }
}

impl Changeover {
    /// Records that the primary path failed. Of several that fail in a row, the first counts.
    pub(in crate::connection) fn on_failed(&mut self, now: Time, path: &Path) {
        if self.left.is_some() {
            return;
        }
        let again = self.returned.take().is_some_and(|returned| now.since(returned) < STEADY);
        self.patience = if again { (self.patience * 2).min(LONGEST_PATIENCE) } else { PATIENCE };
        let (local, remote) = (path.local(), path.remote().ip());
        self.left = Some(Box::new(Left { id: path.id(), local, remote, works: None, asked: false }));
    }

    /// Forgets the failed path, because one of the ends chose a primary.
    pub(in crate::connection) fn forget(&mut self) {
        self.left = None;
    }

    /// Returns when the path must be probed to see whether it still works.
    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        let left = self.left.as_ref().filter(|left| !left.asked)?;
        Some(left.works? + self.patience)
    }
}
