//! One pair of addresses, with everything that is its own: ids, numbers, round trips, loss, congestion, size.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::copies::Echoes;
use super::cost::Consent;
use super::coupling::Load;
use super::former::Former;
use super::keys::KeyUse;
use super::mtu::{self, Mtu};
use super::path_state::PathLifecycle;
use super::scheduler::View;
use super::transmit::{CHALLENGE_LEN, SACK_LEN};
use super::validation::Validation;
use super::{SentBlock, Transmit};
use crate::config::TransportConfig;
use crate::crypto::ResetToken;
use crate::recovery::{AckPace, Ecn, Received, Recovery};
use crate::wire::{Writer, block};
use crate::{ConnectionId, PathId, Time};

/// Packets a SACK may be held back for at most.
const MOST_UNREPORTED: u32 = 64;

/// A path that sent no SACK for so long had little to report: waiting for another packet would mostly be for a timer to fire.
const PAUSE: Duration = Duration::from_secs(1);

/// What is old is waited for no longer, whatever round trip a peer shows: until then its ids are held.
const LONGEST_DRAIN: Duration = Duration::from_secs(10);

/// A packet after so long a silence is news of the path.
const AFTER_SILENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    /// By which the peer addresses us.
    pub(super) local_id: ConnectionId,
    /// By which we address the peer.
    pub(super) remote_id: ConnectionId,
    pub(super) lifecycle: PathLifecycle,
    /// What a byte costs here, in the user's measure; less is better.
    pub(super) cost: u32,
    pub(super) consent: Consent,
    pub(super) keys: KeyUse,
    /// By which the peer would say that it lost the connection. A client gives none for the first path.
    pub(super) token: Option<ResetToken>,
    pub(super) recovery: Recovery<SentBlock>,
    pub(super) received: Received,
    pub(super) mtu: Mtu,
    pub(super) rebinding: Option<Box<Rebinding>>,
    /// Where the peer was before it moved, if it did.
    pub(super) former: Option<Box<Former>>,
    /// So much later packets came directly than from somebody who passed them on: round trips are no measure of it then.
    pub(super) lag: Duration,
    /// Of `remote`.
    pub(super) validation: Validation,
    /// It is to be closed as soon as another works.
    pub(super) unwanted: bool,
    /// That is by choice, and it works: what is under way on it may arrive.
    pub(super) lingers: bool,
    /// It is closed; CLOSE_PATH, by its number, once that was sent. Until the peer has it, it may send here.
    pub(super) told: Option<u32>,
    /// The peer has proven our address here: it can go on here when others are closed.
    pub(super) proven_there: bool,
    /// NEW_CID with our id, by its number, until the peer has it: before that it cannot answer here.
    pub(super) announced: Option<u32>,
    /// Challenges of the peer's, to be answered here.
    pub(super) answers: ChallengeAnswers,
    /// What goes here too.
    pub(super) echoes: Echoes,
    /// A KEEP_ALIVE is due here.
    pub(super) keep_alive_due: bool,
    pub(super) last_eliciting: Time,
    pub(super) last_received: Time,
    pub(super) last_sack: Time,
    pub(super) pacing_until: Option<Time>,
    pub(super) traffic: Traffic,
    /// What it carried and how long that took, compared with other paths; none while it is alone.
    pub(super) load: Option<Box<Load>>,
    /// Marks are of use here: the peer has reported them back, or had no chance to yet.
    pub(super) ecn_usable: bool,
}

/// Bytes and packets both ways, UDP payload.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_packets: u64,
    pub(super) received_bytes: u64,
    /// When it was last compared with that of other paths.
    pub(super) received_before: u64,
}

