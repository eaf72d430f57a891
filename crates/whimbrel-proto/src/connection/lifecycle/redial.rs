//! Dialling the peer of a session whose connection was lost.

use std::net::{IpAddr, SocketAddr};

use crate::connection::state::Connection;

/// A handshake that is to carry the session on.
pub(in crate::connection) struct Redial {
    pub(in crate::connection) fresh: Connection,
    /// The address pairs by which the peer may be reached. Without a local address, the system chooses one.
    pub(in crate::connection) ways: Vec<AddressPair>,
    /// The pairs among `ways` to which the last SYN has not been sent yet.
    pub(in crate::connection) rest: Vec<AddressPair>,
}

pub(in crate::connection) type AddressPair = (Option<IpAddr>, SocketAddr);
