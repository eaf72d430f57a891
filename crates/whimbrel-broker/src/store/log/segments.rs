//! The segments of a log, in memory.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::Origin;

use super::index::Index;
use crate::store::disk::Handle;
use crate::store::format::{MARK_EVERY, OPENING, Opening, Salt, Summary};

/// A segment that is full.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) file: PathBuf,
    pub(super) opening: Opening,
    pub(super) summary: Summary,
    /// The length of the file.
    pub(super) bytes: u64,
}

impl Full {
    /// The position behind its last message.
    pub(super) fn end(&self) -> u64 {
        self.opening.first + u64::from(self.summary.messages)
    }

    /// Whether it may have a message of a range.
    pub(super) fn may_have_any(&self, origin: Origin, range: Range) -> bool {
        let origins = &self.summary.origins;
        let found = origins.binary_search_by(|held| held.origin.cmp(&origin)).ok().map(|at| origins[at]);
        found.is_some_and(|held| held.lowest <= range.last && range.first <= held.highest)
    }

    fn may_have(&self, origin: Origin, sequence: u64) -> bool {
        let origins = &self.summary.origins;
        let found = origins.binary_search_by(|held| held.origin.cmp(&origin)).ok().map(|at| origins[at]);
        found.is_some_and(|held| (held.lowest..=held.highest).contains(&sequence))
    }
}

/// The segment that is being written.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) file: PathBuf,
    pub(super) opening: Opening,
    pub(super) handle: Arc<dyn Handle>,
    /// The index of the stored messages. It lags behind the file while a group is written.
    pub(super) index: Index,
}

impl Active {
    fn end(&self) -> u64 {
        self.opening.first + u64::from(self.index.messages())
    }
}

/// All segments of a log.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// The full ones, oldest first.
    pub(super) full: VecDeque<Arc<Full>>,
    pub(super) active: Option<Active>,
    /// The position of the next message if there is no segment at all.
    pub(super) after_all: u64,
}

/// Where to read.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) file: PathBuf,
    /// The position of the segment's first message.
    pub(super) first: u64,
    pub(super) salt: Salt,
    /// A record at or before the one that is wanted.
    pub(super) offset: u32,
    /// The position of the message there.
    pub(super) position: u64,
    /// Where the stored messages end.
    pub(super) end: u32,
    /// The position behind the last of them.
    pub(super) until: u64,
    /// The position of the next mark, from which reading can go on behind damage.
    pub(super) next_mark: u64,
}

impl Segments {
    /// The position of the next message.
    pub(super) fn end(&self) -> u64 {
        let full = || self.full.back().map(|full| full.end());
        self.active.as_ref().map(Active::end).or_else(full).unwrap_or(self.after_all)
    }

    /// The position of the oldest message.
    pub(super) fn begin(&self) -> u64 {
        let active = || self.active.as_ref().map(|active| active.opening.first);
        self.full.front().map(|full| full.opening.first).or_else(active).unwrap_or(self.after_all)
    }

    /// The position of the first message at `position` or behind, and where it is. `None` at the end.
    pub(super) fn place(&self, position: u64) -> Option<(u64, Place)> {
        let at = self.full.partition_point(|full| full.end() <= position);
        if let Some(full) = self.full.get(at) {
            return place_in(&full.file, &full.opening, &full.summary, position);
        }
        let active = self.active.as_ref()?;
        place_in(&active.file, &active.opening, active.index.summary(), position)
    }

    /// The full segments that may have a message, the latest first.
    pub(super) fn candidates(&self, origin: Origin, sequence: u64) -> Vec<Arc<Full>> {
        self.full.iter().rev().filter(|full| full.may_have(origin, sequence)).cloned().collect()
    }

    /// The position of a message in the segment that is being written.
    pub(super) fn find_active(&self, origin: Origin, sequence: u64) -> Option<u64> {
        let active = self.active.as_ref()?;
        Some(active.opening.first + u64::from(active.index.find(origin, sequence)?))
    }

    /// When the oldest message arrived, milliseconds since 1970.
    pub(super) fn oldest_ms(&self) -> Option<u64> {
        let active = self.active.as_ref().map(|active| active.index.summary());
        let oldest = self.full.front().map(|full| &full.summary).or(active)?;
        (oldest.messages > 0).then_some(oldest.first_arrived)
    }

    /// The bytes of all segments.
    pub(super) fn bytes(&self) -> u64 {
        let active = self.active.as_ref().map_or(0, |active| active.index.summary().end.into());
        self.full.iter().map(|full| full.bytes).sum::<u64>() + active
    }
}

fn place_in(file: &Path, opening: &Opening, summary: &Summary, position: u64) -> Option<(u64, Place)> {
    let first = opening.first;
    let wanted = position.max(first);
    let ordinal = u32::try_from(wanted - first).ok().filter(|ordinal| *ordinal < summary.messages)?;
    let mark = ordinal / MARK_EVERY;
    let before = first + u64::from(mark * MARK_EVERY);
    let place = Place {
        file: file.to_owned(),
        first,
        salt: opening.salt,
        offset: summary.marks.get(mark as usize).copied().unwrap_or(OPENING),
        position: before,
        end: summary.end,
        until: first + u64::from(summary.messages),
        next_mark: (before + u64::from(MARK_EVERY)).min(first + u64::from(summary.messages)),
    };
    Some((wanted, place))
}
