//! The last packet of a connection.

use crate::connection::packet::lengths::FAREWELLS;

/// It is repeated to a peer that goes on.
pub(in crate::connection) struct Farewell {
    pub(in crate::connection) packet: Option<Vec<u8>>,
    pub(in crate::connection) due: bool,
    /// How often it may be sent yet.
    pub(in crate::connection) left: u8,
    /// The endpoint was told that the connection is over.
    pub(in crate::connection) drained: bool,
}

impl Default for Farewell {
    fn default() -> Self {
        Self { packet: None, due: false, left: FAREWELLS, drained: false }
    }
}
