//! Messages read together and borrowed instead of moved.

use bytes::Bytes;

use super::inbox::Unread;
use crate::session::message::Message;
use crate::{Service, StreamId, Tag};

/// A batch of messages that were read. It keeps its memory when it is refilled. Small messages that
/// arrived together stay in one buffer and are borrowed one after the other. At millions of messages a second,
/// reference counting for each one would cost more than everything else.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    unread: Vec<Unread>,
    messages: usize,
}

/// A message borrowed from a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct MessageRef<'a> {
    /// The content.
    pub payload: &'a [u8],
    /// Its number in its order domain.
    pub id: u64,
    /// Its other properties, and the buffer that holds its payload.
    like: &'a Message,
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// Returns whether there are no messages.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Removes all messages and keeps the memory.
    pub fn clear(&mut self) {
        self.unread.clear();
        self.messages = 0;
    }

    /// Adds a message behind the others.
    pub fn push(&mut self, message: Message) {
        self.messages += 1;
        self.unread.push(Unread::One(message));
    }

    #[inline]
    pub(in crate::session) fn add(&mut self, unread: Unread) {
        self.messages += unread.len();
        self.unread.push(unread);
    }

    /// Iterates over the messages in the order in which they are read.
    pub fn iter(&self) -> impl Iterator<Item = MessageRef<'_>> {
        self.unread.iter().flat_map(|unread| {
            let (mut at, mut number, like, left) = match unread {
                Unread::One(message) => (0, message.id, message, 1),
                Unread::Run(run) => (0, run.next().id, run.next(), run.len()),
            };
            (0..left).map(move |_| {
                let (from, to) = match unread {
                    Unread::One(message) => (0, message.payload.len()),
                    Unread::Run(run) => run.payload_at(at),
                };
                let lent = MessageRef { payload: &like.payload[from..to], id: number, like };
                (at, number) = (to, number + 1);
                lent
            })
        })
    }
}

impl MessageRef<'_> {
    /// Returns the stream it came on.
    pub fn stream(&self) -> StreamId {
        self.like.stream
    }

    /// Returns the sender's tag.
    pub fn tag(&self) -> Option<Tag> {
        self.like.tag
    }

    /// Returns the payload protocol identifier.
    pub fn ppid(&self) -> Option<u32> {
        self.like.ppid
    }

    /// Returns the service it was sent with.
    pub fn service(&self) -> Service {
        self.like.service
    }

    /// Returns the sender's priority.
    pub fn priority(&self) -> u8 {
        self.like.priority
    }

    /// Returns whether it arrived before the handshake was complete.
    pub fn is_early(&self) -> bool {
        self.like.early
    }

    /// Returns whether the sender waits for a confirmation. Pass [`MessageRef::to_message`] to confirm it.
    pub fn wants_confirmation(&self) -> bool {
        self.like.confirm
    }

    /// Returns the payload as shared bytes, to keep.
    pub fn to_bytes(&self) -> Bytes {
        self.like.payload.slice_ref(self.payload)
    }

    /// Returns the message itself, to keep or to confirm.
    pub fn to_message(&self) -> Message {
        Message { payload: self.to_bytes(), id: self.id, ..*self.like }
    }
}
