//! Unread messages of the other streams in a shared inbox. They can be found by stream, and are read in the order in
//! which they arrived.

use std::collections::BTreeMap;

use super::inbox::Unread;
use crate::StreamId;
use crate::expected::Expected;
use crate::session::account::held::{of_map, of_queue};
use crate::session::send::queue::Queue;

/// A position in the order of arrival: how many entries of the inbox's own stream ever came before it, then its number
/// among the others.
type MessageOrder = (i64, i64);

#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Others {
    queues: BTreeMap<StreamId, Queue<(MessageOrder, Unread)>>,
    /// For the first entry of each queue, its stream.
    fronts: BTreeMap<MessageOrder, StreamId>,
    /// The numbers last given to an entry at the front and next given to one at the back.
    numbers: (i64, i64),
    entries: usize,
}

impl Others {
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the memory it takes besides the payloads, bytes.
    pub(in crate::session) fn memory(&self) -> u64 {
        let entry = size_of::<(MessageOrder, Unread)>();
        // A queue has room for at least four entries.
        let queues = self.queues.len();
        of_queue(self.entries + 4 * queues, entry) + of_map(queues, size_of::<Queue<Unread>>() + entry)
    }

    /// Returns how many entries of the inbox's own stream came before the first of these.
    #[inline]
    pub(in crate::session) fn front(&self) -> Option<i64> {
        self.fronts.first_key_value().map(|((before, _), _)| *before)
    }

    pub(in crate::session) fn push_back(&mut self, before: i64, unread: Unread) {
        let (place, stream) = ((before, self.numbers.1), unread.first().stream);
        self.numbers.1 += 1;
        self.entries += 1;
        let queue = self.queues.entry(stream).or_default();
        if queue.is_empty() {
            self.fronts.insert(place, stream);
        }
        queue.push_back((place, unread));
    }

    pub(in crate::session) fn push_front(&mut self, before: i64, unread: Unread) {
        // If the own stream was claimed, more of its entries may have left.
        let before = self.front().map_or(before, |first| first.min(before));
        self.numbers.0 -= 1;
        let (place, stream) = ((before, self.numbers.0), unread.first().stream);
        self.entries += 1;
        let queue = self.queues.entry(stream).or_default();
        if let Some((second, _)) = queue.front() {
            self.fronts.remove(second);
        }
        self.fronts.insert(place, stream);
        queue.push_front((place, unread));
    }

    pub(in crate::session) fn pop(&mut self) -> Option<Unread> {
        let (_, stream) = self.fronts.pop_first()?;
        let queue = self.queues.get_mut(&stream).expected("the queue of a front")?;
        let (_, first) = queue.pop_front().expected("the front of a queue")?;
        self.entries -= 1;
        match queue.front() {
            Some((next, _)) => self.fronts.insert(*next, stream),
            None => self.queues.remove(&stream).and(None),
        };
        Some(first)
    }

    /// Removes and returns the entries of a stream.
    pub(in crate::session) fn take(
        &mut self,
        stream: StreamId,
    ) -> Option<impl Iterator<Item = Unread> + use<>> {
        let mut queue = self.queues.remove(&stream)?;
        if let Some((first, _)) = queue.front() {
            self.fronts.remove(first);
        }
        self.entries -= queue.len();
        Some(std::iter::from_fn(move || queue.pop_front().map(|(_, unread)| unread)))
    }
}
