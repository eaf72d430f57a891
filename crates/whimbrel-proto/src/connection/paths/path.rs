//! A pair of addresses with everything that is its own: ids, packet numbers, round trips, loss, congestion control,
//! MTU.

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

/// The most packets for which a SACK may be held back.
const MOST_UNREPORTED: u32 = 64;

/// On a path without a SACK for this long, the next packet is acknowledged at once. It had little to report: waiting
/// for another packet would mostly end with a timer.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest time for which late packets are expected, whatever round trip a peer shows. Ids are held until then.
const LONGEST_DRAIN: Duration = Duration::from_secs(10);

/// A packet after a silence of this length shows that the path may work again.
const AFTER_SILENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(in crate::connection) struct Path {
    pub(in crate::connection) id: PathId,
    pub(in crate::connection) remote: SocketAddr,
    pub(in crate::connection) local: Option<IpAddr>,
    /// The id by which the peer addresses us.
    pub(in crate::connection) local_id: ConnectionId,
    /// The id by which we address the peer.
    pub(in crate::connection) remote_id: ConnectionId,
    pub(in crate::connection) lifecycle: PathLifecycle,
    /// The cost of a byte here, in the application's unit. Less is better.
    pub(in crate::connection) cost: u32,
    pub(in crate::connection) consent: Consent,
    pub(in crate::connection) keys: KeyUse,
    /// The token by which the peer would report that it lost the connection. A client gives none for the first path.
    pub(in crate::connection) token: Option<ResetToken>,
    pub(in crate::connection) recovery: Recovery<SentBlock>,
    pub(in crate::connection) received: Received,
    pub(in crate::connection) mtu: Mtu,
    pub(in crate::connection) rebinding: Option<Box<Rebinding>>,
    /// The peer's address before it moved, if it did.
    pub(in crate::connection) former: Option<Box<Former>>,
    /// How much later packets came directly than from somebody who relayed them. Round trips do not show that delay
    /// then.
    pub(in crate::connection) lag: Duration,
    /// Whether `remote` is validated.
    pub(in crate::connection) validation: Validation,
    /// Whether the path is to be closed as soon as another works.
    pub(in crate::connection) unwanted: bool,
    /// Whether the path is left by choice although it works, so that what is in flight on it may arrive.
    pub(in crate::connection) lingers: bool,
    /// The number of the CLOSE_PATH that was queued after the path was closed. The peer may send here until it has
    /// that.
    pub(in crate::connection) told: Option<u32>,
    /// The number of an earlier CLOSE_PATH that was withdrawn when the path was reopened. It may still arrive.
    pub(in crate::connection) recalled: Option<u32>,
    /// Whether the peer has validated our address here. It can then go on here when others are closed.
    pub(in crate::connection) proven_there: ProvenThere,
    /// The number of the NEW_CID with our id, until the peer has it. Before that it cannot answer here.
    pub(in crate::connection) announced: Option<u32>,
    /// The peer's challenges that are to be answered here.
    pub(in crate::connection) answers: ChallengeAnswers,
    /// Copies of blocks sent on other paths, which are to go here, too.
    pub(in crate::connection) echoes: Echoes,
    /// Whether a KEEP_ALIVE is due here.
    pub(in crate::connection) keep_alive_due: bool,
    pub(in crate::connection) last_eliciting: Time,
    pub(in crate::connection) last_received: Time,
    pub(in crate::connection) last_sack: Time,
    pub(in crate::connection) pacing_until: Option<Time>,
    pub(in crate::connection) traffic: Traffic,
    /// The path's load, for comparison with other paths. `None` while it is the only path.
    pub(in crate::connection) load: Option<Box<Load>>,
    /// Whether packets are sent with an ECN mark, as configured.
    pub(in crate::connection) ecn_usable: bool,
}

/// Packets and bytes in both directions. Bytes are UDP payload.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct Traffic {
    pub(in crate::connection) sent_packets: u64,
    pub(in crate::connection) sent_bytes: u64,
    pub(in crate::connection) received_packets: u64,
    pub(in crate::connection) received_bytes: u64,
    /// `received_bytes` when it was last compared with that of other paths.
    pub(in crate::connection) received_before: u64,
}

