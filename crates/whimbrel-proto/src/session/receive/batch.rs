//! Messages read together, and lent rather than given.

use bytes::Bytes;

use super::inbox::Unread;
use crate::session::message::Message;
use crate::{Service, StreamId, Tag};

/// Messages that were read. Filled again and again it keeps its memory. Small messages that came together lie in it as they came, and are
/// lent one after the other: at millions of them a second, to count the shares of a buffer for each would cost more than all the rest.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    unread: Vec<Unread>,
    messages: usize,
}

/// A message lent by a [`Batch`].
#[derive(Clone, Copy, Debug)]
pub struct MessageRef<'a> {
    /// The message.
    pub payload: &'a [u8],
    /// Its number in its order domain.
    pub id: u64,
    /// What else is known of it, and the buffer.
    like: &'a Message,
}

impl Batch {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Messages in it.
    pub fn len(&self) -> usize {
        self.messages
    }

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Forgets them, keeping the memory.
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

    /// In the order in which they are read.
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
    /// The stream it came on.
    pub fn stream(&self) -> StreamId {
        self.like.stream
    }

    /// The sender's tag.
    pub fn tag(&self) -> Option<Tag> {
        self.like.tag
    }

    /// Payload protocol identifier.
    pub fn ppid(&self) -> Option<u32> {
        self.like.ppid
    }

    /// How it travelled.
    pub fn service(&self) -> Service {
        self.like.service
    }

    /// The sender's priority.
    pub fn priority(&self) -> u8 {
        self.like.priority
    }

    /// It came before the handshake was done.
    pub fn is_early(&self) -> bool {
        self.like.early
    }

    /// The sender waits for a confirmation of [`MessageRef::to_message`].
    pub fn wants_confirmation(&self) -> bool {
        self.like.confirm
    }

    /// A share of its bytes, to keep.
    pub fn to_bytes(&self) -> Bytes {
        self.like.payload.slice_ref(self.payload)
    }

    /// The message itself, to keep or to confirm.
    pub fn to_message(&self) -> Message {
        Message { payload: self.to_bytes(), id: self.id, ..*self.like }
    }
}
