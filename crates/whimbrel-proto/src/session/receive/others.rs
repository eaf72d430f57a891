//! Unread messages of streams that share an inbox with another: found by stream, and read in the order in which they came.

use std::collections::BTreeMap;

use super::inbox::Unread;
use crate::StreamId;
use crate::session::account::held::{of_map, of_queue};
use crate::session::send::queue::Queue;

/// A place in the order of arrival: how many entries of the inbox's own stream came before it, ever, and how many of these.
type Place = (i64, i64);

#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Others {
    queues: BTreeMap<StreamId, Queue<(Place, Unread)>>,
    /// The stream of the first entry of each queue.
    fronts: BTreeMap<Place, StreamId>,
    /// Numbers that were given to entries at the front, and at the back.
    numbers: (i64, i64),
    entries: usize,
}

impl Others {
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// What it takes, bytes, beside the payloads.
    pub(in crate::session) fn memory(&self) -> u64 {
        let entry = size_of::<(Place, Unread)>();
        // A queue has room for four at least.
        let queues = self.queues.len();
        of_queue(self.entries + 4 * queues, entry) + of_map(queues, size_of::<Queue<Unread>>() + entry)
    }

    /// How many of the own stream's came before the first of these.
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
        // Of the own stream more may have gone, when it was claimed.
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
        let queue = self.queues.get_mut(&stream)?;
        let (_, first) = queue.pop_front()?;
        self.entries -= 1;
        match queue.front() {
            Some((next, _)) => self.fronts.insert(*next, stream),
            None => self.queues.remove(&stream).and(None),
        };
        Some(first)
    }

    /// Takes out all of a stream.
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