/// The ids and addresses of a path.
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

    /// Records a packet that opened and is no duplicate.
    pub(in crate::connection) fn on_received(&mut self, now: Time, from: SocketAddr, size: usize) {
        if now.since(self.last_received) > AFTER_SILENCE && self.recovery.is_unreachable() {
            // A path that works again in this direction may work again in the other.
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

    /// Returns what a scheduler needs to know of the path.
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

    /// Returns the transmission of one datagram or several to the peer's known address.
    pub(in crate::connection) fn transmit(&self, size: usize, segment_size: Option<usize>) -> Transmit {
        let ecn = self.ecn_usable.then_some(Ecn::Ect0);
        Transmit { destination: self.remote, source: self.local, ecn, size, segment_size }
    }

    /// Returns how many bytes IP and UDP add to a datagram here.
    pub(in crate::connection) fn headers(&self) -> u64 {
        if self.remote.is_ipv4() { 28 } else { 48 }
    }

    /// Returns how soon a SACK is wanted: after two packets, but no more than eight times in a round trip. A packet
    /// after a pause is acknowledged at once, since it may be the only one.
    pub(in crate::connection) fn ack_pace(&self, now: Time, max_delay: Duration) -> AckPace {
        let eighth = self.recovery.rtt.smoothed() / 8;
        let every = match now.since(self.last_sack) {
            pause if pause >= PAUSE => 1,
            pause if pause >= eighth.min(max_delay) => 2,
            _ => MOST_UNREPORTED,
        };
        AckPace { every, delay: eighth.min(max_delay).max(Duration::from_millis(1)) }
    }

    /// Returns when something is due on this path. `established` says whether SACKs may be sent.
    pub(in crate::connection) fn timeout(&self, established: bool) -> Option<Time> {
        let may_send = established && self.validation.room() >= SACK_LEN;
        let sack = may_send.then(|| self.received.next_sack()).flatten();
        let rebinding = self.rebinding.as_deref().map(Rebinding::timeout);
        let former = self.former.as_deref().map(Former::timeout).filter(|_| self.lifecycle.is_proven());
        [sack, self.recovery.timeout(), self.pacing_until, rebinding, former].into_iter().flatten().min()
    }

    /// Returns when the path is probed although nothing is sent on it (MMSP 3.3.4). That is `interval` after the last
    /// packet that came, or that asked for acknowledgement. The interval grows the longer no messages have been sent or
    /// received on any path, up to the keep-alive. Without a keep-alive there are no such probes.
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

    /// Returns three probe timeouts, which is how long late packets may still arrive. At least 100 ms and at most
    /// [`LONGEST_DRAIN`].
    pub(in crate::connection) fn drain_time(&self) -> Duration {
        (self.recovery.rtt.deadline() * 3).clamp(Duration::from_millis(100), LONGEST_DRAIN)
    }

    /// Challenges the remote address of a path that this end opens. The address was chosen here and has sent nothing
    /// yet, so it is credited with `length` bytes: it may be sent three times as much.
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

    /// Returns whether no challenge is in progress: there is none, or its first try is not due yet.
    pub(in crate::connection) fn is_unasked(&self, now: Time) -> bool {
        self.rebinding.as_deref().is_none_or(|rebinding| rebinding.tries == 0 && rebinding.next_probe > now)
    }

    /// Handles a link that came up. The last challenge may have found no way, so the next one goes at once.
    pub(in crate::connection) fn on_link_up(&mut self, now: Time) {
        self.recovery.on_link_up(now);
        self.hurry(now);
    }

    /// Makes the next challenge of the path's own address due now, because the last one may have been in vain.
    pub(in crate::connection) fn hurry(&mut self, now: Time) {
        if self.validation.room() < CHALLENGE_LEN {
            // The amplification limit permits no other: the one in flight must do.
            return;
        }
        if let Some(rebinding) =
            self.rebinding.as_deref_mut().filter(|rebinding| rebinding.remote == self.remote)
        {
            rebinding.hurry(now);
        }
    }

    /// Returns whether no further challenge of the path's own address can be sent.
    pub(in crate::connection) fn is_spent(&self) -> bool {
        let own = self.rebinding.as_deref().filter(|rebinding| rebinding.remote == self.remote);
        own.is_some_and(|rebinding| rebinding.tries == PROBES || self.validation.room() < CHALLENGE_LEN)
    }

    /// Returns the challenge that may be sent now. There are three tries, within the amplification limit of three times
    /// what came from there.
    pub(in crate::connection) fn challenge_due(&self, now: Time) -> Option<Rebinding> {
        let rebinding = self.rebinding.as_deref().copied()?;
        let own = rebinding.remote == self.remote;
        let room = if own { self.validation.room() } else { rebinding.allowance.room() };
        (rebinding.tries < PROBES && now >= rebinding.next_probe && room >= CHALLENGE_LEN)
            .then_some(rebinding)
    }

    /// Records that a challenge of `size` bytes was sent.
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

    /// Handles a packet from `remote`, which may hold an answer. Returns the round trip that the answer shows, if it
    /// counts and is believed already.
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

    /// Returns the round trip of an answer that came earlier, once it is believed.
    pub(in crate::connection) fn take_believed(&mut self, now: Time) -> Option<Duration> {
        let rebinding = self.rebinding.as_deref().filter(|rebinding| now >= rebinding.next_probe)?;
        rebinding.proved.filter(|_| !rebinding.copied)
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
        let (remote, rebinding) = (self.remote, self.rebinding.as_deref_mut());
        if let Some(rebinding) = rebinding
            && from == remote
            && rebinding.remote != remote
            && rebinding.on_copy(number)
        {
            self.lag = self.lag.max(now.since(rebinding.began));
        }
    }

    /// Stops all sending on the path. Only what comes in counts from now on.
    pub(in crate::connection) fn on_closed(&mut self) {
        self.rebinding = None;
        self.former = None;
        self.echoes = Echoes::default();
        self.keep_alive_due = false;
    }

    /// Handles the peer's move from this address to another. This address is challenged with `challenge` from now on,
    /// unless the peer is back at its former address.
    pub(in crate::connection) fn leave(&mut self, now: Time, challenge: u64, to: SocketAddr) {
        let goes_back = self.former.as_deref().is_some_and(|former| former.remote == to);
        let moves = to != self.remote && !goes_back;
        self.former = moves.then(|| Box::new(Former::new(now, self.remote, self.local, challenge)));
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
    pub(in crate::connection) fn go_back(&mut self, now: Time) -> Option<SocketAddr> {
        let former = self.former.take()?;
        self.recovery.on_moved(now, None);
        let seemed = self.remote;
        self.move_to(former.remote, former.local);
        self.received.report_again();
        Some(seemed)
    }

    /// Moves the path to an address that the peer has proven.
    pub(in crate::connection) fn move_to(&mut self, remote: SocketAddr, local: Option<IpAddr>) {
        self.remote = remote;
        self.local = local;
        self.validation.prove();
        self.rebinding = None;
    }
}
