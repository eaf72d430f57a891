//! Admission of messages that are handed in while the session is busy and queued afterwards.

use crate::session::message::{Outgoing, StreamKind};
use crate::session::state::Session;
use crate::{MessageId, StreamId, Time};

/// The most messages that may wait beside a session.
pub const MAX_BESIDE: usize = 4096;
/// Payload bytes of those messages.
pub const MAX_BESIDE_BYTES: u64 = 1 << 20;

/// A promise to queue messages that are handed in without asking the session. It covers messages for which only limits
/// have to be checked. If the answer depends on more (another stream, a tag, a confirmation), the session itself has to
/// be asked. The queue may be filled meanwhile by others, so it can exceed its limits by at most [`MAX_BESIDE`]
/// messages and [`MAX_BESIDE_BYTES`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Admission {
    messages: usize,
    bytes: u64,
    max_message: u64,
}

impl Admission {
    /// Returns whether the message will be queued, and counts it if so. If not, [`Session::send`] takes it or returns
    /// the reason.
    #[inline]
    pub fn take(&mut self, message: &Outgoing) -> bool {
        let length = message.payload.len() as u64;
        let simple = message.stream == StreamId(0) && message.is_unnamed();
        if !simple || self.messages == 0 || length > self.bytes.min(self.max_message) {
            return false;
        }
        self.messages -= 1;
        self.bytes -= length;
        true
    }
}

impl Session {
    /// Returns what is promised from now on, when this many messages and bytes are already on their way.
    pub fn admission(&mut self, messages: usize, bytes: u64) -> Admission {
        let stream = self.streams.look(StreamId(0));
        if self.closing || stream.and_then(|stream| stream.takes()) != Some(StreamKind::Messages) {
            return Admission::default();
        }
        let (room, room_bytes) = self.queue_room();
        Admission {
            messages: room.saturating_sub(messages).min(MAX_BESIDE),
            bytes: room_bytes.saturating_sub(bytes).min(MAX_BESIDE_BYTES),
            max_message: self.peer.max_message.min(u64::from(u32::MAX)),
        }
    }

    /// Queues a message that was promised a place. Limits were checked when it was promised. None: messages of this
    /// kind are never promised a place.
    pub fn send_admitted(&mut self, now: Time, message: Outgoing) -> Option<MessageId> {
        let slot = self.streams.find(message.stream)?;
        self.queue(now, slot, message).ok()
    }
}
