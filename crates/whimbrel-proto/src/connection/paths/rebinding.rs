//! A path's peer that seems to have moved.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::validation::Validation;
use crate::Time;
use crate::connection::packet::lengths::CHALLENGE_LEN;

/// The peer's packets come from another address: probably a NAT that rebound. Data goes on to the old one until the new one has
/// answered a challenge, so that a copied packet with a forged source redirects nothing. Or they come from that of a path that is new.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Rebinding {
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
    /// Of the first try; each further one has the next number, so that its answer shows a round trip, too.
    challenge: u64,
    /// Of `remote`, unless it is the path's own, which has one.
    pub(in crate::connection) allowance: Validation,
    pub(in crate::connection) next_probe: Time,
    pub(in crate::connection) tries: u8,
    asked: [Time; PROBES as usize],
    /// A challenge of the peer's that came from there, and is answered there as well.
    answer: Option<u64>,
    /// The round trip that an answer in the packet at hand shows.
    answered: Option<Duration>,
    /// It answered, which shows this round trip, and is believed once packets that come directly have had their time.
    pub(in crate::connection) proved: Option<Duration>,
    pub(in crate::connection) began: Time,
    /// The first packet that came from there.
    first: u64,
    /// That one, or a later one, came directly, too: somebody passes packets on.
    pub(in crate::connection) copied: bool,
}

/// Challenges sent to an address that does not answer.
pub(in crate::connection) const PROBES: u8 = 3;

/// Who answers is believed after this at the latest, however long a round trip is.
const LONGEST_DOUBT: Duration = Duration::from_secs(1);

/// How long each is waited for at most: the round trip that was measured may be an outage's, or somebody's who held packets back.
pub(in crate::connection) const PATIENCE: [Duration; PROBES as usize] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(6)];

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

    /// What goes out with the next try.
    pub(in crate::connection) fn next_challenge(&self) -> u64 {
        self.challenge.wrapping_add(self.tries.into())
    }

    pub(in crate::connection) fn on_probe(&mut self, now: Time, wait: Duration) {
        if let Some(asked) = self.asked.get_mut(usize::from(self.tries)) {
            *asked = now;
        }
        self.tries += 1;
        self.next_probe = now + wait;
        self.answer = None;
    }

    /// An answer came, maybe to one of the challenges sent.
    pub(in crate::connection) fn on_answer(&mut self, now: Time, answer: u64) {
        let tried = self.asked.iter().take(self.tries.into());
        let mut answers = tried.zip(0..).map(|(asked, at)| (*asked, self.challenge.wrapping_add(at)));
        let asked = answers.find(|(_, challenge)| *challenge == answer);
        self.answered = asked.map(|(asked, _)| now.since(asked)).or(self.answered);
    }

    /// The round trip that the answer in a packet from `remote` shows. None: there was none, or it came from elsewhere.
    pub(in crate::connection) fn take_answer(&mut self, remote: SocketAddr) -> Option<Duration> {
        self.answered.take().filter(|_| remote == self.remote && !self.copied)
    }

    /// Copies of this packet and later ones show that somebody passes them on.
    pub(in crate::connection) fn begins_with(mut self, number: u64) -> Self {
        self.first = number;
        self
    }

    /// Packets that come directly may take until then.
    pub(in crate::connection) fn believed_at(&self, rtt: Duration) -> Time {
        self.began + rtt.min(LONGEST_DOUBT)
    }

    /// It answered, but may be somebody who passes packets on.
    pub(in crate::connection) fn doubt(&mut self, rtt: Duration, until: Time) {
        self.proved = Some(rtt);
        self.tries = PROBES;
        self.next_probe = until;
    }

    /// True if that shows it for the first time.
    pub(in crate::connection) fn on_copy(&mut self, number: u64) -> bool {
        let shows = number >= self.first && !self.copied;
        self.copied |= shows;
        shows
    }

    /// The peer asks from there, too: it is answered there with the next challenge, which goes at once.
    pub(in crate::connection) fn on_asked(&mut self, now: Time, challenge: u64) {
        self.answer = Some(challenge);
        self.hurry(now);
    }

    /// What goes out with the next try, where there is room for both.
    pub(in crate::connection) fn next_answer(&self) -> Option<u64> {
        self.answer.filter(|_| self.allowance.room() >= CHALLENGE_LEN + 9)
    }

    /// The last one may have had no way: the next goes at once, if there is one.
    pub(in crate::connection) fn hurry(&mut self, now: Time) {
        if self.tries < PROBES {
            self.next_probe = now;
        }
    }

    /// When to probe again, or to give up.
    pub(in crate::connection) fn timeout(&self) -> Time {
        self.next_probe
    }
}
