//! One pair of addresses, with everything that is its own: ids, numbers, round trips, loss, congestion, size.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::challenge_answers::ChallengeAnswers;
use super::cost::Consent;
use super::coupling::Load;
use super::former::Former;
use super::path_state::PathLifecycle;
use super::proven_there::ProvenThere;
use super::rebinding::{PATIENCE, PROBES, Rebinding};
use super::scheduler::View;
use super::validation::Validation;
use crate::config::TransportConfig;
use crate::connection::datagram::Transmit;
use crate::connection::handshake::keys::KeyUse;
use crate::connection::packet::copies::Echoes;
use crate::connection::packet::lengths::{CHALLENGE_LEN, SACK_LEN};
use crate::connection::packet::mtu;
use crate::connection::packet::mtu::Mtu;
use crate::connection::packet::sent_block::SentBlock;
use crate::crypto::ResetToken;
use crate::recovery::{AckPace, Ecn, Received, Recovery};
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
pub(in crate::connection) struct Path {
    pub(in crate::connection) id: PathId,
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
    /// By which the peer addresses us.
    pub(in crate::connection) local_id: ConnectionId,
    /// By which we address the peer.
    pub(in crate::connection) remote_id: ConnectionId,
    pub(in crate::connection) lifecycle: PathLifecycle,
    /// What a byte costs here, in the user's measure; less is better.
    pub(in crate::connection) cost: u32,
    pub(in crate::connection) consent: Consent,
    pub(in crate::connection) keys: KeyUse,
    /// By which the peer would say that it lost the connection. A client gives none for the first path.
    pub(in crate::connection) token: Option<ResetToken>,
    pub(in crate::connection) recovery: Recovery<SentBlock>,
    pub(in crate::connection) received: Received,
    pub(in crate::connection) mtu: Mtu,
    pub(in crate::connection) rebinding: Option<Box<Rebinding>>,
    /// Where the peer was before it moved, if it did.
    pub(in crate::connection) former: Option<Box<Former>>,
    /// So much later packets came directly than from somebody who passed them on: round trips are no measure of it then.
    pub(in crate::connection) lag: Duration,
    /// Of `remote`.
    pub(in crate::connection) validation: Validation,
    /// It is to be closed as soon as another works.
    pub(in crate::connection) unwanted: bool,
    /// That is by choice, and it works: what is under way on it may arrive.
    pub(in crate::connection) lingers: bool,
    /// It is closed; CLOSE_PATH, by its number, once that was sent. Until the peer has it, it may send here.
    pub(in crate::connection) told: Option<u32>,
    /// It was closed and is used again; CLOSE_PATH by its number, which may arrive yet.
    pub(in crate::connection) recalled: Option<u32>,
    /// The peer has proven our address here: it can go on here when others are closed.
    pub(in crate::connection) proven_there: ProvenThere,
    /// NEW_CID with our id, by its number, until the peer has it: before that it cannot answer here.
    pub(in crate::connection) announced: Option<u32>,
    /// Challenges of the peer's, to be answered here.
    pub(in crate::connection) answers: ChallengeAnswers,
    /// What goes here too.
    pub(in crate::connection) echoes: Echoes,
    /// A KEEP_ALIVE is due here.
    pub(in crate::connection) keep_alive_due: bool,
    pub(in crate::connection) last_eliciting: Time,
    pub(in crate::connection) last_received: Time,
    pub(in crate::connection) last_sack: Time,
    pub(in crate::connection) pacing_until: Option<Time>,
    pub(in crate::connection) traffic: Traffic,
    /// What it carried and how long that took, compared with other paths; none while it is alone.
    pub(in crate::connection) load: Option<Box<Load>>,
    /// Marks are of use here: the peer has reported them back, or had no chance to yet.
    pub(in crate::connection) ecn_usable: bool,
}

/// Bytes and packets both ways, UDP payload.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct Traffic {
    pub(in crate::connection) sent_packets: u64,
    pub(in crate::connection) sent_bytes: u64,
    pub(in crate::connection) received_packets: u64,
    pub(in crate::connection) received_bytes: u64,
    /// When it was last compared with that of other paths.
    pub(in crate::connection) received_before: u64,
}

