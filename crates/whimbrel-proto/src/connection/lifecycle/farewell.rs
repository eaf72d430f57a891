//! The last packet of a connection.

use crate::PathId;
use crate::connection::packet::lengths::FAREWELLS;

/// It is repeated to a peer that goes on.
pub(in crate::connection) struct Farewell {
    pub(in crate::connection) packet: Option<Vec<u8>>,
    /// Its blocks, to be sealed anew for another path.
    pub(in crate::connection) blocks: Vec<u8>,
    /// The path it is sealed for.
    pub(in crate::connection) on: PathId,
    pub(in crate::connection) due: bool,
    /// How often it may be sent yet.
    pub(in crate::connection) left: u8,
    /// The endpoint was told that the connection is over.
    pub(in crate::connection) drained: bool,
}

impl Default for Farewell {
    fn default() -> Self {
        Self { packet: None, blocks: Vec::new(), on: PathId(0), due: false, left: FAREWELLS, drained: false }
    }
}
