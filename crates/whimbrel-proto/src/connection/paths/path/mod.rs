//! A pair of addresses with everything that is its own: ids, packet numbers, round trips, loss, congestion control,
//! MTU.

mod challenging;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub(in crate::connection) use challenging::FormerChallenge;

use super::challenge_answers::ChallengeAnswers;
use super::closing_notice::ClosingNotice;
use super::cost::PathCost;
use super::coupling::Load;
use super::former::Former;
use super::leaving::Leaving;
use super::path_state::PathLifecycle;
use super::proven_there::ProvenThere;
use super::pulse::Pulse;
use super::rebinding::Rebinding;
use super::scheduler::View;
use super::traffic::Traffic;
use super::validation::Validation;
use crate::config::TransportConfig;
use crate::congestion::Congestion;
use crate::connection::datagram::Transmit;
use crate::connection::handshake::keys::KeyUse;
use crate::connection::packet::copies::Echoes;
use crate::connection::packet::lengths::SACK_LEN;
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

/// One path. The nouns that it consists of guard their own state, so they are open; the rest changes by transitions.
#[derive(Debug)]
pub(in crate::connection) struct Path {
    ends: Ends,
    pub(in crate::connection) lifecycle: PathLifecycle,
    pub(in crate::connection) cost: PathCost,
    pub(in crate::connection) keys: KeyUse,
    /// The token by which the peer would report that it lost the connection. A client gives none for the first path.
    token: Option<ResetToken>,
    pub(in crate::connection) recovery: Recovery<SentBlock>,
    pub(in crate::connection) received: Received,
    pub(in crate::connection) mtu: Mtu,
    rebinding: Option<Box<Rebinding>>,
    /// The peer's address before it moved, if it did.
    former: Option<Box<Former>>,
    /// How much later packets came directly than from somebody who relayed them. Round trips do not show that delay
    /// then.
    lag: Duration,
    /// Whether the remote address is validated.
    validation: Validation,
    pub(in crate::connection) leaving: Leaving,
    pub(in crate::connection) closing_notice: ClosingNotice,
    /// Whether the peer has validated our address here. It can then go on here when others are closed.
    pub(in crate::connection) proven_there: ProvenThere,
    /// The number of the NEW_CID with our id, until the peer has it. Before that it cannot answer here.
    announced: Option<u32>,
    /// The peer's challenges that are to be answered here.
    pub(in crate::connection) answers: ChallengeAnswers,
    /// Copies of blocks sent on other paths, which are to go here, too.
    pub(in crate::connection) echoes: Echoes,
    pub(in crate::connection) pulse: Pulse,
    pacing_until: Option<Time>,
    pub(in crate::connection) traffic: Traffic,
    /// The path's load, for comparison with other paths. `None` while it is the only path.
    pub(super) load: Option<Box<Load>>,
    /// Whether packets are sent with an ECN mark, as configured.
    ecn_usable: bool,
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
        let headers = if ends.remote.is_ipv4() { 28 } else { 48 };
        Self {
            ends,
            lifecycle,
            cost: PathCost::default(),
            keys: KeyUse::default(),
            token: None,
            recovery: Recovery::new(now, config.congestion, mtu::BASE as usize + headers),
            received: Received::default(),
            mtu: Mtu::new(config.max_udp_payload),
            rebinding: None,
            former: None,
            lag: Duration::ZERO,
            validation: Validation::Proven,
            leaving: Leaving::default(),
            closing_notice: ClosingNotice::default(),
            proven_there: ProvenThere::new(lifecycle.is_proven()),
            announced: None,
            answers: ChallengeAnswers::default(),
            echoes: Echoes::default(),
            pulse: Pulse::new(now),
            pacing_until: None,
            traffic: Traffic::default(),
            load: None,
            ecn_usable: config.ecn,
        }
    }

    pub(in crate::connection) fn id(&self) -> PathId {
        self.ends.id
    }

    pub(in crate::connection) fn remote(&self) -> SocketAddr {
        self.ends.remote
    }

    pub(in crate::connection) fn local(&self) -> Option<IpAddr> {
        self.ends.local
    }

    /// Returns the id by which the peer addresses us.
    pub(in crate::connection) fn local_id(&self) -> ConnectionId {
        self.ends.local_id
    }

    /// Returns the id by which we address the peer.
    pub(in crate::connection) fn remote_id(&self) -> ConnectionId {
        self.ends.remote_id
    }

    /// Handles that the peer has chosen its id, in the handshake.
    pub(in crate::connection) fn on_remote_id(&mut self, id: ConnectionId) {
        self.ends.remote_id = id;
    }

    /// Handles a packet from the peer's known address that came to this local one.
    pub(in crate::connection) fn on_heard_at(&mut self, local: Option<IpAddr>) {
        self.ends.local = local.or(self.ends.local);
    }

    /// Points a path that nobody answered on at other addresses.
    pub(in crate::connection) fn aim_at(&mut self, local: IpAddr, remote: SocketAddr) {
        (self.ends.local, self.ends.remote) = (Some(local), remote);
    }

    /// Handles the token that the peer gave for this path.
    pub(in crate::connection) fn on_token(&mut self, token: ResetToken) {
        self.token = Some(token);
    }

    pub(in crate::connection) fn token(&self) -> Option<ResetToken> {
        self.token
    }

    /// Forgets the peer's token and returns it.
    pub(in crate::connection) fn drop_token(&mut self) -> Option<ResetToken> {
        self.token.take()
    }

    /// Notes the NEW_CID that tells the peer our id for this path, and that the peer does not have yet.
    pub(in crate::connection) fn on_announced(&mut self, notice: u32) {
        self.announced = Some(notice);
    }

    /// Returns the number of the NEW_CID that the peer does not have yet, as far as is known here.
    pub(in crate::connection) fn announced(&self) -> Option<u32> {
        self.announced
    }

    /// Handles that the peer has our id for this path. Before, it could not answer.
    pub(in crate::connection) fn on_announcement_known(&mut self, now: Time) {
        self.announced = None;
        self.hurry(now);
    }

    /// Returns how many bytes may be sent to the path's address: until it is validated, three times what came from it.
    pub(in crate::connection) fn room(&self) -> usize {
        self.validation.room()
    }

    /// Counts bytes that are sent to the path's address.
    pub(in crate::connection) fn spend(&mut self, bytes: usize) {
        self.validation.on_sent(bytes);
    }

    /// Counts bytes that came from the path's address.
    pub(in crate::connection) fn earn(&mut self, bytes: usize) {
        self.validation.on_received(bytes);
    }

    pub(in crate::connection) fn is_validated(&self) -> bool {
        self.validation == Validation::Proven
    }

    /// Handles that the peer has shown to be at the path's address.
    pub(in crate::connection) fn on_address_proven(&mut self) {
        self.validation.prove();
    }

    /// Handles that `bytes` came from an address without a proof that the peer is there.
    pub(in crate::connection) fn on_unvalidated(&mut self, bytes: u64) {
        self.validation = Validation::Unproven { received: bytes, sent: 0 };
    }

    /// Puts sending off until then.
    pub(in crate::connection) fn pace_until(&mut self, due: Time) {
        self.pacing_until = Some(due);
    }

    /// Ends the wait for the pacer.
    pub(in crate::connection) fn on_turn(&mut self, now: Time) {
        if let Some(due) = self.pacing_until.take().filter(|due| *due <= now) {
            self.recovery.on_woken(now.since(due));
        }
    }

    /// Counts a packet that was sent here.
    pub(in crate::connection) fn on_sent(&mut self, now: Time, size: usize, eliciting: bool) {
        self.traffic.on_sent(size);
        if eliciting {
            self.pulse.on_eliciting(now);
        }
    }

    /// Begins anew with loss and congestion, and returns what there was before.
    pub(in crate::connection) fn start_over(
        &mut self,
        now: Time,
        congestion: Congestion,
    ) -> Recovery<SentBlock> {
        let packet_size = usize::from(mtu::BASE) + self.headers() as usize;
        let fresh = Recovery::new(now, congestion, packet_size);
        let old = std::mem::replace(&mut self.recovery, fresh);
        self.recovery.go_on_from(&old);
        old
    }

    /// Records a packet that opened and is no duplicate.
    pub(in crate::connection) fn on_received(&mut self, now: Time, from: SocketAddr, size: usize) {
        if self.pulse.unheard_for(now) > AFTER_SILENCE && self.recovery.is_unreachable() {
            // A path that works again in this direction may work again in the other.
            self.recovery.on_link_up(now);
            self.received.report_again();
        }
        self.pulse.on_received(now);
        self.traffic.on_received(size);
        if from == self.ends.remote {
            self.validation.on_received(size);
        }
    }

    /// Returns what a scheduler needs to know of the path.
    pub(in crate::connection) fn view(&self) -> View {
        View {
            usable: self.lifecycle.is_usable(),
            standby: self.lifecycle.is_standby(),
            cost: self.cost.value(),
            rtt: self.recovery.rtt.smoothed(),
            unloaded: self.recovery.unloaded_rtt(),
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
        Transmit { destination: self.ends.remote, source: self.ends.local, ecn, size, segment_size }
    }

    /// Returns how many bytes IP and UDP add to a datagram here.
    pub(in crate::connection) fn headers(&self) -> u64 {
        if self.ends.remote.is_ipv4() { 28 } else { 48 }
    }

    /// Returns how soon a SACK is wanted: after two packets, but no more than eight times in a round trip. A packet
    /// after a pause is acknowledged at once, since it may be the only one.
    pub(in crate::connection) fn ack_pace(&self, now: Time, max_delay: Duration) -> AckPace {
        let eighth = self.recovery.rtt.smoothed() / 8;
        let every = match self.pulse.unreported_for(now) {
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
        Time::earliest([sack, self.recovery.timeout(), self.pacing_until, rebinding, former])
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
        let quiet_since = self.pulse.quiet_since();
        let stretched = interval.max(quiet_since.since(last_data).min(keep_alive?));
        Some(quiet_since + stretched)
    }

    /// Returns three probe timeouts, which is how long late packets may still arrive. At least 100 ms and at most
    /// [`LONGEST_DRAIN`].
    pub(in crate::connection) fn drain_time(&self) -> Duration {
        (self.recovery.rtt.deadline() * 3).clamp(Duration::from_millis(100), LONGEST_DRAIN)
    }

    /// Handles a link that came up. The last challenge may have found no way, so the next one goes at once.
    pub(in crate::connection) fn on_link_up(&mut self, now: Time) {
        self.recovery.on_link_up(now);
        self.hurry(now);
    }

    /// Handles that the path fails. The peer may be at its former address, and the last SACK may not have arrived: the
    /// next one goes another way.
    pub(in crate::connection) fn on_failed(&mut self, now: Time) {
        if let Some(former) = self.former.as_deref_mut() {
            former.on_silence(now);
        }
        self.received.report_again();
    }

    /// Stops all sending on the path. Only what comes in counts from now on.
    pub(in crate::connection) fn on_closed(&mut self) {
        self.rebinding = None;
        self.former = None;
        self.echoes = Echoes::default();
        self.pulse.on_answer_asked();
    }
}
