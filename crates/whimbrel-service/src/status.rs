//! The status report of a service, for people and programs.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use whimbrel::{Endpoint, Mocket, PathState, PathStats, PublicKey};

/// The answer to a status request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusReport {
    /// The name of the service.
    pub service: String,
    /// Its version, or nothing if it does not say.
    pub version: String,
    /// Its process ID.
    pub pid: u32,
    /// Seconds since its start.
    pub uptime_s: f64,
    /// Its public key.
    pub public_key: PublicKey,
    /// The address that its socket is bound to, if known.
    pub address: Option<SocketAddr>,
    /// Its open sessions.
    pub sessions: Vec<SessionReport>,
    /// Data specific to this service.
    pub more: serde_json::Value,
}

/// The status of one session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionReport {
    /// The peer's public key, once it is known.
    pub peer: Option<PublicKey>,
    /// The peer's current address.
    pub address: SocketAddr,
    /// The state of the session.
    pub state: SessionState,
    /// Seconds since a packet was last received from the peer.
    pub silent_s: f64,
    /// Bytes sent, UDP payload.
    pub sent_bytes: u64,
    /// Bytes received, UDP payload.
    pub received_bytes: u64,
    /// Messages sent.
    pub sent_messages: u64,
    /// Messages received.
    pub received_messages: u64,
    /// Bytes waiting to be sent.
    pub queue_bytes: u64,
    /// Messages received and not yet read.
    pub unread_messages: u64,
    /// The paths of the session.
    pub paths: Vec<PathReport>,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SessionState {
    /// The handshake is not complete.
    Connecting,
    /// At least one path works.
    Connected,
    /// No path works.
    Unreachable,
    /// The session has ended.
    Closed,
}

/// The status of one path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathReport {
    /// The ID of the path in the connection.
    pub id: u32,
    /// Its [`PathState`], in lower case.
    pub state: String,
    /// Whether this is the primary path, which data takes first.
    pub primary: bool,
    /// This host's address, if it is known.
    pub local: Option<IpAddr>,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The smoothed round-trip time, milliseconds.
    pub rtt_ms: f64,
    /// The recent packet loss rate, 0 to 1.
    pub loss: f64,
    /// The rate that congestion control estimates for the path, bytes per second. 0 if unknown.
    pub rate: u64,
    /// The largest UDP payload that the path carries, bytes.
    pub mtu: u16,
    /// Bytes sent, UDP payload.
    pub sent_bytes: u64,
    /// Bytes received, UDP payload.
    pub received_bytes: u64,
}

impl StatusReport {
    pub(crate) fn new(
        (service, version): (&str, &str),
        began: Instant,
        endpoint: &Endpoint,
        more: serde_json::Value,
    ) -> Self {
        Self {
            service: service.to_owned(),
            version: version.to_owned(),
            pid: std::process::id(),
            uptime_s: began.elapsed().as_secs_f64(),
            public_key: endpoint.public_key(),
            address: endpoint.local_addr().ok(),
            sessions: endpoint.mockets().iter().map(SessionReport::of).collect(),
            more,
        }
    }
}

impl SessionReport {
    /// Returns the current status of a session.
    pub fn of(mocket: &Mocket) -> Self {
        let stats = mocket.stats();
        let (connection, session) = (&stats.connection, &stats.session);
        let works = |path: &PathStats| matches!(path.state, PathState::Active | PathState::Standby);
        let state = if mocket.is_closed() {
            SessionState::Closed
        } else if mocket.peer_key().is_none() || !mocket.is_established() {
            SessionState::Connecting
        } else if connection.paths.iter().any(works) {
            SessionState::Connected
        } else {
            SessionState::Unreachable
        };
        Self {
            peer: mocket.peer_key(),
            address: mocket.peer_addr(),
            state,
            silent_s: connection.silent_for.as_secs_f64(),
            sent_bytes: connection.total.sent_bytes,
            received_bytes: connection.total.received_bytes,
            sent_messages: session.total.sent,
            received_messages: session.received,
            queue_bytes: session.queue_bytes,
            unread_messages: session.unread,
            paths: connection.paths.iter().map(PathReport::of).collect(),
        }
    }
}

impl PathReport {
    fn of(path: &PathStats) -> Self {
        Self {
            id: path.id.0,
            state: format!("{:?}", path.state).to_lowercase(),
            primary: path.primary,
            local: path.local,
            remote: path.remote,
            rtt_ms: path.rtt.as_secs_f64() * 1e3,
            loss: path.loss,
            rate: path.congestion.bandwidth,
            mtu: path.mtu,
            sent_bytes: path.sent_bytes,
            received_bytes: path.received_bytes,
        }
    }
}
