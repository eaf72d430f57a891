//! Whom a connection is with.

use crate::crypto::PublicKey;

/// See the module.
pub(in crate::connection) struct Peer {
    /// A packet under the final keys was opened: the peer is proven.
    pub(in crate::connection) confirmed: bool,
    pub(in crate::connection) key: Option<PublicKey>,
    /// The longest packet it takes, bytes.
    pub(in crate::connection) max_packet: u64,
}

impl Default for Peer {
    fn default() -> Self {
        Self { confirmed: false, key: None, max_packet: u64::MAX }
    }
}
