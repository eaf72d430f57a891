//! Automatic Changeover (MMSP): data leaves a primary path that fails, and goes back to it once it has worked for a while.

use std::net::IpAddr;
use std::time::Duration;

use super::path::Path;
use super::path_set::{At, Paths};
use super::path_state::PathState;
use crate::{PathId, Time};

/// A path that failed has to have worked for so long before data goes back to it.
pub(in crate::connection) const PATIENCE: Duration = Duration::from_secs(2);
/// The same at the longest: it doubles when a path fails again before it had held for `STEADY`.
const LONGEST_PATIENCE: Duration = Duration::from_secs(64);
/// A path that held for so long is as good as one that never failed.
const STEADY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(in crate::connection) struct Changeover {
    pub(in crate::connection) left: Option<Box<Left>>,
    pub(in crate::connection) returned: Option<Time>,
    pub(in crate::connection) patience: Duration,
}

/// The primary that failed. By its addresses: a network that comes back may have another path, and a NAT in between another port.
#[derive(Debug)]
pub(in crate::connection) struct Left {
    id: PathId,
    local: Option<IpAddr>,
    remote: IpAddr,
    /// It has worked since.
    pub(in crate::connection) works: Option<Time>,
    /// And was asked, after its time, whether it still does.
    pub(in crate::connection) asked: bool,
}

impl Left {
    /// The path itself, while there is one; else another over the same networks, but not the one that took its place: behind one NAT
    /// several look alike.
    pub(in crate::connection) fn find(&self, paths: &Paths) -> Option<At> {
        let open = |at: &At| paths[*at].lifecycle.state() != PathState::Closed;
        let alike = |at: &At| {
            let path = &paths[*at];
            *at != paths.main() && (self.local, self.remote) == (path.local, path.remote.ip())
        };
        paths.by_id(self.id).filter(open).or_else(|| paths.all().filter(open).find(alike))
    }
}

impl Changeover {
    /// The primary path fails; of several in a row the first counts.
    pub(in crate::connection) fn on_failed(&mut self, now: Time, path: &Path) {
        if self.left.is_some() {
            return;
        }
        let again = self.returned.take().is_some_and(|returned| now.since(returned) < STEADY);
        self.patience = if again { (self.patience * 2).min(LONGEST_PATIENCE) } else { PATIENCE };
        let (local, remote) = (path.local, path.remote.ip());
        self.left = Some(Box::new(Left { id: path.id, local, remote, works: None, asked: false }));
    }

    /// Somebody said which path is to be the primary.
    pub(in crate::connection) fn forget(&mut self) {
        self.left = None;
    }

    /// When the path has to be asked whether it still works.
    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        let left = self.left.as_ref().filter(|left| !left.asked)?;
        Some(left.works? + self.patience)
    }
}
