//! Statistics of a connection, as a whole and per path (Mockets 3.4).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::PathId;
use crate::coding::CodingStats;
use crate::congestion::ControllerStats;
use crate::connection::packet::copies::DeadlineStats;
use crate::connection::paths::path::Path;
use crate::connection::paths::path_state::PathState;

/// Counts of dropped packets, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Too short to be a packet.
    pub short: u64,
    /// Longer than this side accepts ([`TransportConfig::max_udp_payload`](crate::TransportConfig::max_udp_payload)).
    pub long: u64,
    /// Sealed under keys that are not there yet, or no longer.
    pub no_keys: u64,
    /// Did not open: forged, damaged, or sealed under keys dropped long ago.
    pub forged: u64,
    /// Handshake packets that were invalid or not expected.
    pub handshake: u64,
    /// SACKs of packets that were never sent. The first one closes the connection.
    pub made_up: u64,
}

/// Statistics of one path. Bytes are UDP payload unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// The path's id.
    pub id: PathId,
    /// The path's state.
    pub state: PathState,
    /// Whether it is the primary path, which data uses first.
    pub primary: bool,
    /// This host's address, if it is known.
    pub local: Option<IpAddr>,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets received that opened, without duplicates.
    pub received_packets: u64,
    /// Bytes received in packets that opened, without duplicates.
    pub received_bytes: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Packets acknowledged.
    pub acked_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packet numbers left unused on purpose, to detect a peer that acknowledges packets it did not get (optimistic
    /// ACK).
    pub left_out: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_packets: u64,
    /// The share of packets lost lately, 0 to 1.
    pub loss: f64,
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The mean deviation of the round trip.
    pub rtt_variation: Duration,
    /// The lowest round trip of the last ten seconds.
    pub rtt_min: Duration,
    /// The latest sample of the round trip.
    pub rtt_latest: Duration,
    /// Bytes in flight, including IP and UDP headers.
    pub in_flight: u64,
    /// The state of congestion control.
    pub congestion: ControllerStats,
    /// The largest UDP payload known to work, bytes.
    pub mtu: u16,
    /// Whether the path counts as sharing its bottleneck with another one in use
    /// ([`TransportConfig::coupled`](crate::TransportConfig::coupled)).
    pub coupled: bool,
}

/// Counts over all paths that the connection has or had, and over the earlier connections that carried its session
/// here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Packets sent.
    pub sent_packets: u64,
    /// UDP payload sent, bytes.
    pub sent_bytes: u64,
    /// Bytes sent, including IP and UDP headers.
    pub sent_wire_bytes: u64,
    /// Packets received that opened, without duplicates.
    pub received_packets: u64,
    /// UDP payload received in packets that opened, bytes.
    pub received_bytes: u64,
    /// Packets received more than once.
    pub duplicates: u64,
    /// Packets acknowledged.
    pub acked_packets: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_packets: u64,
}

impl Totals {
    pub(in crate::connection) fn add(&mut self, path: &Path) {
        let (sent, received) = (path.traffic.sent(), path.traffic.received());
        let counters = path.recovery.counters();
        let headers = if path.remote().ip().to_canonical().is_ipv4() { 28 } else { 48 };
        self.sent_packets += sent.packets;
        self.sent_bytes += sent.bytes;
        self.sent_wire_bytes += sent.bytes + sent.packets * headers;
        self.received_packets += received.packets;
        self.received_bytes += received.bytes;
        self.duplicates += path.received.duplicates();
        self.acked_packets += counters.acked_packets;
        self.lost_packets += counters.lost_packets;
        self.spurious_packets += counters.spurious_packets;
    }
}

/// Statistics of a connection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// The paths that are not closed.
    pub paths: Vec<PathStats>,
    /// Totals over all paths, including closed ones and those of the connections that this one replaced.
    pub total: Totals,
    /// Packets that were dropped on arrival.
    pub dropped: Dropped,
    /// The number of key updates so far.
    pub key_updates: u64,
    /// The cost and the benefit of the deadline rule.
    pub deadlines: DeadlineStats,
    /// The cost and the benefit of repair symbols.
    pub coding: CodingStats,
    /// How long ago the peer was last heard.
    pub silent_for: Duration,
}

impl Path {
    pub(in crate::connection) fn stats(&self) -> PathStats {
        let path = self;
        let counters = path.recovery.counters();
        let (sent, received) = (path.traffic.sent(), path.traffic.received());
        PathStats {
            id: path.id(),
            state: path.lifecycle.state(),
            primary: false,
            local: path.local(),
            remote: path.remote(),
            sent_packets: sent.packets,
            sent_bytes: sent.bytes,
            received_packets: received.packets,
            received_bytes: received.bytes,
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
            coupled: path.is_coupled(),
        }
    }
}
