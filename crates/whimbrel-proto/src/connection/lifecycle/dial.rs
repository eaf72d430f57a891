//! Dialling a peer.

use rand_chacha::ChaCha20Rng;

use crate::handshake::ClientHandshake;
use crate::{ConnectionId, Time};

/// Everything needed to dial a peer, which the endpoint provides.
pub struct Dial {
    pub(crate) now: Time,
    pub(crate) handshake: ClientHandshake,
    pub(crate) local_id: ConnectionId,
    pub(crate) rng: ChaCha20Rng,
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dial {{ {:?} }}", self.local_id)
    }
}
