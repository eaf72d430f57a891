//! Unread messages for a reader that wants only the newest. Their credit was granted again on arrival, so their number
//! is bounded here.

use std::collections::VecDeque;

use crate::session::account::held::of_queue;
use crate::session::config::MESSAGE_CHARGE;
use crate::session::message::Message;

#[derive(Debug)]
pub(in crate::session) struct Latest {
    /// Most messages kept. None: new messages are not kept here any more.
    most: Option<usize>,
    window: u64,
    /// The unread messages, each with the position it has among the stream's other messages.
    queue: VecDeque<(u64, Message)>,
    bytes: u64,
    /// How many of the other messages were read.
    read: u64,
}

fn charge(message: &Message) -> u64 {
    message.payload.len() as u64 + MESSAGE_CHARGE
}

impl Latest {
    pub(in crate::session) fn new(most: usize, window: u64) -> Self {
        Self { most: Some(most.max(1)), window, queue: VecDeque::new(), bytes: 0, read: 0 }
    }

    /// Creates a queue that takes no new messages.
    pub(in crate::session) fn kept(window: u64) -> Self {
        Self { most: None, window, queue: VecDeque::new(), bytes: 0, read: 0 }
    }

    /// Iterates over the unread messages, each with how many of the stream's other messages come before it.
    pub(in crate::session) fn unread(&self) -> impl Iterator<Item = (u64, &Message)> {
        self.queue.iter().map(|(before, message)| (before.saturating_sub(self.read), message))
    }

    /// Changes how many messages are kept. None: takes no more.
    pub(in crate::session) fn keep(&mut self, most: Option<usize>) {
        self.most = most.map(|most| most.max(1));
    }

    /// Returns the charges of the messages, bytes.
    pub(in crate::session) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the memory it takes, bytes.
    #[inline]
    pub(in crate::session) fn memory(&self) -> u64 {
        of_queue(self.queue.capacity(), size_of::<(u64, Message)>()) + self.bytes
    }

    /// Returns the number of messages and their payload bytes.
    pub(in crate::session) fn len(&self) -> (u64, u64) {
        let messages = self.queue.len() as u64;
        (messages, self.bytes - messages * MESSAGE_CHARGE)
    }

    pub(in crate::session) fn takes_more(&self) -> bool {
        self.most.is_some()
    }

    /// Adds a message that came behind `others` waiting in the stream's inbox. Returns its charge, which counts as
    /// read.
    pub(in crate::session) fn push(&mut self, message: Message, others: usize) -> u64 {
        let charge = charge(&message);
        self.bytes += charge;
        self.queue.push_back((self.read + others as u64, message));
        charge
    }

    /// Discards the oldest messages beyond the limits and returns how many, and their bytes. The newest always stays.
    pub(in crate::session) fn discard(&mut self) -> (u64, u64) {
        let Some(most) = self.most else { return (0, 0) };
        let (mut discarded, mut bytes) = (0, 0);
        while self.queue.len() > most || (self.bytes > self.window && self.queue.len() > 1) {
            let Some((_, message)) = self.queue.pop_front() else { break };
            self.bytes -= charge(&message);
            discarded += 1;
            bytes += message.payload.len() as u64;
        }
        (discarded, bytes)
    }

    /// Removes and returns the oldest message, if no other message comes before it.
    pub(in crate::session) fn pop_in_turn(&mut self) -> Option<Message> {
        self.queue.front().filter(|(before, _)| *before <= self.read)?;
        let (_, message) = self.queue.pop_front()?;
        self.bytes -= charge(&message);
        Some(message)
    }

    /// Records that one of the stream's other messages was read.
    pub(in crate::session) fn on_other_read(&mut self) {
        self.read += 1;
    }
}
