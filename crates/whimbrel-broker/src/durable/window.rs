//! The messages that a durable subscription was told and has not acknowledged.

use std::collections::VecDeque;

use whimbrel_pubsub::message::Origin;

/// The most messages that a durable subscription is told before it has acknowledged earlier ones.
pub const WINDOW: usize = 1_000;
/// The most bytes of these messages (8 MiB), or one message.
pub const WINDOW_BYTES: usize = 8 << 20;

/// The messages that were told and not acknowledged, in the order of telling.
#[derive(Debug, Default)]
pub struct Window {
    told: VecDeque<(Origin, u64, usize)>,
    bytes: usize,
}

impl Window {
    /// Returns whether a message of this many bytes must wait.
    pub fn is_full_for(&self, bytes: usize) -> bool {
        !self.told.is_empty() && (self.told.len() >= WINDOW || self.bytes + bytes > WINDOW_BYTES)
    }

    /// A message was told.
    pub(super) fn push(&mut self, origin: Origin, sequence: u64, bytes: usize) {
        self.told.push_back((origin, sequence, bytes));
        self.bytes += bytes;
    }

    /// Forgets the messages that are acknowledged.
    pub(super) fn release(&mut self, is_acknowledged: impl Fn(Origin, u64) -> bool) {
        let bytes = &mut self.bytes;
        self.told.retain(|(origin, sequence, length)| {
            let stays = !is_acknowledged(*origin, *sequence);
            *bytes -= if stays { 0 } else { *length };
            stays
        });
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.told.len()
    }

    /// Returns whether all is acknowledged.
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }
}
