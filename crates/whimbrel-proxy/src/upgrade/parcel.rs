//! The parcel that one process hands over to the other.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use whimbrel::PublicKey;

use crate::intercept::tproxy::Interception;
use crate::intercept::tun::{Claim, TunInterception};
use crate::relay::{FlowParcel, UdpParts};

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
    pub(crate) flows: Vec<Claimed>,
}

/// A session that was suspended.
#[derive(Debug)]
pub(crate) struct SessionParcel {
    pub(crate) note: SessionNote,
    /// As [`SuspendedMocket::to_bytes`](whimbrel::SuspendedMocket::to_bytes) returns it.
    pub(crate) state: Vec<u8>,
    pub(crate) udp: UdpParts,
}

/// The facts about a session that the next process needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SessionNote {
    pub(crate) peer: PublicKey,
    pub(crate) address: SocketAddr,
    /// The first number of a context of datagrams that was never used.
    pub(crate) next_context: u64,
}

/// A flow of a parcel.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) flow: FlowParcel,
    /// Its place in the process that goes on with it, if it came by a TUN interface. It is not handed over.
    pub(crate) claim: Option<Claim>,
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