/// The peer's packets come from another address: probably a NAT that rebound. Data goes on to the old one until the new one has
/// answered a challenge, so that a copied packet with a forged source redirects nothing. Or they come from that of a path that is new.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rebinding {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    /// Of the first try; each further one has the next number, so that its answer shows a round trip, too.
    challenge: u64,
    /// Of `remote`, unless it is the path's own, which has one.
    allowance: Validation,
    next_probe: Time,
    tries: u8,
    asked: [Time; PROBES as usize],
    /// A challenge of the peer's that came from there, and is answered there as well.
    answer: Option<u64>,
    /// The round trip that an answer in the packet at hand shows.
    answered: Option<Duration>,
    /// It answered, which shows this round trip, and is believed once packets that come directly have had their time.
    proved: Option<Duration>,
    began: Time,
    /// The first packet that came from there.
    first: u64,
    /// That one, or a later one, came directly, too: somebody passes packets on.
    copied: bool,
}

/// Challenges sent to an address that does not answer.
const PROBES: u8 = 3;
/// Who answers is believed after this at the latest, however long a round trip is.
const LONGEST_DOUBT: Duration = Duration::from_secs(1);
/// How long each is waited for at most: the round trip that was measured may be an outage's, or somebody's who held packets back.
const PATIENCE: [Duration; PROBES as usize] =
    [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(6)];

impl Rebinding {
    pub(super) fn new(now: Time, remote: SocketAddr, local: Option<IpAddr>, challenge: u64) -> Self {
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

    pub(super) fn on_received(&mut self, bytes: usize) {
        self.allowance.on_received(bytes);
    }

    /// What goes out with the next try.
    pub(super) fn next_challenge(&self) -> u64 {
        self.challenge.wrapping_add(self.tries.into())
    }

    fn on_probe(&mut self, now: Time, wait: Duration) {
        if let Some(asked) = self.asked.get_mut(usize::from(self.tries)) {
            *asked = now;
        }
        self.tries += 1;
        self.next_probe = now + wait;
        self.answer = None;
    }

    /// An answer came, maybe to one of the challenges sent.
    pub(super) fn on_answer(&mut self, now: Time, answer: u64) {
        let tried = self.asked.iter().take(self.tries.into());
        let mut answers = tried.zip(0..).map(|(asked, at)| (*asked, self.challenge.wrapping_add(at)));
        let asked = answers.find(|(_, challenge)| *challenge == answer);
        self.answered = asked.map(|(asked, _)| now.since(asked)).or(self.answered);
    }

    /// The round trip that the answer in a packet from `remote` shows. None: there was none, or it came from elsewhere.
    pub(super) fn take_answer(&mut self, remote: SocketAddr) -> Option<Duration> {
        self.answered.take().filter(|_| remote == self.remote && !self.copied)
    }

    /// Copies of this packet and later ones show that somebody passes them on.
    pub(super) fn begins_with(mut self, number: u64) -> Self {
        self.first = number;
        self
    }

    /// Packets that come directly may take until then.
    fn believed_at(&self, rtt: Duration) -> Time {
        self.began + rtt.min(LONGEST_DOUBT)
    }

    /// It answered, but may be somebody who passes packets on.
    fn doubt(&mut self, rtt: Duration, until: Time) {
        self.proved = Some(rtt);
        self.tries = PROBES;
        self.next_probe = until;
    }

    /// True if that shows it for the first time.
    fn on_copy(&mut self, number: u64) -> bool {
        let shows = number >= self.first && !self.copied;
        self.copied |= shows;
        shows
    }

    /// The peer asks from there, too: it is answered there with the next challenge, which goes at once.
    pub(super) fn on_asked(&mut self, now: Time, challenge: u64) {
        self.answer = Some(challenge);
        self.hurry(now);
    }

    /// What goes out with the next try, where there is room for both.
    pub(super) fn next_answer(&self) -> Option<u64> {
        self.answer.filter(|_| self.allowance.room() >= CHALLENGE_LEN + 9)
    }

    /// The last one may have had no way: the next goes at once, if there is one.
    fn hurry(&mut self, now: Time) {
        if self.tries < PROBES {
            self.next_probe = now;
        }
    }

    /// When to probe again, or to give up.
    fn timeout(&self) -> Time {
        self.next_probe
    }
}

/// Challenges answered in one go; a peer that sends more at once gets the last of them answered.
const ANSWERS: usize = 4;

/// Challenges that wait to be answered.
#[derive(Debug, Default)]
pub(super) struct ChallengeAnswers(Vec<u64>);

impl ChallengeAnswers {
    pub(super) fn push(&mut self, challenge: u64) {
        if self.0.len() == ANSWERS {
            self.0.remove(0);
        }
        self.0.push(challenge);
    }

