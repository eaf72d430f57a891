//! The parcel that one process hands over to the other.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use whimbrel::PublicKey;

use crate::flow::InHand;
use crate::intercept::tproxy::Interception;
use crate::intercept::tun::{Claim, TunInterception};
use crate::policy::Origin;
use crate::relay::{FlowRecord, Saved};

/// Everything that a proxy hands over.
#[derive(Debug, Default)]
pub struct Parcel {
    /// The port of the endpoint.
    pub(crate) port: u16,
    /// Where programs connect to, by way in and address as the settings have it.
    pub(crate) listeners: Vec<(String, OwnedFd)>,
    /// Interception. It stays with the process that hands over until the other one goes on.
    pub(crate) interception: Option<Interception>,
    /// The same by a TUN interface.
    pub(crate) tun: Option<TunInterception>,
    pub(crate) sessions: Vec<SessionParcel>,
    pub(crate) flows: Vec<FlowParcel>,
}

/// A session that was suspended.
#[derive(Debug)]
pub(crate) struct SessionParcel {
    pub(crate) note: SessionNote,
    /// As [`SuspendedMocket::to_bytes`](whimbrel::SuspendedMocket::to_bytes) returns it.
    pub(crate) state: Vec<u8>,
    pub(crate) udp: UdpParts,
}

/// The UDP programs of a session's peer.
#[derive(Debug, Default)]
pub(crate) struct UdpParts {
    /// The announcement of each context, as a message between proxies.
    pub(crate) contexts: Vec<Bytes>,
    /// The sockets of each program: up to two.
    pub(crate) programs: Vec<(SocketAddr, Vec<OwnedFd>)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionNote {
    pub(crate) peer: PublicKey,
    pub(crate) address: SocketAddr,
    /// The first number of a context of datagrams that was never used.
    pub(crate) next_context: u64,
}

/// A TCP flow that was taken apart.
#[derive(Debug)]
pub(crate) struct FlowParcel {
    pub(crate) program: OwnedFd,
    pub(crate) other: OtherEnd,
    pub(crate) hand: InHand,
    pub(crate) note: FlowNote,
    /// Its place in the process that goes on with it, if it came by a TUN interface. It is not handed over.
    pub(crate) claim: Option<Claim>,
}

/// The other end of a flow.
#[derive(Debug)]
pub(crate) enum OtherEnd {
    /// A stream of the session with this place in the parcel.
    Stream(usize, Saved),
    /// A connection to the target.
    Direct(OwnedFd),
}

/// The facts about a flow that the next process needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FlowNote {
    pub(crate) by_peer: bool,
    pub(crate) peer: String,
    pub(crate) target: String,
    pub(crate) program: Option<SocketAddr>,
    pub(crate) rule: Option<String>,
    #[serde(default)]
    pub(crate) origin: Origin,
    pub(crate) age: Duration,
}

impl FlowNote {
    pub(crate) fn of(record: &FlowRecord) -> Self {
        Self {
            by_peer: record.by_peer,
            peer: record.peer.to_string(),
            target: record.target.clone(),
            program: record.program,
            rule: record.rule.clone(),
            origin: record.origin.clone(),
            age: record.age(),
        }
    }
}

impl Parcel {
    /// Returns the port of the endpoint that was closed.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of sessions and of TCP flows.
    pub fn counts(&self) -> (usize, usize) {
        (self.sessions.len(), self.flows.len())
    }
}
