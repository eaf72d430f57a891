//! Frames that wait to be sent, in order.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};

use super::frame::{Frame, Head};

/// The bytes of streams that may wait. More would only make what comes next wait longer.
pub(super) const ROOM: usize = 128 * 1024;
/// The most bytes that may wait in all. A peer that lets so many answers pile up without reading them is given up.
pub(super) const MOST: usize = 4 << 20;

/// Frames that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    queue: VecDeque<Waiting>,
    bytes: usize,
    /// Streams that wait for room, the first in front.
    streams: VecDeque<u64>,
    /// The waker of the task that sends.
    sender: Option<Waker>,
}

#[derive(Debug)]
struct Waiting {
    head: Head,
    payload: Bytes,
    /// It is of no use later.
    until: Option<Instant>,
}

impl Outbox {
    /// Adds a frame. One with a time is left out if it is still here then.
    pub(super) fn push(&mut self, frame: Frame, until: Option<Instant>) {
        let (head, payload) = frame.parts();
        self.bytes += head.as_slice().len() + payload.len();
        self.queue.push_back(Waiting { head, payload, until });
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }

    /// The bytes of streams and messages that can be added now.
    pub(super) fn room(&self) -> usize {
        ROOM.saturating_sub(self.bytes)
    }

    /// Returns whether so much waits that the link must end.
    pub(super) fn overflows(&self) -> bool {
        self.bytes > MOST
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// This stream waits for room.
    pub(super) fn wait(&mut self, stream: u64) {
        self.streams.push_back(stream);
    }

    /// Takes the stream that has waited for the longest time.
    pub(super) fn next_stream(&mut self) -> Option<u64> {
        self.streams.pop_front()
    }

    /// Wakes who sends when something is there.
    pub(super) fn set_sender(&mut self, sender: &Waker) {
        self.sender = Some(sender.clone());
    }

    /// Drops everything: nobody is there any more.
    pub(super) fn clear(&mut self) {
        (self.queue, self.bytes) = (VecDeque::new(), 0);
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }

    /// Takes bytes to send until there are `most`. A long payload goes in pieces.
    pub(super) fn take(&mut self, into: &mut BytesMut, most: usize) {
        while let Some(first) = self.queue.front_mut() {
            // A frame of which a part was sent has no head any more, and goes on.
            let is_whole = !first.head.as_slice().is_empty();
            if is_whole && first.until.is_some_and(|until| until <= Instant::now()) {
                self.bytes -= first.head.as_slice().len() + first.payload.len();
                self.queue.pop_front();
                continue;
            }
            let left = most.saturating_sub(into.len());
            if left <= first.head.as_slice().len() {
                return;
            }
            into.extend_from_slice(first.head.as_slice());
            self.bytes -= first.head.as_slice().len();
            first.head = Head::default();
            let piece = first.payload.len().min(most - into.len());
            into.extend_from_slice(&first.payload[..piece]);
            first.payload.advance(piece);
            self.bytes -= piece;
            if !first.payload.is_empty() {
                return;
            }
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::tcp::frame::Frames;

    #[test]
    fn what_is_taken_in_pieces_is_what_was_put_in_without_what_is_late() {
        let mut outbox = Outbox::default();
        let data = Bytes::from(vec![7; 10_000]);
        let late = Some(Instant::now());
        let frames = [Frame::Data(1, data), Frame::Ping, Frame::Message("late".into()), Frame::Finish(1)];
        for frame in frames.clone() {
            let until = late.filter(|_| matches!(frame, Frame::Message(_)));
            outbox.push(frame, until);
        }
        assert!(outbox.room() < ROOM - 10_000);
        let (mut read, mut taken) = (Frames::default(), Vec::new());
        while !outbox.is_empty() {
            let mut piece = BytesMut::new();
            outbox.take(&mut piece, 4_096);
            assert!(!piece.is_empty() && piece.len() <= 4_096);
            read.buffer().extend_from_slice(&piece);
            while let Some(frame) = read.next().unwrap() {
                taken.push(frame);
            }
        }
        assert_eq!(taken, [frames[0].clone(), frames[1].clone(), frames[3].clone()]);
        assert_eq!(outbox.room(), ROOM, "nothing is left");
    }
}
