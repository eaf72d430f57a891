//! The peer's address before it seemed to move.
//!
//! Somebody may relay packets faster than they come directly. It then looks as if the peer had moved, since its answers
//! to challenges come that way, too. So the former address is challenged again. A peer that answers from there has not
//! moved: after a real NAT rebinding it could not.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::Time;

/// The wait from the first challenge to the second. Each further wait is twice as long, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The number of latest challenges to which an answer counts.
const REMEMBERED: u64 = 4;

/// The peer's former address, and the challenges sent there.
#[derive(Debug)]
pub(in crate::connection) struct Former {
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
    /// The challenge of the first try. Each further try adds one.
    challenge: u64,
    tries: u64,
    next: Time,
    wait: Duration,
    /// A challenge of the peer that came from there.
    asked: Option<u64>,
    /// Whether the packet at hand holds an answer.
    answered: bool,
}

impl Former {
    /// Creates the state; the first challenge is due at once.
    pub(in crate::connection) fn new(
        now: Time,
        remote: SocketAddr,
        local: Option<IpAddr>,
        challenge: u64,
    ) -> Self {
        let (next, wait) = (now, FIRST_WAIT);
        Self { remote, local, challenge, tries: 0, next, wait, asked: None, answered: false }
    }

    /// Returns when the next challenge is due.
    pub(in crate::connection) fn timeout(&self) -> Time {
        self.next
    }

    /// Returns what to send there now: a challenge, and the answer to the peer's own challenge if there is one.
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

    /// Challenges the address more often again, because nothing comes from where the peer seems to be.
    pub(in crate::connection) fn on_silence(&mut self, now: Time) {
        self.wait = FIRST_WAIT;
        self.next = self.next.min(now + FIRST_WAIT);
    }

    /// Handles a challenge that the peer sent from there. The peer was proven there once, so it is answered there.
    pub(in crate::connection) fn on_asked(&mut self, now: Time, challenge: u64) {
        self.asked = Some(challenge);
        self.next = now;
    }

    /// Handles an answer, which may be to one of the latest challenges.
    pub(in crate::connection) fn on_answer(&mut self, answer: u64) {
        let first = self.tries.saturating_sub(REMEMBERED);
        self.answered |= (first..self.tries).any(|nth| self.challenge.wrapping_add(nth) == answer);
    }

    /// Ends the packet at hand, which came from `remote`. Returns whether it shows that the peer is still there.
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
