//! The memory of what went to a broker of MQTT 3.1.1, which sends a client its own messages.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::Time;

/// How long an echo may take.
const KEPT: Duration = Duration::from_secs(60);
/// The most messages that are remembered.
const MOST: usize = 16_384;

/// The messages that were sent, by digests of topic and payload. A sender cannot choose them, since they depend on a random key.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    key: RandomState,
    sent: VecDeque<(Time, u64)>,
    /// How many of each are expected back.
    expected: HashMap<u64, u32>,
}

impl Echoes {
    /// A message is sent, under a topic that may come back.
    pub(super) fn expect(&mut self, topic: &str, payload: &[u8], now: Time) {
        self.expire(now);
        let digest = self.key.hash_one((topic, payload));
        self.sent.push_back((now, digest));
        *self.expected.entry(digest).or_default() += 1;
    }

    /// Whether a message that comes is one that was sent. Each counts once.
    pub(super) fn is_echo(&mut self, topic: &str, payload: &[u8], now: Time) -> bool {
        self.expire(now);
        self.take(self.key.hash_one((topic, payload)))
    }

    fn expire(&mut self, now: Time) {
        while let Some((at, digest)) = self.sent.front().copied()
            && (now.since(at) >= KEPT || self.sent.len() >= MOST)
        {
            self.sent.pop_front();
            self.take(digest);
        }
    }

    /// Expects one less. Returns whether one was expected.
    fn take(&mut self, digest: u64) -> bool {
        let Some(number) = self.expected.get_mut(&digest) else { return false };
        *number -= 1;
        if *number == 0 {
            self.expected.remove(&digest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_comes_back_once_and_soon() {
        let at = |seconds| Time::at(Duration::from_secs(seconds));
        let mut echoes = Echoes::default();
        echoes.expect("a", b"1", at(0));
        assert!(!echoes.is_echo("a", b"2", at(1)) && !echoes.is_echo("b", b"1", at(1)));
        assert!(echoes.is_echo("a", b"1", at(1)));
        assert!(!echoes.is_echo("a", b"1", at(1)), "a client of others sends the same");
        echoes.expect("a", b"1", at(2));
        assert!(!echoes.is_echo("a", b"1", at(70)));
        for number in 0..100_000_u32 {
            echoes.expect("a", &number.to_le_bytes(), at(80));
        }
        assert!(echoes.sent.len() <= MOST && echoes.expected.len() <= MOST);
    }
}
