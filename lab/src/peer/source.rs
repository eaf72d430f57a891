//! The messages of a job, each at the time it is due.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::clock;
use crate::job::frame_size;

/// A source of messages at a steady rate from its first call on.
#[derive(Debug)]
pub(super) struct Source {
    /// `None`: those of frames.
    size: Option<usize>,
    rate: f64,
    count: u64,
    first: u64,
    next: u64,
    started: Option<u64>,
}

impl Source {
    pub(super) fn new(size: usize, rate: f64, count: u64) -> Self {
        Self { size: Some(size), rate, count, first: 0, next: 0, started: None }
    }

    /// Creates a source of frames.
    pub(super) fn of_frames(rate: f64, count: u64) -> Self {
        Self { size: None, ..Self::new(0, rate, count) }
    }

    /// Skips the messages before this one.
    pub(super) fn starting_at(self, first: u64) -> Self {
        Self { first, next: first, ..self }
    }

    /// Returns the next message once it is due, and `None` after the last. It carries the current time. If the send
    /// call before blocked for longer, it carries the time at which it was due. So waiting at the sender counts, for
    /// all peers alike.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if self.next == self.count {
            return None;
        }
        let started = *self.started.get_or_insert_with(clock::now);
        let due = started + ((self.next - self.first) as f64 * 1e9 / self.rate) as u64;
        let mut time = clock::now();
        if time < due {
            tokio::time::sleep(Duration::from_nanos(due - time)).await;
            time = clock::now();
        } else {
            time = due;
        }
        let message = message(self.next, time, self.size.unwrap_or_else(|| frame_size(self.next)));
        self.next += 1;
        Some(message)
    }
}

fn message(number: u64, time: u64, size: usize) -> Bytes {
    let mut message = BytesMut::with_capacity(size);
    message.put_u64(number);
    message.put_u64(time);
    message.resize(size, 0x77);
    message.freeze()
}
