//! A run: small messages that arrived in one block and differ only in number and payload.

use bytes::{Buf, Bytes};

use crate::session::message::Message;
use crate::wire::Malformed;

/// The remaining messages of a run, each still preceded by its length. They share one buffer until they are taken
/// apart.
#[derive(Clone, Debug)]
pub(in crate::session) struct Run {
    /// The next message, with the payload of all that remain.
    next: Message,
    left: usize,
    bytes: u64,
}

impl Run {
    /// Creates a run whose `first` message has the payload of all.
    #[inline]
    pub(in crate::session) fn new(first: Message) -> Result<Self, Malformed> {
        let (body, mut at, mut left, mut bytes) = (&first.payload[..], 0, 0, 0);
        while at < body.len() {
            let (from, to) = next_at(body, at)?;
            bytes += (to - from) as u64;
            left += 1;
            at = to;
        }
        Ok(Self { next: first, left, bytes })
    }

    #[inline]
    pub(in crate::session) fn len(&self) -> usize {
        self.left
    }

    /// Returns the payload bytes of its messages.
    #[inline]
    pub(in crate::session) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies the payload, so that the run no longer holds its receive buffer.
    pub(in crate::session) fn own(&mut self) {
        self.next.payload = Bytes::copy_from_slice(&self.next.payload);
    }

    #[inline]
    pub(in crate::session) fn next(&self) -> &Message {
        &self.next
    }

    /// Returns where the payload of the message at offset `at` lies in that of [`Run::next`].
    #[inline]
    pub(in crate::session) fn payload_at(&self, at: usize) -> (usize, usize) {
        // It was checked when the run arrived.
        next_at(&self.next.payload, at).unwrap_or((at, self.next.payload.len()))
    }

    /// Splits off the first `count` messages as a run. There must be more.
    pub(in crate::session) fn split(&mut self, count: usize) -> Self {
        let mut first = self.clone();
        (first.left, first.bytes) = (0, 0);
        let mut end = 0;
        for _ in 0..count {
            let (from, to) = self.payload_at(end);
            first.bytes += (to - from) as u64;
            first.left += 1;
            end = to;
        }
        first.next.payload.truncate(end);
        self.next.payload.advance(end);
        self.next.id += count as u64;
        self.left -= first.left;
        self.bytes -= first.bytes;
        first
    }

    /// Removes up to `most` messages from the front, in order.
    #[inline]
    pub(in crate::session) fn take(&mut self, most: usize) -> impl Iterator<Item = Message> {
        Taken { left: most.min(self.left), run: self }
    }

    /// Removes and returns the first message. There must be one.
    #[inline]
    pub(in crate::session) fn split_first(&mut self) -> Message {
        let (from, to) = self.payload_at(0);
        let rest = &mut self.next.payload;
        let mut payload = if to < rest.len() { rest.split_to(to) } else { std::mem::take(rest) };
        payload.advance(from);
        let first = Message { payload, ..self.next };
        self.next.id += 1;
        self.left -= 1;
        self.bytes -= (to - from) as u64;
        first
    }
}

struct Taken<'a> {
    run: &'a mut Run,
    left: usize,
}

impl Iterator for Taken<'_> {
    type Item = Message;

    #[inline]
    fn next(&mut self) -> Option<Message> {
        self.left = self.left.checked_sub(1)?;
        Some(self.run.split_first())
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// Returns where the payload of the message at offset `at` lies.
#[inline]
fn next_at(body: &[u8], at: usize) -> Result<(usize, usize), Malformed> {
    const SHORT: Malformed = Malformed("DATA: a run's message beyond its block");
    let first = *body.get(at).ok_or(SHORT)?;
    let width = 1usize << (first >> 6);
    let field = body.get(at..at + width).ok_or(SHORT)?;
    let mut length = u64::from(first & 0x3f);
    for byte in &field[1..] {
        length = length << 8 | u64::from(*byte);
    }
    let from = at + width;
    let length = usize::try_from(length).map_err(|_| SHORT)?;
    let to = from.checked_add(length).filter(|to| *to <= body.len()).ok_or(SHORT)?;
    Ok((from, to))
}
