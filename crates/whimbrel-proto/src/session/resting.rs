//! Byte streams that came to rest lately.

use std::collections::VecDeque;

use super::message::DomainKey;

/// The byte streams that came to rest last. They are likely to be used again soon, so they keep their queues. Some may
/// have ended since, and others may have their slots.
#[derive(Debug, Default)]
pub(super) struct Resting(VecDeque<DomainKey>);

/// Most byte streams at rest that keep their queues.
const MOST_RESTING: usize = 16;

impl Resting {
    /// Handles that a stream came to rest. Returns the one that has rested the longest, if there are too many.
    #[inline]
    pub(super) fn add(&mut self, key: DomainKey) -> Option<DomainKey> {
        if self.0.contains(&key) {
            return None;
        }
        self.0.push_back(key);
        if self.0.len() > MOST_RESTING { self.0.pop_front() } else { None }
    }
}
