//! Where the peer was before it came from elsewhere.
//!
//! Whoever passes packets on faster than they come directly makes it look as if the peer had moved, its answers to challenges included.
//! So the address before is asked again, and a peer that answers from there has not moved: a NAT that really rebound does not let it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::Time;

/// From the first challenge to the second; each further wait is twice as long, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// Of so many challenges the answers count.
const REMEMBERED: u64 = 4;

/// See the module.
#[derive(Debug)]
pub(in crate::connection) struct Former {
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
    /// Of the first try; each further one has the next number.
    challenge: u64,
    tries: u64,
    next: Time,
    wait: Duration,
    /// A challenge of the peer's that came from there.
    asked: Option<u64>,
    /// The packet at hand has an answer.
    answered: bool,
}

impl Former {
    /// It is asked at once.
    pub(in crate::connection) fn new(
        now: Time,
        remote: SocketAddr,
        local: Option<IpAddr>,
        challenge: u64,
    ) -> Self {
        let (next, wait) = (now, FIRST_WAIT);
        Self { remote, local, challenge, tries: 0, next, wait, asked: None, answered: false }
    }

    /// When it is asked next.
    pub(in crate::connection) fn timeout(&self) -> Time {
        self.next
    }

    /// What to say there now: a challenge, and the answer to one.
    pub(in crate::connection) fn poll(&mut self, now: Time) -> Option<(u64, Option<u64>)> {
        if now < self.next {
            return None;
        }
        let challenge = self.challenge.wrapping_add(self.tries);
        self.tries += 1;
        self.next = now + self.wait;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        Some((challenge, self.asked.take()))
    }

    /// Nothing comes from where the peer seems to be.
    pub(in crate::connection) fn on_silence(&mut self, now: Time) {
        self.wait = FIRST_WAIT;
        self.next = self.next.min(now + FIRST_WAIT);
    }

    /// The peer asks from there: it was proven once, so it is answered there.
    pub(in crate::connection) fn on_asked(&mut self, now: Time, challenge: u64) {
        self.asked = Some(challenge);
        self.next = now;
    }

    /// An answer came, maybe to one of the challenges sent.
    pub(in crate::connection) fn on_answer(&mut self, answer: u64) {
        let first = self.tries.saturating_sub(REMEMBERED);
        self.answered |= (first..self.tries).any(|nth| self.challenge.wrapping_add(nth) == answer);
    }

    /// The packet at hand came from `remote`. True: the peer is there still.
    pub(in crate::connection) fn take_answer(&mut self, remote: SocketAddr) -> bool {
        std::mem::take(&mut self.answered) && remote == self.remote
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there() -> SocketAddr {
        ([192, 0, 2, 1], 9).into()
    }

    #[test]
    fn it_is_asked_less_and_less_often() {
        let mut former = Former::new(Time::ZERO, there(), None, u64::MAX);
        let mut waits = Vec::new();
        for nth in 0..13u64 {
            let now = former.timeout();
            assert_eq!(former.poll(now), Some((u64::MAX.wrapping_add(nth), None)));
            assert_eq!(former.poll(now), None);
            waits.push(former.timeout().since(now).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]);
        let now = former.timeout().saturating_sub(Duration::from_secs(500));
        former.on_silence(now);
        assert_eq!(former.timeout(), now + FIRST_WAIT);
    }

    #[test]
    fn an_answer_counts_from_there_only() {
        let mut former = Former::new(Time::ZERO, there(), None, 7);
        former.on_answer(7);
        assert!(!former.take_answer(there()), "nothing was asked");
        former.poll(Time::ZERO);
        former.on_answer(7);
        assert!(!former.take_answer(([192, 0, 2, 2], 9).into()));
        assert!(!former.take_answer(there()), "that packet is over");
        former.on_answer(7);
        assert!(former.take_answer(there()));
    }

    #[test]
    fn who_asks_from_there_is_answered_at_once() {
        let mut former = Former::new(Time::ZERO, there(), None, 7);
        former.poll(Time::ZERO);
        former.on_asked(Time::ZERO, 99);
        assert_eq!(former.poll(Time::ZERO), Some((8, Some(99))));
        assert_eq!(former.poll(former.timeout()), Some((9, None)));
    }
}
