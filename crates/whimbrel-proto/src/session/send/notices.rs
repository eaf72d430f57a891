//! Notices that wait to be sent, each at most once.

use std::collections::{BTreeSet, VecDeque};

use crate::session::message::DomainKey;

/// A block that is written with the values at the time of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::session) enum Notice {
    MaxStreams,
    MaxStreamData(DomainKey),
    Reset(DomainKey),
    Stop(DomainKey),
    End(DomainKey),
}

/// Below this number, searching the whole queue is fast.
const FEW: usize = 16;

/// Waiting notices in the order they were added.
#[derive(Debug, Default)]
pub(in crate::session) struct Notices {
    queue: VecDeque<Notice>,
    /// The same notices as a set, once there are many. The peer controls how many there are by opening and ending
    /// streams.
    known: BTreeSet<Notice>,
}

impl Notices {
    #[inline]
    pub(in crate::session) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds a notice if it does not wait already.
    pub(in crate::session) fn push(&mut self, notice: Notice) {
        if self.is_news(notice) {
            self.queue.push_back(notice);
        }
    }

    fn is_news(&mut self, notice: Notice) -> bool {
        if self.known.is_empty() && self.queue.len() < FEW {
            return !self.queue.contains(&notice);
        }
        if self.known.is_empty() {
            self.known.extend(&self.queue);
        }
        self.known.insert(notice)
    }

    pub(in crate::session) fn front(&self) -> Option<Notice> {
        self.queue.front().copied()
    }

    pub(in crate::session) fn pop(&mut self) -> Option<Notice> {
        let first = self.queue.pop_front()?;
        self.known.remove(&first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::numbers::{Domain, StreamSlot};

    #[test]
    fn each_waits_once_however_many_there_are() {
        let key = |slot| DomainKey { slot: StreamSlot(slot), generation: 0, domain: Domain(0) };
        let mut notices = Notices::default();
        for round in 0..3 {
            for slot in 0..100 {
                notices.push(Notice::Stop(key(slot)));
                notices.push(Notice::Stop(key(slot / 2)));
            }
            let mut seen = Vec::new();
            for _ in 0..50 {
                seen.extend(notices.pop());
            }
            notices.push(Notice::Stop(key(0)));
            notices.push(Notice::Stop(key(99)));
            seen.extend(std::iter::from_fn(|| notices.pop()));
            let stops = (0..100).map(|slot| Notice::Stop(key(slot))).chain([Notice::Stop(key(0))]);
            assert!(seen.into_iter().eq(stops), "round {round}");
            assert!(notices.is_empty() && notices.known.is_empty());
        }
    }
}
