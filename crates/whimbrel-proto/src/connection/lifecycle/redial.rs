//! Dialling the peer of a session whose connection is lost.

use std::net::{IpAddr, SocketAddr};

use crate::connection::state::Connection;

/// A handshake that is to carry the session on.
pub(in crate::connection) struct Redial {
    pub(in crate::connection) fresh: Connection,
    /// From where (none: wherever the system sends from) and to where a peer may be reached.
    pub(in crate::connection) ways: Vec<AddressPair>,
    /// Of them, those that the SYN sent last has not gone by yet.
    pub(in crate::connection) rest: Vec<AddressPair>,
}

pub(in crate::connection) type AddressPair = (Option<IpAddr>, SocketAddr);
