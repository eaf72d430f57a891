//! The peer of a connection.

use bytes::Bytes;

use crate::crypto::PublicKey;

/// The peer's identity and its limits.
pub(in crate::connection) struct Peer {
    /// Whether a packet under the final keys was opened, which proves the peer's identity.
    pub(in crate::connection) confirmed: bool,
    pub(in crate::connection) key: Option<PublicKey>,
    /// The application protocol that the client named; most name none.
    pub(in crate::connection) protocol: Option<Box<Bytes>>,
    /// The longest packet the peer accepts, bytes.
    pub(in crate::connection) max_packet: u64,
    /// Whether the peer takes SOURCE and REPAIR.
    pub(in crate::connection) reads_codes: bool,
}

impl Peer {
    /// The client named this protocol, or none if it is empty.
    pub(in crate::connection) fn on_protocol(&mut self, protocol: &Bytes) {
        self.protocol = (!protocol.is_empty()).then(|| Box::new(protocol.clone()));
    }
}

impl Default for Peer {
    fn default() -> Self {
        Self { confirmed: false, key: None, protocol: None, max_packet: u64::MAX, reads_codes: false }
    }
}
