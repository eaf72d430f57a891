//! The last packet of a connection.

use std::net::SocketAddr;

use crate::PathId;
use crate::connection::packet::lengths::FAREWELLS;

/// The farewell, which is repeated to a peer that still sends.
pub(in crate::connection) struct Farewell {
    /// In a box: most connections have none yet.
    pub(in crate::connection) last: Option<Box<LastPacket>>,
    pub(in crate::connection) due: bool,
    /// An address of the peer's that is not the path's, to which the next repetition goes.
    pub(in crate::connection) to: Option<SocketAddr>,
    /// How many more times it may be sent.
    pub(in crate::connection) left: u8,
    /// Whether the endpoint was told that the connection is over.
    pub(in crate::connection) drained: bool,
}

/// A packet that is sealed again for another path.
pub(in crate::connection) struct LastPacket {
    pub(in crate::connection) packet: Vec<u8>,
    pub(in crate::connection) blocks: Vec<u8>,
    /// The path it is sealed for.
    pub(in crate::connection) on: PathId,
}

impl Default for Farewell {
    fn default() -> Self {
        Self { last: None, to: None, due: false, left: FAREWELLS, drained: false }
    }
}
