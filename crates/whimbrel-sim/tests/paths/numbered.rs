//! Numbered messages, which show losses, duplicates and reordering.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::Service;
use whimbrel_sim::pair::{End, Pair};

/// Messages from the client to the server: even numbers are sequenced, odd ones are not.
#[derive(Default)]
pub(super) struct Numbered {
    pub(super) sent: u64,
    sequenced: u64,
    loose: BTreeSet<u64>,
    /// The longest time without a message.
    pub(super) worst: Duration,
}

impl Numbered {
    /// Keeps messages waiting for `time`.
    pub(super) fn carry(&mut self, pair: &mut Pair, time: Duration) {
        let end = pair.now() + time;
        let mut last = pair.now();
        pair.run_until(time, |pair| {
            while pair.connection(End::Client).session_ref().stats().queue_messages < 100 {
                self.send(pair);
            }
            if self.take(pair) {
                self.worst = self.worst.max(pair.now().since(last));
                last = pair.now();
            }
            pair.now() >= end
        });
    }

    /// Checks that everything arrives within `limit`.
    pub(super) fn drain(&mut self, pair: &mut Pair, limit: Duration) {
        let all = pair.run_until(limit, |pair| {
            self.take(pair);
            self.sequenced + self.loose.len() as u64 == self.sent
        });
        let missing = self.sent - self.sequenced - self.loose.len() as u64;
        assert!(all, "{missing} of {} missing", self.sent);
    }

    fn send(&mut self, pair: &mut Pair) {
        let service = [Service::ReliableSequenced, Service::ReliableUnsequenced][self.sent as usize % 2];
        let mut payload = self.sent.to_be_bytes().to_vec();
        payload.resize(1000, 0);
        pair.send(End::Client, service, Bytes::from(payload));
        self.sent += 1;
    }

    /// Takes what arrived. Returns whether there was anything.
    fn take(&mut self, pair: &mut Pair) -> bool {
        let messages = pair.recv(End::Server);
        for message in &messages {
            let number = u64::from_be_bytes(message.payload[..8].try_into().expect("a number"));
            if number % 2 == 0 {
                assert_eq!(number, self.sequenced * 2, "in order, once");
                self.sequenced += 1;
            } else {
                assert!(self.loose.insert(number), "{number} twice");
            }
        }
        !messages.is_empty()
    }
}
