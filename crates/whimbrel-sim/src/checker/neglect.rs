//! Byte streams that nobody reads must not stop the others.

use std::time::Duration;

use whimbrel_proto::{StreamId, Time};

use super::draft::Draft;
use super::run::Run;
use super::special::Special;
use crate::pair::End;

/// The longest time for a message to get past stalled streams, over good links.
const PAST: Duration = Duration::from_secs(15);
/// The number of bytes written at a time.
const PIECE: usize = 50_000;

impl Run {
    /// One end stops reading a stream, for a while or for the rest of the run, while the other keeps writing to it. A
    /// message must get past.
    pub(super) fn stall(&mut self, at: End, nth: u32, length: usize, time: Option<Duration>) {
        let Some(stream) = self.byte_stream(at, nth) else { return };
        if !self.desk(at.other()).bytes.contains(&stream) {
            // The other end does not know the stream yet.
            return;
        }
        self.coverage.special(Special::Stall);
        let until = time.map_or(Time::from_nanos(u64::MAX), |time| self.pair.now() + time);
        self.desk(at).stalled.insert(stream, until);
        self.make_way();
        let mut left = length;
        while left > 0 {
            let piece = left.min(PIECE);
            self.write_to(at.other(), stream, piece);
            self.pass(Duration::from_millis(20));
            left -= piece;
        }
        // After a NAT rebinding, only a packet from the client shows the server its new address.
        self.send(End::Client, &Draft::plain(100));
        self.goes_past(at);
        let link = self.link.clone();
        self.pair.relink(&link);
    }

    /// Returns whether the stream is not read at this time.
    pub(super) fn is_stalled(&mut self, at: End, stream: StreamId) -> bool {
        let now = self.pair.now();
        self.desk(at).stalled.get(&stream).is_some_and(|until| *until > now)
    }

    /// Checks that a message to `at` arrives.
    fn goes_past(&mut self, at: End) {
        let most = std::mem::replace(&mut self.desk(at).most, 10_000);
        let until = self.pair.now() + PAST;
        let number = self.model.next();
        self.send(at.other(), &Draft::plain(100));
        while !self.model.is_delivered(number) {
            assert!(
                self.pair.now() < until,
                "streams that nobody reads hold a message up: {:?}",
                self.state()
            );
            self.pass(Duration::from_millis(50));
            if self.model.next() == number {
                // The queue was full.
                self.send(at.other(), &Draft::plain(100));
            }
        }
        self.desk(at).most = most;
    }

    /// An application drops a stream without reading it.
    pub(super) fn abandon(&mut self, at: End, nth: u32, code: u64) {
        let Some(stream) = self.byte_stream(at, nth) else { return };
        self.coverage.special(Special::Abandon);
        if self.pair.session(at).stop(stream, code).is_ok() {
            self.model.on_stop(at, stream, code);
        }
        match self.pair.session(at).reset(stream, code) {
            Ok(()) => self.model.on_reset(at, stream, code),
            Err(_) => self.model.check_ended(at, stream),
        }
    }
}
