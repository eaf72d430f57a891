//! The peer of a connection.

use crate::crypto::PublicKey;

/// The peer's identity and its limits.
pub(in crate::connection) struct Peer {
    /// Whether a packet under the final keys was opened, which proves the peer's identity.
    pub(in crate::connection) confirmed: bool,
    pub(in crate::connection) key: Option<PublicKey>,
    /// The longest packet the peer accepts, bytes.
    pub(in crate::connection) max_packet: u64,
}

impl Default for Peer {
    fn default() -> Self {
        Self { confirmed: false, key: None, max_packet: u64::MAX }
    }
}