    /// The last that came.
    pub(super) fn newest(&self) -> Option<u64> {
        self.0.last().copied()
    }

    /// One waits: it goes out whatever congestion says, since the other side may be waiting for nothing else.
    pub(super) fn is_due(&self) -> bool {
        !self.0.is_empty()
    }

    /// Bytes they take.
    pub(super) fn room(&self) -> usize {
        9 * self.0.len()
    }

    /// Writes those that fit. True if there is one.
    pub(super) fn fill(&mut self, out: &mut Writer<'_>) -> bool {
        let before = self.0.len();
        while !self.0.is_empty() && out.remaining() >= 9 {
            out.u8(block::PROBE_ACK);
            out.u64(self.0.remove(0));
        }
        self.0.len() < before
    }
}

/// What makes a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) id: PathId,
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) local_id: ConnectionId,
    pub(super) remote_id: ConnectionId,
}

impl Path {
    pub(super) fn new(now: Time, ends: Ends, config: &TransportConfig, lifecycle: PathLifecycle) -> Self {
        let Ends { id, remote, local, local_id, remote_id } = ends;
        let headers = if remote.is_ipv4() { 28 } else { 48 };
        Self {
            id,
            remote,
            local,
            local_id,
            remote_id,
            lifecycle,
            cost: 0,
            consent: Consent::default(),
            keys: KeyUse::default(),
            token: None,
            recovery: Recovery::new(now, config.congestion, mtu::BASE as usize + headers),
            received: Received::default(),
            mtu: Mtu::new(config.max_udp_payload),
            rebinding: None,
            former: None,
            lag: Duration::ZERO,
            validation: Validation::Proven,
            unwanted: false,
            lingers: false,
            told: None,
            proven_there: lifecycle.is_proven(),
            announced: None,
            answers: ChallengeAnswers::default(),
            echoes: Echoes::default(),
            keep_alive_due: false,
            last_eliciting: now,
            last_received: now,
            last_sack: Time::ZERO,
            pacing_until: None,
            traffic: Traffic::default(),
            load: None,
            ecn_usable: config.ecn,
        }
    }

    /// A packet opened that had not come before.
    pub(super) fn on_received(&mut self, now: Time, from: SocketAddr, size: usize) {
        if now.since(self.last_received) > AFTER_SILENCE && self.recovery.is_unreachable() {
            // What comes this way again may go that way again.
            self.recovery.on_link_up(now);
            self.received.report_again();
        }
        self.last_received = now;
        self.traffic.received_packets += 1;
        self.traffic.received_bytes += size as u64;
        if from == self.remote {
            self.validation.on_received(size);
        }
    }

    /// What a scheduler needs to know.
    pub(super) fn view(&self) -> View {
        View {
            usable: self.lifecycle.is_usable(),
            standby: self.lifecycle.is_standby(),
            cost: self.cost,
            rtt: self.recovery.rtt.smoothed(),
            loss: self.recovery.loss(),
            rate: self.recovery.controller().pacing_rate(),
        }
    }

    pub(super) fn standby_wanted(&mut self, standby: bool) {
        self.lifecycle.on_preference(standby);
    }

    /// A datagram, or several, that go to where the peer is known to be.
    pub(super) fn transmit(&self, size: usize, segment_size: Option<usize>) -> Transmit {
        let ecn = self.ecn_usable.then_some(Ecn::Ect0);
        Transmit { destination: self.remote, source: self.local, ecn, size, segment_size }
    }

    /// Bytes that IP and UDP add to a datagram here.
    pub(super) fn headers(&self) -> u64 {
        if self.remote.is_ipv4() { 28 } else { 48 }
    }

