//! Challenges to an address where the peer seems to be.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::validation::Validation;
use crate::Time;
use crate::connection::packet::lengths::CHALLENGE_LEN;

/// A challenge to an address that the peer's packets come from. Mostly it is a new one, probably because a NAT rebound.
/// Data goes on to the old address until the new one has answered, so a copied packet with a forged source redirects
/// nothing. The address of a new path is challenged in the same way.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Rebinding {
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
    /// The challenge of the first try. Each further try adds one, so that its answer shows a round trip, too.
    challenge: u64,
    /// The amplification limit for `remote`. If `remote` is the path's own address, the path's limit applies instead.
    pub(in crate::connection) allowance: Validation,
    pub(in crate::connection) next_probe: Time,
    pub(in crate::connection) tries: u8,
    asked: [Time; PROBES as usize],
    /// A challenge of the peer that came from there, and is answered there as well.
    answer: Option<u64>,
    /// The round trip shown by an answer in the packet at hand.
    answered: Option<Duration>,
    /// The round trip shown by an answer that is not believed yet. It is believed once packets that come directly have
    /// had time to arrive.
    pub(in crate::connection) proved: Option<Duration>,
    pub(in crate::connection) began: Time,
    /// The number of the first packet that came from there.
    first: u64,
    /// Whether that packet, or a later one, also came directly: somebody relays packets.
    pub(in crate::connection) copied: bool,
}

/// How many challenges are sent to an address that does not answer.
pub(in crate::connection) const PROBES: u8 = 3;

/// The longest time before an answer is believed, however long a round trip is.
const LONGEST_DOUBT: Duration = Duration::from_secs(1);

/// The longest wait for the answer to each try. The measured round trip may be that of an outage, or of somebody who
/// held packets back.
const PATIENCE: [Duration; PROBES as usize] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(6)];

/// The shortest wait for the answer to each try at an address other than the path's own. The way there may be much
/// longer than the way that was measured. If no answer came in time, each round of tries would be forgotten before its
/// answers come, and the peer never be followed. The second try is soon, since the first may be lost.
const LEAST_PATIENCE: [Duration; PROBES as usize] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(3)];

impl Rebinding {
    pub(in crate::connection) fn new(
        now: Time,
        remote: SocketAddr,
        local: Option<IpAddr>,
        challenge: u64,
    ) -> Self {
        let (first, copied) = (u64::MAX, false);
        let allowance = Validation::UNPROVEN;
        let asked = [now; PROBES as usize];
        Self {
            remote,
            local,
            challenge,
            allowance,
            next_probe: now,
            tries: 0,
            asked,
            answer: None,
            answered: None,
            proved: None,
            began: now,
            first,
            copied,
        }
    }

    pub(in crate::connection) fn on_received(&mut self, bytes: usize) {
        self.allowance.on_received(bytes);
    }

    /// Returns the challenge for the next try.
    pub(in crate::connection) fn next_challenge(&self) -> u64 {
        self.challenge.wrapping_add(self.tries.into())
    }

    /// Returns the shortest wait for the answer to the next try at an address that is not the path's own. `last` says
    /// that there is no room for another.
    pub(in crate::connection) fn least_wait(&self, last: bool) -> Duration {
        let least = LEAST_PATIENCE[self.nth()];
        if last { least.max(LEAST_PATIENCE[1]) } else { least }
    }

    /// Records a try, whose answer is expected within `wait`.
    pub(in crate::connection) fn on_probe(&mut self, now: Time, wait: Duration) {
        let wait = wait.min(PATIENCE[self.nth()]);
        if let Some(asked) = self.asked.get_mut(usize::from(self.tries)) {
            *asked = now;
        }
        self.tries += 1;
        self.next_probe = now + wait;
        self.answer = None;
    }

    /// Returns the place of the next try among all.
    fn nth(&self) -> usize {
        usize::from(self.tries.min(PROBES - 1))
    }

    /// Handles an answer, which may be to one of the challenges sent.
    pub(in crate::connection) fn on_answer(&mut self, now: Time, answer: u64) {
        let tried = self.asked.iter().take(self.tries.into());
        let mut answers = tried.zip(0..).map(|(asked, at)| (*asked, self.challenge.wrapping_add(at)));
        let asked = answers.find(|(_, challenge)| *challenge == answer);
        self.answered = asked.map(|(asked, _)| now.since(asked)).or(self.answered);
    }

    /// Returns the round trip shown by an answer in a packet from `remote`. `None` if there was no answer, it came from
    /// elsewhere, or packets are being relayed.
    pub(in crate::connection) fn take_answer(&mut self, remote: SocketAddr) -> Option<Duration> {
        self.answered.take().filter(|_| remote == self.remote && !self.copied)
    }

    /// Sets the number of the first packet from there. Duplicates of it and of later packets show that somebody relays
    /// them.
    pub(in crate::connection) fn begins_with(mut self, number: u64) -> Self {
        self.first = number;
        self
    }

    /// Returns when an answer is believed: by then, packets that come directly must have arrived.
    pub(in crate::connection) fn believed_at(&self, rtt: Duration) -> Time {
        self.began + rtt.min(LONGEST_DOUBT)
    }

    /// Holds an answer back until `until`, since it may come from somebody who relays packets.
    pub(in crate::connection) fn doubt(&mut self, rtt: Duration, until: Time) {
        self.proved = Some(rtt);
        self.tries = PROBES;
        self.next_probe = until;
    }

    /// Handles a duplicate that came directly. Returns whether it shows for the first time that packets are relayed.
    pub(in crate::connection) fn on_copy(&mut self, number: u64) -> bool {
        let shows = number >= self.first && !self.copied;
        self.copied |= shows;
        shows
    }

    /// Handles a challenge that the peer sent from there. It is answered there with the next challenge, which goes at
    /// once.
    pub(in crate::connection) fn on_asked(&mut self, now: Time, challenge: u64) {
        self.answer = Some(challenge);
        self.hurry(now);
    }

    /// Returns the answer to send with the next try, if there is room for both.
    pub(in crate::connection) fn next_answer(&self) -> Option<u64> {
        self.answer.filter(|_| self.allowance.room() >= CHALLENGE_LEN + 9)
    }

    /// Makes the next try due now, if there is one, because the last may have found no way.
    pub(in crate::connection) fn hurry(&mut self, now: Time) {
        if self.tries < PROBES {
            self.next_probe = now;
        }
    }

    /// Returns when to probe again, or to give up.
    pub(in crate::connection) fn timeout(&self) -> Time {
        self.next_probe
    }
}
