//! Challenges of a path: to its own address, to where the peer seems to have moved, and to where it was before.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::Path;
use crate::Time;
use crate::connection::packet::lengths::CHALLENGE_LEN;
use crate::connection::paths::former::Former;
use crate::connection::paths::rebinding::{PROBES, Rebinding};
use crate::connection::paths::validation::Validation;

/// A challenge to the peer's former address, with the answer to the peer's own challenge if there is one.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct FormerChallenge {
    pub(in crate::connection) challenge: u64,
    pub(in crate::connection) answer: Option<u64>,
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
}

impl Path {
    /// Challenges the remote address of a path that this end opens. The address was chosen here and has sent nothing
    /// yet, so it is credited with `length` bytes: it may be sent three times as much.
    pub(in crate::connection) fn ask(&mut self, now: Time, challenge: u64, length: usize) {
        if self.validation == Validation::Proven {
            self.validation = Validation::UNPROVEN;
        }
        self.validation.on_received(length);
        self.challenge(now, challenge);
    }

    /// Begins a path that the peer has opened: its address is not validated.
    pub(in crate::connection) fn on_opened_by_peer(&mut self, now: Time, challenge: u64) {
        self.validation = Validation::UNPROVEN;
        self.challenge(now, challenge);
    }

    /// Challenges the path's own address.
    pub(in crate::connection) fn challenge(&mut self, now: Time, challenge: u64) {
        self.rebinding = Some(Box::new(Rebinding::new(now, self.ends.remote, self.ends.local, challenge)));
    }

    /// Returns whether no challenge is in progress: there is none, or its first try is not due yet.
    pub(in crate::connection) fn is_unasked(&self, now: Time) -> bool {
        self.rebinding.as_deref().is_none_or(|rebinding| rebinding.tries == 0 && rebinding.next_probe > now)
    }

    /// Makes the next challenge of the path's own address due now, because the last one may have been in vain.
    pub(in crate::connection) fn hurry(&mut self, now: Time) {
        if self.validation.room() < CHALLENGE_LEN {
            // The amplification limit permits no other: the one in flight must do.
            return;
        }
        if let Some(rebinding) =
            self.rebinding.as_deref_mut().filter(|rebinding| rebinding.remote == self.ends.remote)
        {
            rebinding.hurry(now);
        }
    }

    /// Returns whether no further challenge of the path's own address can be sent.
    pub(in crate::connection) fn is_spent(&self) -> bool {
        let own = self.rebinding.as_deref().filter(|rebinding| rebinding.remote == self.ends.remote);
        own.is_some_and(|rebinding| rebinding.tries == PROBES || self.validation.room() < CHALLENGE_LEN)
    }

    /// Returns the challenge that may be sent now. There are three tries, within the amplification limit of three times
    /// what came from there.
    pub(in crate::connection) fn challenge_due(&self, now: Time) -> Option<Rebinding> {
        let rebinding = self.rebinding.as_deref().copied()?;
        let own = rebinding.remote == self.ends.remote;
        let room = if own { self.validation.room() } else { rebinding.allowance.room() };
        (rebinding.tries < PROBES && now >= rebinding.next_probe && room >= CHALLENGE_LEN)
            .then_some(rebinding)
    }

    /// Records that a challenge of `size` bytes was sent.
    pub(in crate::connection) fn on_challenge(&mut self, now: Time, size: usize) {
        let wait = self.recovery.rtt.deadline() * 2;
        if let Some(rebinding) = self.rebinding.as_deref_mut() {
            let own = rebinding.remote == self.ends.remote;
            let allowance = if own { &mut self.validation } else { &mut rebinding.allowance };
            allowance.on_sent(size);
            let last = allowance.room() < CHALLENGE_LEN;
            // The measured round trip is that of the path's own address.
            let wait = if own { wait } else { wait.max(rebinding.least_wait(last)) };
            rebinding.on_probe(now, wait);
        }
    }

    /// Handles a packet from `remote`, which may hold an answer. Returns the round trip that the answer shows, if it
    /// counts and is believed already.
    pub(in crate::connection) fn take_answer(&mut self, now: Time, remote: SocketAddr) -> Option<Duration> {
        let moves = self.lifecycle.is_proven() && remote != self.ends.remote;
        let direct = self.recovery.rtt.smoothed().max(self.lag * 2);
        let rebinding = self.rebinding.as_deref_mut()?;
        let rtt = rebinding.take_answer(remote)?;
        let believed = rebinding.believed_at(direct);
        if moves && now < believed {
            rebinding.doubt(rtt, believed);
            return None;
        }
        Some(rtt)
    }

    /// Returns the round trip of an answer that came earlier, once it is believed.
    pub(in crate::connection) fn take_believed(&mut self, now: Time) -> Option<Duration> {
        let rebinding = self.rebinding.as_deref().filter(|rebinding| now >= rebinding.next_probe)?;
        rebinding.proved.filter(|_| !rebinding.copied)
    }

    /// Returns the challenge in progress.
    pub(in crate::connection) fn rebinding(&self) -> Option<Rebinding> {
        self.rebinding.as_deref().copied()
    }

