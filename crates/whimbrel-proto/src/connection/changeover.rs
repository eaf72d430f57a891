//! Automatic Changeover (MMSP): data leaves a primary path that fails, and goes back to it once it has worked for a while.

use std::net::IpAddr;
use std::time::Duration;

use super::path::Path;
use super::paths::Paths;
use super::{At, Connection, PathState};
use crate::{PathId, Time};

/// A path that failed has to have worked for so long before data goes back to it.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same at the longest: it doubles when a path fails again before it had held for `STEADY`.
const LONGEST_PATIENCE: Duration = Duration::from_secs(64);
/// A path that held for so long is as good as one that never failed.
const STEADY: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Changeover {
    left: Option<Left>,
    returned: Option<Time>,
    patience: Duration,
}

/// The primary that failed. By its addresses: a network that comes back may have another path, and a NAT in between another port.
#[derive(Debug)]
struct Left {
    id: PathId,
    local: Option<IpAddr>,
    remote: IpAddr,
    /// It has worked since.
    works: Option<Time>,
    /// And was asked, after its time, whether it still does.
    asked: bool,
}

impl Left {
    /// The path itself, while there is one; else another over the same networks, but not the one that took its place: behind one NAT
    /// several look alike.
    fn find(&self, paths: &Paths) -> Option<At> {
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
    pub(super) fn on_failed(&mut self, now: Time, path: &Path) {
        if self.left.is_some() {
            return;
        }
        let again = self.returned.take().is_some_and(|returned| now.since(returned) < STEADY);
        self.patience = if again { (self.patience * 2).min(LONGEST_PATIENCE) } else { PATIENCE };
        let (local, remote) = (path.local, path.remote.ip());
        self.left = Some(Left { id: path.id, local, remote, works: None, asked: false });
    }

    /// Somebody said which path is to be the primary.
    pub(super) fn forget(&mut self) {
        self.left = None;
    }

    /// When the path has to be asked whether it still works.
    pub(super) fn timeout(&self) -> Option<Time> {
        let left = self.left.as_ref().filter(|left| !left.asked)?;
        Some(left.works? + self.patience)
    }
}

impl Connection {
    /// The path that stays the primary unless another is clearly better: the one that is, or, once, the one that was and works again.
    pub(super) fn incumbent(&mut self, now: Time) -> At {
        let main = self.paths.main();
        if !self.is_at_hand(main) && !self.paths[main].unwanted {
            self.changeover.on_failed(now, &self.paths[main]);
        }
        let Some(left) = &self.changeover.left else { return main };
        let works = left.find(&self.paths).filter(|at| self.is_at_hand(*at));
        let patience = self.changeover.patience;
        let Some(left) = &mut self.changeover.left else { return main };
        let Some(at) = works else {
            (left.works, left.asked) = (None, false);
            return main;
        };
        let due = *left.works.get_or_insert(now) + patience;
        if at != main && self.paths[at].recovery.last_heard() < due {
            return main;
        }
        self.changeover.left = None;
        self.changeover.returned = Some(now);
        at
    }

    /// Whether a path works is known of one that carries something.
    pub(super) fn ask_left(&mut self, now: Time) {
        if self.changeover.timeout().is_none_or(|due| due > now) {
            return;
        }
        if let Some(left) = &mut self.changeover.left {
            left.asked = true;
            if let Some(at) = left.find(&self.paths) {
                self.paths[at].keep_alive_due = true;
            }
        }
    }
}
