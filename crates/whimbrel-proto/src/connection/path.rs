//! One pair of addresses, with everything that is its own: ids, numbers, round trips, loss, congestion, size.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::mtu::Mtu;
use super::transmit::LEAST_PACKET;
use super::validation::Validation;
use super::{Item, Transmit};
use crate::recovery::{AckPace, Ecn, Received, Recovery};
use crate::{ConnectionId, PathId, Time};

/// Packets a SACK may be held back for at most.
const MOST_UNREPORTED: u32 = 64;

#[derive(Debug)]
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    /// By which the peer addresses us.
    pub(super) local_id: ConnectionId,
    /// By which we address the peer.
    pub(super) remote_id: ConnectionId,
    pub(super) recovery: Recovery<Item>,
    pub(super) received: Received,
    pub(super) mtu: Mtu,
    pub(super) rebinding: Option<Rebinding>,
    /// Of `remote`.
    pub(super) validation: Validation,
    pub(super) last_sack: Time,
    pub(super) pacing_until: Option<Time>,
    pub(super) traffic: Traffic,
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
}

/// The peer's packets come from another address: probably a NAT that rebound. Data goes on to the old one until the new one has
/// answered a challenge, so that a copied packet with a forged source redirects nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rebinding {
    pub(super) remote: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) challenge: u64,
    received: u64,
    sent: u64,
    next_probe: Time,
    tries: u8,
}

/// Challenges sent to an address that does not answer.
const PROBES: u8 = 3;

impl Rebinding {
    pub(super) fn new(now: Time, remote: SocketAddr, local: Option<IpAddr>, challenge: u64) -> Self {
        Self { remote, local, challenge, received: 0, sent: 0, next_probe: now, tries: 0 }
    }

    pub(super) fn on_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// A challenge of `size` bytes may go out now: three times what came in, three tries.
    pub(super) fn may_probe(&self, now: Time, size: usize) -> bool {
        self.tries < PROBES && now >= self.next_probe && self.sent + size as u64 <= 3 * self.received
    }

    pub(super) fn on_probe(&mut self, now: Time, size: usize, wait: Duration) {
        self.sent += size as u64;
        self.tries += 1;
        self.next_probe = now + wait;
    }

    /// When to probe again, or to give up.
    pub(super) fn timeout(&self) -> Time {
        self.next_probe
    }

    /// No challenge of `size` bytes may follow, and the last has had its time.
    pub(super) fn is_given_up(&self, now: Time, size: usize) -> bool {
        now >= self.next_probe && !self.may_probe(now, size)
    }
}

impl Path {
    /// A datagram, or several, that go to where the peer is known to be.
    pub(super) fn transmit(&self, size: usize, segment_size: Option<usize>) -> Transmit {
        let ecn = self.ecn_usable.then_some(Ecn::Ect0);
        Transmit { destination: self.remote, source: self.local, ecn, size, segment_size }
    }

    /// Bytes that IP and UDP add to a datagram here.
    pub(super) fn headers(&self) -> u64 {
        if self.remote.is_ipv4() { 28 } else { 48 }
    }

    /// How fast SACKs are wanted: two packets, but no more often than eight in a round trip.
    pub(super) fn ack_pace(&self, now: Time, max_delay: Duration) -> AckPace {
        let eighth = self.recovery.rtt.smoothed() / 8;
        let every = if now.since(self.last_sack) >= eighth.min(max_delay) { 2 } else { MOST_UNREPORTED };
        AckPace { every, delay: eighth.min(max_delay).max(Duration::from_millis(1)) }
    }

    /// When something of this path is due; `established`: SACKs may be sent.
    pub(super) fn timeout(&self, established: bool) -> Option<Time> {
        let may_send = established && self.validation.room() >= LEAST_PACKET;
        let sack = may_send.then(|| self.received.next_sack()).flatten();
        let rebinding = self.rebinding.as_ref().map(Rebinding::timeout);
        [sack, self.recovery.timeout(), self.pacing_until, rebinding].into_iter().flatten().min()
    }

    /// Three probe timeouts: how long what is old may still arrive.
    pub(super) fn drain_time(&self) -> Duration {
        (self.recovery.rtt.deadline() * 3).max(Duration::from_millis(100))
    }

    /// Moves to the address that answered. Round trip and congestion state stay: a rebinding NAT is the same path.
    pub(super) fn adopt(&mut self, rebinding: Rebinding) {
        self.move_to(rebinding.remote, rebinding.local);
    }

    /// The peer has proven to be there.
    pub(super) fn move_to(&mut self, remote: SocketAddr, local: Option<IpAddr>) {
        self.remote = remote;
        self.local = local;
        self.validation.prove();
        self.rebinding = None;
    }
}
