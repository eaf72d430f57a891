//! The state that a host keeps when its process ends.

use rand::CryptoRng;
use whimbrel_proto::crypto::{Identity, Secret};
use whimbrel_proto::{Endpoint, ListenConfig, TransportConfig};

/// A host's files.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) identity: Identity,
    /// How it accepts connections, if it does.
    pub(super) listen: Option<ListenConfig>,
    pub(super) transport: TransportConfig,
    /// The salt of its reset tokens. It is stored so that peers notice a restart at once.
    pub(super) salt: Option<[u8; 32]>,
}

impl Disk {
    /// Fills the disk of a new host, which has an identity that nobody else has, and starts its first process.
    pub(super) fn new(
        rng: &mut impl CryptoRng,
        transport: TransportConfig,
        listen: Option<ListenConfig>,
    ) -> (Self, Endpoint) {
        let identity = Identity::generate(rng);
        let mut seed = [0; 32];
        rng.fill_bytes(&mut seed);
        let disk = Self { identity, listen, transport, salt: Some(seed) };
        let endpoint = disk.boot(seed);
        (disk, endpoint)
    }

    /// Starts a process that draws from `seed`.
    pub(super) fn boot(&self, seed: [u8; 32]) -> Endpoint {
        let Self { identity, listen, transport, salt } = self.clone();
        let mut endpoint = Endpoint::new(identity, listen, transport, 0, seed, true);
        if let Some(salt) = salt {
            endpoint.set_reset_salt(&Secret::new(salt));
        }
        endpoint
    }
}
