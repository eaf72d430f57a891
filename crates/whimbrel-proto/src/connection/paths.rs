//! The paths of a connection: at least one, at most a few, found by position, by id, or as the primary.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::path::Path;
use crate::{ConnectionId, PathId};

/// Where a path stands in the list; good until a path is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(usize);

/// The primary path, as an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Main;

/// See the module.
#[derive(Debug)]
pub(super) struct Paths {
    list: Vec<Path>,
    primary: usize,
}

impl Paths {
    pub(super) fn new(first: Path) -> Self {
        Self { list: vec![first], primary: 0 }
    }

    pub(super) fn main(&self) -> At {
        At(self.primary)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = At> + use<> {
        (0..self.list.len()).map(At)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.list.iter_mut()
    }

    /// The smallest of the packet sizes in use.
    pub(super) fn mtu(&self) -> u16 {
        self.list.iter().map(|path| path.mtu.current()).min().unwrap_or(super::mtu::BASE)
    }

    /// Three probe timeouts of the slowest: how long what is old may still arrive.
    pub(super) fn drain_time(&self) -> Duration {
        self.list.iter().map(Path::drain_time).max().unwrap_or_default()
    }

    pub(super) fn by_id(&self, id: PathId) -> Option<At> {
        self.list.iter().position(|path| path.id == id).map(At)
    }

    /// The path whose packets are addressed to `id`.
    pub(super) fn by_local_id(&self, id: ConnectionId) -> Option<At> {
        self.list.iter().position(|path| path.local_id == id).map(At)
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
