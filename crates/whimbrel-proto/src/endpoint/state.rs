//! The endpoint's state and constructor.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::begun::Begun;
use super::gate::Gate;
use super::networks::Network;
use super::places::{Place, Places};
use super::rates::RatePerKey;
use super::shares::Shares;
use super::tokens::Tokens;
use super::told::Told;
use super::waiting::Waiting;
use crate::ConnectionId;
use crate::budget::Budgets;
use crate::config::TransportConfig;
use crate::crypto::{CidGenerator, Identity, PublicKey, ResetKey, ResetToken, Secret};
use crate::endpoint::handle::Handle;
use crate::endpoint::routed::EndpointStats;
use crate::endpoint::settings::ListenConfig;
use crate::handshake::{Acceptor, AcceptorConfig};
use crate::session::SessionConfig;

/// The most resets sent per second.
pub(super) const RESETS_PER_SECOND: u32 = 100;

/// Routes datagrams to connections and accepts new ones. See the module documentation.
pub struct Endpoint {
    pub(super) identity: Identity,
    pub(super) ids: CidGenerator,
    pub(super) reset_key: ResetKey,
    pub(super) acceptor: Option<(Acceptor, ListenConfig)>,
    pub(super) transport: Arc<TransportConfig>,
    /// The session part of `transport`, shared by sessions.
    pub(super) session: Arc<SessionConfig>,
    pub(super) budgets: Budgets,
    pub(super) routes: BTreeMap<ConnectionId, Handle>,
    pub(super) tokens: Tokens,
    pub(super) connections: BTreeMap<Handle, Ids>,
    pub(super) waiting: Waiting,
    pub(super) begun: Begun,
    /// The pre-shared key needed wherever a session is resumed.
    pub(super) psk: Option<Secret>,
    /// Whether only peers of sessions that wait here are admitted.
    pub(super) resumes_only: bool,
    /// The number of accepted connections among `connections`.
    pub(super) accepted: usize,
    pub(super) places: Places,
    pub(super) shares: Shares,
    pub(super) next_handle: usize,
    pub(super) gate: Gate,
    pub(super) reset_budget: RatePerKey<()>,
    pub(super) stats: EndpointStats,
    pub(super) told: Told,
    pub(super) aes_in_hardware: bool,
    pub(super) rng: ChaCha20Rng,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("public_key", &self.public_key())
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(super) struct Ids {
    pub(super) id: ConnectionId,
    pub(super) accepted: bool,
    /// The place whose limits it counts against, if it was accepted.
    pub(super) place: Place,
    /// The client whose PING began the session over this connection. A second PING of that client for the session
    /// belongs to it too.
    pub(super) begun_by: Option<PublicKey>,
    pub(super) rare: Option<Box<Rare>>,
    /// Its ids on further paths.
    pub(super) more: Vec<ConnectionId>,
    /// The session's id, by which it can be resumed.
    pub(super) resumable: Option<[u8; 16]>,
    /// The client's network when it proved itself.
    pub(super) network: Option<Network>,
    /// The pre-shared key with which this end opened it and dials again.
    pub(super) psk: Option<Box<Secret>>,
}

/// State that few of a server's connections have.
#[derive(Debug, Default)]
pub(super) struct Rare {
    /// The reset tokens by which its peer would report that it lost the connection.
    pub(super) tokens: Vec<ResetToken>,
    /// The ids of PINGs that began the same session again.
    pub(super) aliases: Vec<ConnectionId>,
}

/// The most PINGs of one session, beside the first, whose repetitions are recognised.
pub(super) const ALIASES: usize = 8;

impl Endpoint {
    /// Creates an endpoint for the core numbered `core`, reproducible from `seed`. No other instance of the identity
    /// has its reset tokens: see [`Endpoint::set_reset_salt`].
    pub fn new(
        identity: Identity,
        listen: Option<ListenConfig>,
        transport: TransportConfig,
        core: u8,
        seed: [u8; 32],
        aes_in_hardware: bool,
    ) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        // A separate stream, so that no other random value changes.
        let mut apart = ChaCha20Rng::from_seed(seed);
        apart.set_stream(1);
        let mut salt = [0; 32];
        apart.fill_bytes(&mut salt);
        let reset_key = ResetKey::new(&identity, &salt);
        let psk = listen.as_ref().and_then(|listen| listen.acceptor.psk.clone());
        // Two generators of one identity must differ, so the acceptor's core has the high bit set.
        let ids = CidGenerator::new(&identity, core, &mut rng);
        let acceptor = listen.map(|listen| {
            let own = CidGenerator::new(&identity, core | 0x80, &mut rng);
            // A register without room declines every ticket.
            let tickets_remembered =
                if listen.early_from_tickets { listen.acceptor.tickets_remembered } else { 0 };
            let config = AcceptorConfig { aes_in_hardware, tickets_remembered, ..listen.acceptor.clone() };
            (Acceptor::new(&identity, &config, own, reset_key.clone(), &mut rng), listen)
        });
        Self {
            reset_key,
            identity,
            ids,
            acceptor,
            budgets: Budgets::new(transport.credit_budget, transport.memory_budget, transport.send_budget),
            session: Arc::new(transport.session),
            transport: Arc::new(transport),
            routes: BTreeMap::new(),
            tokens: Tokens::new(&mut apart),
            connections: BTreeMap::new(),
            waiting: Waiting::default(),
            begun: Begun::new(&mut apart),
            psk,
            resumes_only: false,
            accepted: 0,
            places: Places::default(),
            shares: Shares::default(),
            next_handle: 0,
            gate: Gate::default(),
            reset_budget: RatePerKey::default(),
            stats: EndpointStats::default(),
            told: Told::default(),
            aes_in_hardware,
            rng,
        }
    }
}
