//! Statistics of each tag (Mockets 3.4).

use std::collections::BTreeMap;

use super::account::held::of_map;
use super::stats::Counters;
use crate::{StreamId, Tag};

/// Outcomes and counts of the messages of one tag, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TagStats {
    /// The stream of the tag.
    pub stream: StreamId,
    /// The tag.
    pub tag: Tag,
    /// Counters of messages sent.
    pub sent: Counters,
    /// Messages received, complete and in their turn.
    pub received: u64,
    /// Bytes of the messages received.
    pub received_bytes: u64,
}

/// Messages and bytes received by tag, for a limited number of tags. Messages with further tags count only in the
/// session's totals.
#[derive(Debug, Default)]
pub(super) struct ReceivedTags(BTreeMap<(u64, u64), (u64, u64)>);

impl ReceivedTags {
    /// Iterates over stream and tag, with messages and bytes.
    pub(super) fn all(&self) -> impl ExactSizeIterator<Item = (&(u64, u64), &(u64, u64))> {
        self.0.iter()
    }

    pub(super) fn note(&mut self, stream: u64, tag: u64, messages: u64, bytes: u64, limit: usize) {
        let known = self.0.len() < limit || self.0.contains_key(&(stream, tag));
        if known {
            let counted = self.0.entry((stream, tag)).or_default();
            counted.0 = counted.0.saturating_add(messages);
            counted.1 = counted.1.saturating_add(bytes);
        }
    }

    /// Restores a saved count. Returns false if the tag already has one.
    pub(super) fn restore(&mut self, stream: u64, tag: u64, counted: (u64, u64)) -> bool {
        self.0.insert((stream, tag), counted).is_none()
    }

    /// Returns the memory they take, bytes.
    #[inline]
    pub(super) fn memory(&self) -> u64 {
        of_map(self.0.len(), size_of::<[u64; 4]>())
    }
}
