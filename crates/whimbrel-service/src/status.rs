//! What a service says of itself: for people and for programs.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use whimbrel::{Endpoint, Mocket, PathState, PathStats, PublicKey};

/// The answer to `status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StatusReport {
    /// What runs.
    pub service: String,
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it was started.
    pub uptime_s: f64,
    /// Its key.
    pub public_key: PublicKey,
    /// Where its socket is bound.
    pub address: Option<SocketAddr>,
    /// Sessions that are open.
    pub sessions: Vec<SessionReport>,
    /// What is particular to this service.
    pub more: serde_json::Value,
}

/// One session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionReport {
    /// The peer's key, once it is known.
    pub peer: Option<PublicKey>,
    /// Where the peer is now.
    pub address: SocketAddr,
    /// Whether it works.
    pub state: SessionState,
    /// Seconds since the peer was heard.
    pub silent_s: f64,
    /// Bytes sent, UDP payload.
    pub sent_bytes: u64,
    /// Bytes received, UDP payload.
    pub received_bytes: u64,
    /// Messages sent.
    pub sent_messages: u64,
    /// Messages received.
    pub received_messages: u64,
    /// Bytes that wait to be sent.
    pub queue_bytes: u64,
    /// Bytes that came and were not read.
    pub unread_bytes: u64,
    /// Its paths.
    pub paths: Vec<PathReport>,
}

/// Whether a session works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SessionState {
    /// The handshake goes on.
    Connecting,
    /// A path works.
    Connected,
    /// No path works.
    Unreachable,
    /// The session has ended.
    Closed,
}

/// One path of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathReport {
    /// Its number in the connection.
    pub id: u32,
    /// As [`PathState`], in lower case.
    pub state: String,
    /// Data goes here first.
    pub primary: bool,
    /// This host's address, if it is known.
    pub local: Option<IpAddr>,
    /// The peer's.
    pub remote: SocketAddr,
    /// Smoothed round trip, milliseconds.
    pub rtt_ms: f64,
    /// Share of packets lost lately, 0 to 1.
    pub loss: f64,
    /// What congestion control thinks the path carries, bytes a second; 0 if it does not know.
    pub rate: u64,
    /// Largest UDP payload.
    pub mtu: u16,
    /// Bytes sent, UDP payload.
    pub sent_bytes: u64,
    /// Bytes received, UDP payload.
    pub received_bytes: u64,
}

impl StatusReport {
    pub(crate) fn new(service: &str, began: Instant, endpoint: &Endpoint, more: serde_json::Value) -> Self {
        Self {
            service: service.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
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
    /// Of a session, now.
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
            unread_bytes: session.unread,
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
