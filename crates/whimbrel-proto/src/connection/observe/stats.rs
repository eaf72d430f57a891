//! Figures of a connection, whole and per path (Mockets 3.4).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::PathId;
use crate::congestion::ControllerStats;
use crate::connection::packet::copies::DeadlineStats;
use crate::connection::paths::path::Path;
use crate::connection::paths::path_state::PathState;

/// Packets that were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Too short to be a packet.
    pub short: u64,
    /// Longer than this side said it takes ([`TransportConfig::max_udp_payload`](crate::TransportConfig::max_udp_payload)).
    pub long: u64,
    /// Under keys not there yet, or no longer.
    pub no_keys: u64,
    /// Did not open: forged, damaged, or sealed under keys long gone.
    pub forged: u64,
    /// Handshake packets that made no sense.
    pub handshake: u64,
    /// SACKs of packets that were never sent. The connection is closed for the first.
    pub made_up: u64,
}

/// One path. Bytes are UDP payload unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// Which.
    pub id: PathId,
    /// How it stands.
    pub state: PathState,
    /// Data goes here first.
    pub primary: bool,
    /// This host's address, where known.
    pub local: Option<IpAddr>,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received that opened, each once.
    pub received_packets: u64,
    /// Bytes received that opened, each packet once.
    pub received_bytes: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Packets acknowledged.
    pub acked_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packet numbers never used, so that a peer that acknowledges what it did not get is found out.
    pub left_out: u64,
    /// Of those, packets that arrived after all.
    pub spurious_packets: u64,
    /// Share of packets lost lately, 0 to 1.
    pub loss: f64,
    /// Smoothed round trip.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_variation: Duration,
    /// The lowest of the last ten seconds.
    pub rtt_min: Duration,
    /// The last sample.
    pub rtt_latest: Duration,
    /// Wire bytes in flight.
    pub in_flight: u64,
    /// What congestion control thinks.
    pub congestion: ControllerStats,
    /// Largest UDP payload found to work, bytes.
    pub mtu: u16,
    /// Counts as sharing its bottleneck with another path in use ([`crate::TransportConfig::coupled`]).
    pub coupled: bool,
}

/// Counts over all paths that a connection has or had, and those before it that carried its session here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Packets sent.
    pub sent_packets: u64,
    /// UDP payload sent, bytes.
    pub sent_bytes: u64,
    /// The same with IP and UDP headers.
    pub sent_wire_bytes: u64,
    /// Packets received that opened, each once.
    pub received_packets: u64,
    /// UDP payload received that opened, bytes.
    pub received_bytes: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Packets acknowledged.
    pub acked_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Of those, packets that arrived after all.
    pub spurious_packets: u64,
}

impl Totals {
    pub(in crate::connection) fn add(&mut self, path: &Path) {
        let (traffic, counters) = (path.traffic, path.recovery.counters());
        let headers = if path.remote.ip().to_canonical().is_ipv4() { 28 } else { 48 };
        self.sent_packets += traffic.sent_packets;
        self.sent_bytes += traffic.sent_bytes;
        self.sent_wire_bytes += traffic.sent_bytes + traffic.sent_packets * headers;
        self.received_packets += traffic.received_packets;
        self.received_bytes += traffic.received_bytes;
        self.duplicates += path.received.duplicates();
        self.acked_packets += counters.acked_packets;
        self.lost_packets += counters.lost_packets;
        self.spurious_packets += counters.spurious_packets;
    }
}

/// A connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// Each path.
    pub paths: Vec<PathStats>,
    /// All of them together, those that are closed, and those of connections that this one took the place of.
    pub total: Totals,
    /// Packets that were dropped on arrival.
    pub dropped: Dropped,
    /// Generations of keys so far, less one.
    pub key_updates: u64,
    /// What messages that could not have been sent again in time cost and saved.
    pub deadlines: DeadlineStats,
    /// How long the peer has not been heard.
    pub silent_for: Duration,
}

impl Path {
    pub(in crate::connection) fn stats(&self) -> PathStats {
        let path = self;
        let counters = path.recovery.counters();
        PathStats {
            id: path.id,
            state: path.lifecycle.state(),
            primary: false,
            local: path.local,
            remote: path.remote,
            sent_packets: path.traffic.sent_packets,
            sent_bytes: path.traffic.sent_bytes,
            received_packets: path.traffic.received_packets,
            received_bytes: path.traffic.received_bytes,
            duplicates: path.received.duplicates(),
            acked_packets: counters.acked_packets,
            lost_packets: counters.lost_packets,
            left_out: counters.left_out,
            spurious_packets: counters.spurious_packets,
            loss: path.recovery.loss(),
            rtt: path.recovery.rtt.smoothed(),
            rtt_variation: path.recovery.rtt.variation(),
            rtt_min: path.recovery.rtt.min(),
            rtt_latest: path.recovery.rtt.latest(),
            in_flight: path.recovery.in_flight(),
            congestion: path.recovery.controller().state(),
            mtu: path.mtu.current(),
            coupled: path.load.as_ref().is_some_and(|load| load.is_coupled()),
        }
    }
}
