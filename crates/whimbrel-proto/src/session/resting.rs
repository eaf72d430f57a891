//! Byte streams that came to rest lately.

use std::collections::VecDeque;

use super::numbers::StreamSlot;

/// The byte streams that came to rest last. They are likely to be used again soon, so they keep their queues.
#[derive(Debug, Default)]
pub(super) struct Resting(VecDeque<StreamSlot>);

/// Most byte streams at rest that keep their queues.
const MOST_RESTING: usize = 16;

impl Resting {
    /// Handles that a stream came to rest. Returns the one that has rested the longest, if there are too many.
    #[inline]
    pub(super) fn add(&mut self, slot: StreamSlot) -> Option<StreamSlot> {
        if self.0.contains(&slot) {
            return None;
        }
        self.0.push_back(slot);
        if self.0.len() > MOST_RESTING { self.0.pop_front() } else { None }
    }
}