/// What makes a path.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Ends {
    pub(in crate::connection) id: PathId,
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
    pub(in crate::connection) local_id: ConnectionId,
    pub(in crate::connection) remote_id: ConnectionId,
}

impl Path {
    pub(in crate::connection) fn new(
        now: Time,
        ends: Ends,
        config: &TransportConfig,
        lifecycle: PathLifecycle,
    ) -> Self {
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
            recalled: None,
            proven_there: ProvenThere::new(lifecycle.is_proven()),
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
    pub(in crate::connection) fn on_received(&mut self, now: Time, from: SocketAddr, size: usize) {
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
    pub(in crate::connection) fn view(&self) -> View {
        View {
            usable: self.lifecycle.is_usable(),
            standby: self.lifecycle.is_standby(),
            cost: self.cost,
            rtt: self.recovery.rtt.smoothed(),
            loss: self.recovery.loss(),
            rate: self.recovery.controller().pacing_rate(),
        }
    }

    pub(in crate::connection) fn standby_wanted(&mut self, standby: bool) {
        self.lifecycle.on_preference(standby);
    }

    /// A datagram, or several, that go to where the peer is known to be.
    pub(in crate::connection) fn transmit(&self, size: usize, segment_size: Option<usize>) -> Transmit {
        let ecn = self.ecn_usable.then_some(Ecn::Ect0);
        Transmit { destination: self.remote, source: self.local, ecn, size, segment_size }
    }

    /// Bytes that IP and UDP add to a datagram here.
    pub(in crate::connection) fn headers(&self) -> u64 {
        if self.remote.is_ipv4() { 28 } else { 48 }
    }

    /// How fast SACKs are wanted: two packets, but no more often than eight in a round trip; what comes after a pause at once, since it may
    /// be all that comes.
    pub(in crate::connection) fn ack_pace(&self, now: Time, max_delay: Duration) -> AckPace {
        let eighth = self.recovery.rtt.smoothed() / 8;
        let every = match now.since(self.last_sack) {
            pause if pause >= PAUSE => 1,
            pause if pause >= eighth.min(max_delay) => 2,
            _ => MOST_UNREPORTED,
        };
        AckPace { every, delay: eighth.min(max_delay).max(Duration::from_millis(1)) }
    }

    /// When something of this path is due; `established`: SACKs may be sent.
    pub(in crate::connection) fn timeout(&self, established: bool) -> Option<Time> {
        let may_send = established && self.validation.room() >= SACK_LEN;
        let sack = may_send.then(|| self.received.next_sack()).flatten();
        let rebinding = self.rebinding.as_deref().map(Rebinding::timeout);
        let former = self.former.as_deref().map(Former::timeout).filter(|_| self.lifecycle.is_proven());
        [sack, self.recovery.timeout(), self.pacing_until, rebinding, former].into_iter().flatten().min()
    }

    /// When it is probed although nothing is sent on it (MMSP 3.3.4): `interval` after the last packet that came, or asked for an answer, and the longer
    /// nothing has been sent anywhere, the less often, down to the keep-alive.
    pub(in crate::connection) fn probe_at(
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
    pub(in crate::connection) fn drain_time(&self) -> Duration {
        (self.recovery.rtt.deadline() * 3).clamp(Duration::from_millis(100), LONGEST_DRAIN)
    }

    /// Asks the far end of a new path whether it is there, in packets of `length`: what an address of our own choice gets before it answered.
    pub(in crate::connection) fn ask(&mut self, now: Time, challenge: u64, length: usize) {
        if self.validation == Validation::Proven {
            self.validation = Validation::UNPROVEN;
        }
        self.validation.on_received(length);
        self.challenge(now, challenge);
    }

    /// Challenges the path's own address.
    pub(in crate::connection) fn challenge(&mut self, now: Time, challenge: u64) {
        self.rebinding = Some(Box::new(Rebinding::new(now, self.remote, self.local, challenge)));
    }

    /// Nobody asks now whether the peer is there.
    pub(in crate::connection) fn is_unasked(&self, now: Time) -> bool {
        self.rebinding.as_deref().is_none_or(|rebinding| rebinding.tries == 0 && rebinding.next_probe > now)
    }

    /// A link came up, and maybe the way that the last challenge did not have.
    pub(in crate::connection) fn on_link_up(&mut self, now: Time) {
        self.recovery.on_link_up(now);
        self.hurry(now);
    }

    /// The last challenge of the path's own address may have been in vain: the next goes at once.
    pub(in crate::connection) fn hurry(&mut self, now: Time) {
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
    pub(in crate::connection) fn is_spent(&self) -> bool {
        let own = self.rebinding.as_deref().filter(|rebinding| rebinding.remote == self.remote);
        own.is_some_and(|rebinding| rebinding.tries == PROBES || self.validation.room() < CHALLENGE_LEN)
    }

    /// The challenge that may go out now: three times what came in from there, three tries.
    pub(in crate::connection) fn challenge_due(&self, now: Time) -> Option<Rebinding> {
        let rebinding = self.rebinding.as_deref().copied()?;
        let own = rebinding.remote == self.remote;
        let room = if own { self.validation.room() } else { rebinding.allowance.room() };
        (rebinding.tries < PROBES && now >= rebinding.next_probe && room >= CHALLENGE_LEN)
            .then_some(rebinding)
    }

    /// A challenge of `size` bytes went out.
    pub(in crate::connection) fn on_challenge(&mut self, now: Time, size: usize) {
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
    pub(in crate::connection) fn take_answer(&mut self, now: Time, remote: SocketAddr) -> Option<Duration> {
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
    pub(in crate::connection) fn take_believed(&mut self, now: Time) -> Option<Duration> {
        let rebinding = self.rebinding.as_deref().filter(|rebinding| now >= rebinding.next_probe)?;
        rebinding.proved.filter(|_| !rebinding.copied)
    }

    /// Gives a challenge up that nothing may follow, and whose last packet has had its time. True if there was one.
    pub(in crate::connection) fn expire_challenge(&mut self, now: Time) -> bool {
        let waits = self.rebinding.as_deref().is_some_and(|rebinding| now < rebinding.next_probe);
        let over = !waits && self.rebinding.is_some() && self.challenge_due(now).is_none();
        if over {
            self.rebinding = None;
        }
        over
    }

    /// A copy of packet `number` came from `from`.
    pub(in crate::connection) fn on_copy(&mut self, now: Time, number: u64, from: SocketAddr) {
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
    pub(in crate::connection) fn on_closed(&mut self) {
        self.rebinding = None;
        self.former = None;
        self.echoes = Echoes::default();
        self.keep_alive_due = false;
    }

    /// The peer goes from here to another address: here it is asked with `challenge` from now on, unless it is back where it was before.
    pub(in crate::connection) fn leave(&mut self, now: Time, challenge: u64, to: SocketAddr) {
        let goes_back = self.former.as_deref().is_some_and(|former| former.remote == to);
        let moves = to != self.remote && !goes_back;
        self.former = moves.then(|| Box::new(Former::new(now, self.remote, self.local, challenge)));
    }

    /// Moves to the address that answered. Round trip and congestion state stay: a rebinding NAT is the same path.
    pub(in crate::connection) fn adopt(&mut self, now: Time, rebinding: Rebinding, rtt: Duration) {
        self.recovery.on_moved(now, Some(rtt));
        self.move_to(rebinding.remote, rebinding.local);
    }

    /// The peer is where it was before. Returns where it seemed to be.
    pub(in crate::connection) fn go_back(&mut self, now: Time) -> Option<SocketAddr> {
        let former = self.former.take()?;
        self.recovery.on_moved(now, None);
        let seemed = self.remote;
        self.move_to(former.remote, former.local);
        Some(seemed)
    }

    /// The peer has proven to be there.
    pub(in crate::connection) fn move_to(&mut self, remote: SocketAddr, local: Option<IpAddr>) {
        self.remote = remote;
        self.local = local;
        self.validation.prove();
        self.rebinding = None;
    }
}