    /// How fast SACKs are wanted: two packets, but no more often than eight in a round trip; what comes after a pause at once, since it may
    /// be all that comes.
    pub(super) fn ack_pace(&self, now: Time, max_delay: Duration) -> AckPace {
        let eighth = self.recovery.rtt.smoothed() / 8;
        let every = match now.since(self.last_sack) {
            pause if pause >= PAUSE => 1,
            pause if pause >= eighth.min(max_delay) => 2,
            _ => MOST_UNREPORTED,
        };
        AckPace { every, delay: eighth.min(max_delay).max(Duration::from_millis(1)) }
    }

    /// When something of this path is due; `established`: SACKs may be sent.
    pub(super) fn timeout(&self, established: bool) -> Option<Time> {
        let may_send = established && self.validation.room() >= SACK_LEN;
        let sack = may_send.then(|| self.received.next_sack()).flatten();
        let rebinding = self.rebinding.as_deref().map(Rebinding::timeout);
        let former = self.former.as_deref().map(Former::timeout).filter(|_| self.lifecycle.is_proven());
        [sack, self.recovery.timeout(), self.pacing_until, rebinding, former].into_iter().flatten().min()
    }

    /// When it is probed although nothing is sent on it (MMSP 3.3.4): `interval` after the last packet that came, or asked for an answer, and the longer
    /// nothing has been sent anywhere, the less often, down to the keep-alive.
    pub(super) fn probe_at(
        &self,
        last_data: Time,
        interval: Duration,
        keep_alive: Option<Duration>,
    ) -> Option<Time> {
        if !self.lifecycle.is_usable() || self.recovery.in_flight() > 0 {
            return None;
        }
        let quiet_since = self.last_eliciting.max(self.last_received);
        let stretched = interval.max(quiet_since.since(last_data).min(keep_alive?));
        Some(quiet_since + stretched)
    }

    /// Three probe timeouts: how long what is old may still arrive.
    pub(super) fn drain_time(&self) -> Duration {
        (self.recovery.rtt.deadline() * 3).clamp(Duration::from_millis(100), LONGEST_DRAIN)
    }

    /// Asks the far end of a new path whether it is there, in packets of `length`: what an address of our own choice gets before it answered.
    pub(super) fn ask(&mut self, now: Time, challenge: u64, length: usize) {
        if self.validation == Validation::Proven {
            self.validation = Validation::UNPROVEN;
        }
        self.validation.on_received(length);
        self.challenge(now, challenge);
    }

    /// Challenges the path's own address.
    pub(super) fn challenge(&mut self, now: Time, challenge: u64) {
        self.rebinding = Some(Box::new(Rebinding::new(now, self.remote, self.local, challenge)));
    }

    /// Nobody asks now whether the peer is there.
    pub(super) fn is_unasked(&self, now: Time) -> bool {
        self.rebinding.as_deref().is_none_or(|rebinding| rebinding.tries == 0 && rebinding.next_probe > now)
    }

    /// A link came up, and maybe the way that the last challenge did not have.
    pub(super) fn on_link_up(&mut self, now: Time) {
        self.recovery.on_link_up(now);
        self.hurry(now);
    }

    /// The last challenge of the path's own address may have been in vain: the next goes at once.
    pub(super) fn hurry(&mut self, now: Time) {
        if self.validation.room() < CHALLENGE_LEN {
            // The one on its way is all there is.
            return;
        }
        if let Some(rebinding) =
            self.rebinding.as_deref_mut().filter(|rebinding| rebinding.remote == self.remote)
        {
            rebinding.hurry(now);
        }
    }

    /// All challenges of its own address are out.
    pub(super) fn is_spent(&self) -> bool {
        let own = self.rebinding.as_deref().filter(|rebinding| rebinding.remote == self.remote);
        own.is_some_and(|rebinding| rebinding.tries == PROBES || self.validation.room() < CHALLENGE_LEN)
    }

    /// The challenge that may go out now: three times what came in from there, three tries.
    pub(super) fn challenge_due(&self, now: Time) -> Option<Rebinding> {
        let rebinding = self.rebinding.as_deref().copied()?;
        let own = rebinding.remote == self.remote;
        let room = if own { self.validation.room() } else { rebinding.allowance.room() };
        (rebinding.tries < PROBES && now >= rebinding.next_probe && room >= CHALLENGE_LEN)
            .then_some(rebinding)
    }

