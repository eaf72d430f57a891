//! Automatic Changeover (MMSP): data leaves a primary path that fails, and returns to it once it has worked for a
//! while.

use std::net::IpAddr;
use std::time::Duration;

use super::path::Path;
use super::path_set::{At, Paths};
use super::path_state::PathState;
use crate::{PathId, Time};

/// A path that is heard again within this time was held and did not fail: a radio that scans or sleeps. Until then
/// another path stands in for it. A path that works is left for a faster one only if that is faster for so long.
const HELD: Duration = Duration::from_millis(500);
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
    returned: Option<Time>,
    /// How long the path that returned last must have worked before.
    patience: Duration,
    /// The primary path as the application knows it. None: it has never changed.
    told: Option<PathId>,
    /// Since when another path has been clearly faster than the primary.
    slower: Option<Time>,
    /// When data last returned to a path that was only held.
    resumed: Option<Time>,
}

/// The primary path that failed. It is also known by its addresses: a network that comes back may have another path,
/// and a NAT in between may use another port.
#[derive(Debug)]
pub(in crate::connection) struct Left {
    id: PathId,
    local: Option<IpAddr>,
    remote: IpAddr,
    since: Time,
    /// Since when it has worked again.
    works: Option<Time>,
    /// How long it must work before data returns to it.
    patience: Duration,
    /// Whether it was probed, at the end of that time, to see whether it still works.
    asked: bool,
    /// Whether the application knows that another path is the primary.
    told: bool,
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

    /// Returns whether the path is silent, and may be heard again at any moment.
    fn may_be_held(&self, now: Time, paths: &Paths) -> bool {
        let silent = |at: At| matches!(paths[at].lifecycle.state(), PathState::Suspect | PathState::Down);
        now.since(self.since) < HELD && paths.by_id(self.id).is_some_and(silent)
    }

    fn ask_at(&self) -> Option<Time> {
        Some(self.works? + self.patience).filter(|_| !self.asked)
    }
}

impl Changeover {
    /// Records that the primary path failed. Of several that fail in a row, the first counts.
    pub(in crate::connection) fn on_failed(&mut self, now: Time, path: &Path) {
        if self.left.is_some() {
            return;
        }
        let again = self.returned.is_some_and(|returned| now.since(returned) < STEADY);
        let patience = if again { (self.patience * 2).min(LONGEST_PATIENCE) } else { PATIENCE };
        let (local, remote) = (path.local(), path.remote().ip());
        let (id, since) = (path.id(), now);
        let left = Left { id, local, remote, since, works: None, patience, asked: false, told: false };
        self.left = Some(Box::new(left));
    }

    /// Records that the path that failed works, by the path that takes its place now if it is another. Returns whether
    /// data goes back to it: at once if it was only held.
    pub(in crate::connection) fn on_works(&mut self, now: Time, is_main: bool, path: &Path) -> bool {
        let Some(left) = &mut self.left else { return false };
        let works = *left.works.get_or_insert(now);
        let held = works.since(left.since);
        // A path that is held for longer than it worked before would never be left.
        let worked = self.resumed.is_none_or(|resumed| left.since.since(resumed) >= held);
        if left.id == path.id() && held < HELD && !left.told && worked {
            (self.left, self.resumed) = (None, Some(now));
            return true;
        }
        if !is_main && path.recovery.last_heard() < works + left.patience {
            return false;
        }
        (self.patience, self.returned) = (left.patience, Some(now));
        self.left = None;
        // It does not take over from a path that is clearly faster.
        self.slower = Some(Time::ZERO);
        true
    }

    /// Records that the path that failed does not work.
    pub(in crate::connection) fn on_works_not(&mut self) {
        if let Some(left) = &mut self.left {
            (left.works, left.asked) = (None, false);
        }
    }

    /// Records whether another path is clearly faster than the primary. Returns whether it has been for long enough.
    pub(in crate::connection) fn is_slower_for_long(&mut self, now: Time, slower: bool) -> bool {
        if self.stands_in() {
            return false;
        }
        let since = slower.then(|| self.slower.unwrap_or(now));
        self.slower = since;
        since.is_some_and(|since| now.since(since) >= HELD)
    }

    /// Records that the primary path is another one, or the only one.
    pub(in crate::connection) fn on_changed(&mut self) {
        self.slower = None;
    }

    /// Returns whether the primary only stands in for a path that may be held.
    fn stands_in(&self) -> bool {
        self.left.as_ref().is_some_and(|left| !left.told)
    }

    /// Returns whether another path has stood in for the primary since then.
    pub(in crate::connection) fn stood_in(&self, since: Time) -> bool {
        self.stands_in() || self.resumed.is_some_and(|resumed| resumed >= since)
    }

    /// Returns the primary path as the application knows it. None: it has never changed.
    pub(in crate::connection) fn told(&self) -> Option<PathId> {
        self.told
    }

    /// Records that `primary` was the primary path before any change.
    pub(in crate::connection) fn knows(&mut self, primary: PathId) {
        self.told.get_or_insert(primary);
    }

    /// Returns whether the application learns now that `primary` is the primary path. It does not while that path may
    /// only stand in for one that is held.
    pub(in crate::connection) fn tells(&mut self, now: Time, primary: PathId, paths: &Paths) -> bool {
        if let Some(left) = &mut self.left {
            if left.may_be_held(now, paths) {
                return false;
            }
            left.told = true;
        }
        self.told.is_some() && self.told.replace(primary) != Some(primary)
    }

    /// Forgets the failed path, because one of the ends chose a primary. If it chose that path, it is still awaited.
    pub(in crate::connection) fn on_wish(&mut self, wished: PathId) {
        if self.left.as_ref().is_some_and(|left| left.id == wished) {
            return;
        }
        if self.left.take().is_some() {
            self.returned = None;
        }
        self.slower = None;
    }

    /// Returns the path that failed, if it is to be probed now. Only a path that carries something shows whether it
    /// works.
    pub(in crate::connection) fn ask(&mut self, now: Time, paths: &Paths) -> Option<At> {
        let left = self.left.as_mut()?;
        if left.ask_at().is_none_or(|due| due > now) {
            return None;
        }
        left.asked = true;
        left.find(paths)
    }

    /// Returns when the path must be probed to see whether it still works, or the application be told.
    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        let left = self.left.as_ref()?;
        Time::earliest([left.ask_at(), (!left.told).then_some(left.since + HELD)])
    }
}
