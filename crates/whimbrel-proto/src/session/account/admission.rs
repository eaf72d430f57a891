//! What may be handed in beside a session that is busy, to be queued once it is not.

use crate::session::message::{Outgoing, StreamKind};
use crate::session::state::Session;
use crate::{MessageId, StreamId, Time};

/// Messages that may wait beside a session.
pub const MAX_BESIDE: usize = 4096;
/// Payload bytes of them.
pub const MAX_BESIDE_BYTES: u64 = 1 << 20;

/// A promise to queue messages that are handed in without the session being asked. It covers those for which only limits have to be
/// checked; where the answer depends on more (another stream, a tag, a confirmation) the session itself has to be asked. Whoever drives
/// the session may fill the queue meanwhile, so that it goes beyond its limits by at most [`MAX_BESIDE`] messages and [`MAX_BESIDE_BYTES`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Admission {
    messages: usize,
    bytes: u64,
    max_message: u64,
}

impl Admission {
    /// Whether the message will be queued; it is counted then. If not, [`Session::send`] says why or takes it.
    #[inline]
    pub fn take(&mut self, message: &Outgoing) -> bool {
        let length = message.payload.len() as u64;
        let plain =
            message.stream == StreamId(0) && message.tag.is_none() && !message.tracked && !message.confirm;
        if !plain || self.messages == 0 || length > self.bytes.min(self.max_message) {
            return false;
        }
        self.messages -= 1;
        self.bytes -= length;
        true
    }
}

impl Session {
    /// What is promised from now on, where so many messages and bytes are on their way already.
    pub fn admission(&mut self, messages: usize, bytes: u64) -> Admission {
        let stream = self.streams.find(StreamId(0)).and_then(|slot| self.streams.at(slot));
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

    /// Queues a message that was promised to be: the limits were asked then. None: it was of a kind that is never promised.
    pub fn send_admitted(&mut self, now: Time, message: Outgoing) -> Option<MessageId> {
        let slot = self.streams.find(message.stream)?;
        self.queue(now, slot, message).ok()
    }
}
