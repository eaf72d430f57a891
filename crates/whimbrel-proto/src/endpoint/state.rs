//! The endpoint itself: what it consists of, and how it begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::begun::Begun;
use super::gate::Gate;
use super::networks::Network;
use super::places::{Place, Places};
use super::rates::Budget;
use super::shares::Shares;
use super::tokens::Tokens;
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

/// Resets sent a second at the most.
pub(super) const RESETS_PER_SECOND: u32 = 100;

/// See the module.
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
    /// Needed beside the keys wherever a session goes on.
    pub(super) psk: Option<Secret>,
    /// Only peers of sessions that wait here are let in.
    pub(super) resumes_only: bool,
    /// Of `connections`, those that others began.
    pub(super) accepted: usize,
    pub(super) places: Places,
    pub(super) shares: Shares,
    pub(super) next_handle: usize,
    pub(super) gate: Gate,
    pub(super) reset_budget: Budget<()>,
    pub(super) stats: EndpointStats,
    pub(super) aes_in_hardware: bool,
    pub(super) rng: ChaCha20Rng,
}

#[derive(Debug)]
pub(super) struct Ids {
    pub(super) id: ConnectionId,
    pub(super) accepted: bool,
    /// Whose limits it counts against, if it was accepted.
    pub(super) place: Place,
    /// Whose PING began the session over this connection: another of the same client's begins it again.
    pub(super) begun_by: Option<PublicKey>,
    pub(super) rare: Option<Box<Rare>>,
    /// Ids of further paths.
    pub(super) more: Vec<ConnectionId>,
    /// The id of the session, by which it is resumed.
    pub(super) resumable: Option<[u8; 16]>,
    /// Where its client was when it proved itself.
    pub(super) network: Option<Network>,
    /// What this end began it with, and dials with again.
    pub(super) psk: Option<Box<Secret>>,
}

/// What few of a server's connections have.
#[derive(Debug, Default)]
pub(super) struct Rare {
    /// By which its peer would say that it lost the connection.
    pub(super) tokens: Vec<ResetToken>,
    /// Ids of PINGs that began the same session again.
    pub(super) aliases: Vec<ConnectionId>,
}

/// PINGs that began one session again and are known when they are repeated.
pub(super) const ALIASES: usize = 8;

impl Endpoint {
    /// An endpoint for the core numbered `core`, reproducible from `seed`. Its reset tokens are its own, of no other instance of the
    /// identity: see [`Endpoint::set_reset_salt`].
    pub fn new(
        identity: Identity,
        listen: Option<ListenConfig>,
        transport: TransportConfig,
        core: u8,
        seed: [u8; 32],
        aes_in_hardware: bool,
    ) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        // From a stream of its own: it moves no other draw.
        let mut apart = ChaCha20Rng::from_seed(seed);
        apart.set_stream(1);
        let mut salt = [0; 32];
        apart.fill_bytes(&mut salt);
        let reset_key = ResetKey::new(&identity, &salt);
        let psk = listen.as_ref().and_then(|listen| listen.acceptor.psk.clone());
        // Two generators of one identity must differ: the acceptor's core has the high bit set.
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
            budgets: Budgets::new(transport.credit_budget, transport.memory_budget),
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
            reset_budget: Budget::default(),
            stats: EndpointStats::default(),
            aes_in_hardware,
            rng,
        }
    }
}
