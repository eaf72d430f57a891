//! Last values that are not written yet, and how far the logs are that they speak for.

use std::collections::{BTreeMap, BTreeSet};

use whimbrel_pubsub::message::ChannelId;

use crate::store::format::Entry;

/// A channel and a topic.
type Key = (ChannelId, Vec<u8>);
/// The last value of a topic; `None` for one that is to be forgotten.
pub(super) type ValueRow = (Key, Option<Entry>);

/// Changes of last values.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// The latest of each topic. A message shares its bytes with whoever else has it.
    unwritten: BTreeMap<Key, Option<Entry>>,
    /// The end of each channel's log at a moment at which all before was among the last values.
    marks: BTreeMap<ChannelId, u64>,
    dirty_marks: BTreeSet<ChannelId>,
}

impl Values {
    /// Enters a mark that is on disk.
    pub(super) fn load_mark(&mut self, channel: ChannelId, end: u64) {
        self.marks.insert(channel, end);
    }

    /// Takes the next change to be written.
    pub(super) fn take_row(&mut self) -> Option<ValueRow> {
        self.unwritten.pop_first()
    }

    /// Takes the marks to be written, once nothing else waits: they speak for all values before.
    pub(super) fn take_marks(&mut self) -> Vec<(ChannelId, u64)> {
        if !self.unwritten.is_empty() {
            return Vec::new();
        }
        let dirty = std::mem::take(&mut self.dirty_marks).into_iter();
        dirty.filter_map(|channel| Some((channel, *self.marks.get(&channel)?))).collect()
    }

    /// Takes back changes that could not be written. What has changed since then is newer.
    pub(super) fn put_back(&mut self, rows: Vec<ValueRow>, marks: &[(ChannelId, u64)]) {
        for (key, value) in rows {
            self.unwritten.entry(key).or_insert(value);
        }
        self.dirty_marks.extend(marks.iter().map(|(channel, _)| *channel));
    }

    /// All is on disk already.
    pub(super) fn forget_changes(&mut self) {
        self.unwritten.clear();
        self.dirty_marks.clear();
    }

    /// The number of values that are not written yet.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Changes the value of a topic.
    pub(super) fn change(&mut self, channel: ChannelId, topic: &[u8], value: Option<Entry>) {
        self.unwritten.insert((channel, topic.to_vec()), value);
    }

    /// Moves a channel's mark.
    pub(super) fn mark(&mut self, channel: ChannelId, end: u64) {
        self.marks.insert(channel, end);
        self.dirty_marks.insert(channel);
    }

    /// A channel's mark.
    pub(super) fn marked(&self, channel: ChannelId) -> Option<u64> {
        self.marks.get(&channel).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::{entry, origin};

    const CHANNEL: ChannelId = ChannelId(3);

    #[test]
    fn a_mark_waits_for_all_values_before_it() {
        let mut values = Values::default();
        let (one, other) = (entry(origin(1), 1, 0), entry(origin(1), 2, 0));
        values.change(CHANNEL, b"a", Some(one));
        values.change(CHANNEL, b"b", None);
        values.mark(CHANNEL, 5);
        let first = values.take_row().unwrap();
        assert_eq!(values.take_marks(), [], "one more waits");
        let second = values.take_row().unwrap();
        let marks = values.take_marks();
        assert_eq!(marks, [(CHANNEL, 5)]);
        // The disk is full. Meanwhile one has changed.
        values.change(CHANNEL, b"a", Some(other.clone()));
        values.put_back(vec![first, second], &marks);
        assert_eq!(values.take_row(), Some(((CHANNEL, b"a".to_vec()), Some(other))));
        assert_eq!(values.take_row(), Some(((CHANNEL, b"b".to_vec()), None)));
        assert_eq!((values.take_row(), values.take_marks()), (None, marks));
    }
}
