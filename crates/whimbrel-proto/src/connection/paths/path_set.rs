//! The paths of a connection: at least one and at most a few, found by position, by id, or as the primary.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::path::Path;
use super::path_state::{PathLifecycle, PathState};
use crate::{ConnectionId, PathId};

/// The most paths that a connection may have.
pub const MOST_PATHS: usize = 8;

/// The position of a path in the list. It is valid until a path is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connection) struct At(usize);

impl At {
    pub(in crate::connection) fn index(self) -> usize {
        self.0
    }
}

/// The index of the primary path.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Main;

/// The list of paths.
#[derive(Debug)]
pub(in crate::connection) struct Paths {
    list: Vec<Path>,
    primary: usize,
}

impl Paths {
    pub(in crate::connection) fn new(first: Path) -> Self {
        Self { list: vec![first], primary: 0 }
    }

    pub(in crate::connection) fn main(&self) -> At {
        At(self.primary)
    }

    pub(in crate::connection) fn len(&self) -> usize {
        self.list.len()
    }

    pub(in crate::connection) fn push(&mut self, path: Path) -> At {
        self.list.push(path);
        At(self.list.len() - 1)
    }

    /// Removes a path, which must not be the only one.
    pub(in crate::connection) fn remove(&mut self, at: At) -> Path {
        let path = self.list.remove(at.0);
        if self.primary == at.0 {
            // Whichever works is primary until the paths are reviewed.
            let find =
                |wanted: fn(PathLifecycle) -> bool| self.list.iter().position(|path| wanted(path.lifecycle));
            self.primary =
                find(PathLifecycle::is_usable).or_else(|| find(PathLifecycle::is_proven)).unwrap_or(0);
        } else if self.primary > at.0 {
            self.primary -= 1;
        }
        path
    }

    /// Sets the primary path. Returns whether that changed it.
    pub(in crate::connection) fn set_main(&mut self, index: usize) -> bool {
        std::mem::replace(&mut self.primary, index) != index
    }

    /// Iterates over the primary path, then the others.
    pub(in crate::connection) fn in_order(&self) -> impl Iterator<Item = At> + use<> {
        let main = self.primary;
        std::iter::once(At(main)).chain((0..self.list.len()).filter(move |at| *at != main).map(At))
    }

    pub(in crate::connection) fn all(&self) -> impl Iterator<Item = At> + use<> {
        (0..self.list.len()).map(At)
    }

    pub(in crate::connection) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.list.iter()
    }

    pub(in crate::connection) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.list.iter_mut()
    }

    /// Returns the smallest of the packet sizes in use.
    pub(in crate::connection) fn mtu(&self) -> u16 {
        let carry = self.list.iter().filter(|path| path.lifecycle.is_proven());
        carry.map(|path| path.mtu.current()).min().unwrap_or(crate::connection::packet::mtu::BASE)
    }

    /// Returns three probe timeouts of the slowest path, which is how long late packets may still arrive.
    pub(in crate::connection) fn drain_time(&self) -> Duration {
        self.list.iter().map(Path::drain_time).max().unwrap_or_default()
    }

    /// Returns whether the keys may be updated: what was sent under `generation` has arrived on every path that works
    /// and sent something, and on at least one.
    pub(in crate::connection) fn let_rotate(&self, generation: u64) -> bool {
        let works = |path: &&Path| path.lifecycle.is_proven() && path.lifecycle.state() != PathState::Down;
        self.list.iter().filter(works).all(|path| path.keys.lets_rotate(generation))
            && self.list.iter().any(|path| path.keys.is_confirmed(generation))
    }

    /// Returns the path with this id, if it still exists. The peer and the application may name others.
    pub(in crate::connection) fn by_id(&self, id: PathId) -> Option<At> {
        self.list.iter().position(|path| path.id() == id).map(At)
    }

    /// Returns the path whose packets are addressed to `id`.
    pub(in crate::connection) fn by_local_id(&self, id: ConnectionId) -> Option<At> {
        self.list.iter().position(|path| path.local_id() == id).map(At)
    }
}

impl Index<At> for Paths {
    type Output = Path;

    fn index(&self, at: At) -> &Path {
        &self.list[at.0]
    }
}

impl IndexMut<At> for Paths {
    fn index_mut(&mut self, at: At) -> &mut Path {
        &mut self.list[at.0]
    }
}

impl Index<Main> for Paths {
    type Output = Path;

    fn index(&self, _: Main) -> &Path {
        &self.list[self.primary]
    }
}

impl IndexMut<Main> for Paths {
    fn index_mut(&mut self, _: Main) -> &mut Path {
        &mut self.list[self.primary]
    }
}