    /// Challenges an unknown address from which packet `number` and `size` bytes came, unless that is done already.
    /// Returns whether that is new.
    pub(in crate::connection) fn challenge_origin(
        &mut self,
        now: Time,
        (from, to): (SocketAddr, Option<IpAddr>),
        (number, size): (Option<u64>, usize),
        challenge: impl FnOnce() -> u64,
    ) -> bool {
        if let Some(rebinding) = self.rebinding.as_deref_mut().filter(|rebinding| rebinding.remote == from) {
            rebinding.on_received(size);
            return false;
        }
        // Numbers of another path, which this one stands in for, say nothing here.
        let first = number.unwrap_or_else(|| self.received.expected());
        let mut rebinding = Rebinding::new(now, from, to, challenge()).begins_with(first);
        rebinding.on_received(size);
        self.rebinding = Some(Box::new(rebinding));
        true
    }

    /// Challenges an address to which the peer has moved on another path, where it has answered.
    pub(in crate::connection) fn challenge_moved(&mut self, now: Time, to: SocketAddr, challenge: u64) {
        let first = self.received.expected();
        let mut rebinding = Rebinding::new(now, to, self.ends.local, challenge).begins_with(first);
        rebinding.allowance.prove();
        self.rebinding = Some(Box::new(rebinding));
    }

    /// Handles a challenge of the peer that came from the address that is being challenged.
    pub(in crate::connection) fn on_asked_elsewhere(&mut self, now: Time, asked: u64) {
        if let Some(rebinding) = self.rebinding.as_deref_mut() {
            rebinding.on_asked(now, asked);
        }
    }

    /// Handles a challenge of the peer that came from `from`, if that is its former address.
    pub(in crate::connection) fn on_asked_at_former(&mut self, now: Time, from: SocketAddr) {
        if let Some(asked) = self.answers.newest()
            && let Some(former) = self.former.as_deref_mut().filter(|former| former.remote == from)
        {
            former.on_asked(now, asked);
        }
    }

    /// Handles an answer of the peer, whose packet is yet to show where it came from.
    pub(in crate::connection) fn on_answer(&mut self, now: Time, challenge: u64) {
        if let Some(rebinding) = self.rebinding.as_deref_mut() {
            rebinding.on_answer(now, challenge);
        }
        if let Some(former) = self.former.as_deref_mut() {
            former.on_answer(challenge);
        }
    }

    /// Handles a packet from `remote`. If it answers from the peer's former address, the path moves back there; returns
    /// the address where the peer seemed to be.
    pub(in crate::connection) fn take_former_answer(
        &mut self,
        now: Time,
        remote: SocketAddr,
    ) -> Option<SocketAddr> {
        let answers = self.former.as_deref_mut().is_some_and(|former| former.take_answer(remote));
        if answers { self.go_back(now) } else { None }
    }

    /// Returns what to send now to the peer's former address, and that address.
    pub(in crate::connection) fn poll_former(&mut self, now: Time) -> Option<FormerChallenge> {
        let former = self.former.as_deref_mut().filter(|_| self.lifecycle.is_proven())?;
        let (challenge, answer) = former.poll(now)?;
        Some(FormerChallenge { challenge, answer, remote: former.remote, local: former.local })
    }

    /// Gives up a challenge that has no further try, once the last try has had its time. Returns the address that it
    /// went to, and whether somebody relays packets there.
    pub(in crate::connection) fn expire_challenge(&mut self, now: Time) -> Option<(SocketAddr, bool)> {
        let waits = self.rebinding.as_deref().is_some_and(|rebinding| now < rebinding.next_probe);
        if waits || self.challenge_due(now).is_some() {
            return None;
        }
        self.rebinding.take().map(|rebinding| (rebinding.remote, rebinding.copied))
    }

    /// Handles a duplicate of packet `number` that came from `from`.
    pub(in crate::connection) fn on_copy(&mut self, now: Time, number: u64, from: SocketAddr) {
        self.received.on_duplicate();
        let (remote, rebinding) = (self.ends.remote, self.rebinding.as_deref_mut());
        if let Some(rebinding) = rebinding
            && from == remote
            && rebinding.remote != remote
            && rebinding.on_copy(number)
        {
            self.lag = self.lag.max(now.since(rebinding.began));
        }
    }

    /// Handles the peer's move from this address to another. This address is challenged with `challenge` from now on,
    /// unless the peer is back at its former address.
    pub(in crate::connection) fn leave(&mut self, now: Time, challenge: u64, to: SocketAddr) {
        let goes_back = self.former.as_deref().is_some_and(|former| former.remote == to);
        let moves = to != self.ends.remote && !goes_back;
        self.former = moves.then(|| Box::new(Former::new(now, self.ends.remote, self.ends.local, challenge)));
    }

    /// Moves the path to the address that answered. Round trip and congestion state stay, since a path behind a
    /// rebinding NAT is the same path.
    pub(in crate::connection) fn adopt(&mut self, now: Time, rebinding: Rebinding, rtt: Duration) {
        self.recovery.on_moved(now, Some(rtt));
        self.move_to(rebinding.remote, rebinding.local);
        // The last SACKs went to the address before.
        self.received.report_again();
    }

    /// Moves the path back to the peer's former address. Returns the address where the peer seemed to be.
    fn go_back(&mut self, now: Time) -> Option<SocketAddr> {
        let former = self.former.take()?;
        self.recovery.on_moved(now, None);
        let seemed = self.ends.remote;
        self.move_to(former.remote, former.local);
        self.received.report_again();
        Some(seemed)
    }

    /// Moves the path to an address that the peer has proven.
    pub(in crate::connection) fn move_to(&mut self, remote: SocketAddr, local: Option<IpAddr>) {
        self.ends.remote = remote;
        self.ends.local = local;
        self.validation.prove();
        self.rebinding = None;
    }
}