    /// A challenge of `size` bytes went out.
    pub(super) fn on_challenge(&mut self, now: Time, size: usize) {
        let wait = self.recovery.rtt.deadline() * 2;
        if let Some(rebinding) = self.rebinding.as_deref_mut() {
            let wait = wait.min(PATIENCE[usize::from(rebinding.tries).min(PATIENCE.len() - 1)]);
            rebinding.on_probe(now, wait);
            let own = rebinding.remote == self.remote;
            let allowance = if own { &mut self.validation } else { &mut rebinding.allowance };
            allowance.on_sent(size);
        }
    }

    /// An answer came in a packet from `remote`: the round trip that it shows, if it counts, and counts already.
    pub(super) fn take_answer(&mut self, now: Time, remote: SocketAddr) -> Option<Duration> {
        let moves = self.lifecycle.is_proven() && remote != self.remote;
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

    /// The same for an answer that came before and is believed now.
    pub(super) fn take_believed(&mut self, now: Time) -> Option<Duration> {
        let rebinding = self.rebinding.as_deref().filter(|rebinding| now >= rebinding.next_probe)?;
        rebinding.proved.filter(|_| !rebinding.copied)
    }

    /// Gives a challenge up that nothing may follow, and whose last packet has had its time. True if there was one.
    pub(super) fn expire_challenge(&mut self, now: Time) -> bool {
        let waits = self.rebinding.as_deref().is_some_and(|rebinding| now < rebinding.next_probe);
        let over = !waits && self.rebinding.is_some() && self.challenge_due(now).is_none();
        if over {
            self.rebinding = None;
        }
        over
    }

    /// A copy of packet `number` came from `from`.
    pub(super) fn on_copy(&mut self, now: Time, number: u64, from: SocketAddr) {
        self.received.on_duplicate();
        let (remote, rebinding) = (self.remote, self.rebinding.as_deref_mut());
        if let Some(rebinding) = rebinding
            && from == remote
            && rebinding.remote != remote
            && rebinding.on_copy(number)
        {
            self.lag = self.lag.max(now.since(rebinding.began));
        }
    }

    /// Only what comes in counts from now on.
    pub(super) fn on_closed(&mut self) {
        self.rebinding = None;
        self.former = None;
        self.echoes = Echoes::default();
        self.keep_alive_due = false;
    }

    /// The peer goes from here to another address: here it is asked with `challenge` from now on, unless it is back where it was before.
    pub(super) fn leave(&mut self, now: Time, challenge: u64, to: SocketAddr) {
        let goes_back = self.former.as_deref().is_some_and(|former| former.remote == to);
        let moves = to != self.remote && !goes_back;
        self.former = moves.then(|| Box::new(Former::new(now, self.remote, self.local, challenge)));
    }

    /// Moves to the address that answered. Round trip and congestion state stay: a rebinding NAT is the same path.
    pub(super) fn adopt(&mut self, rebinding: Rebinding) {
        self.move_to(rebinding.remote, rebinding.local);
    }

    /// The peer is where it was before. Returns where it seemed to be.
    pub(super) fn go_back(&mut self) -> Option<SocketAddr> {
        let former = self.former.take()?;
        let seemed = self.remote;
        self.move_to(former.remote, former.local);
        Some(seemed)
    }

    /// The peer has proven to be there.
    pub(super) fn move_to(&mut self, remote: SocketAddr, local: Option<IpAddr>) {
        self.remote = remote;
        self.local = local;
        self.validation.prove();
        self.rebinding = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_do_not_pile_up() {
        let mut answers = ChallengeAnswers::default();
        for challenge in 0..100 {
            answers.push(challenge);
        }
        let mut buf = Vec::new();
        assert!(answers.fill(&mut Writer::new(&mut buf, 1200)));
        assert_eq!(buf.len(), 9 * ANSWERS);
        assert!(!answers.is_due());
    }
}
