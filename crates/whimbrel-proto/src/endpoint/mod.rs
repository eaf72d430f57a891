//! The endpoint: finds the connection a datagram is for, and answers strangers without remembering them.

mod accepting;
mod begun;
mod gate;
mod networks;
mod places;
mod rates;
mod resume;
mod revoked;
mod shares;
mod tokens;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use zeroize::Zeroizing;

pub use accepting::{AgreedPing, Agreeing};
use begun::Begun;
use gate::Gate;
use networks::Network;
use places::{Place, Places};
use rates::Budget;
pub use resume::ResumeError;
use shares::Shares;
use tokens::Tokens;
use waiting::Waiting;

use crate::budget::Budgets;
use crate::config::TransportConfig;
use crate::connection::{
    Connection, Datagram, EndpointAnswer, EndpointEvent, IssuedTicket, Opening, Resuming, Setup,
};
use crate::crypto::{CidGenerator, Identity, PublicKey, ResetKey, ResetToken, Secret};
use crate::handshake::{Acceptor, AcceptorConfig, ClientConfig, ClientHandshake, ServerKey};
use crate::wire::block;
use crate::wire::packet::{CLEAR_BIT, EARLY_BIT, destination};
use crate::{ConnectionId, Side, Ticket, Time};

/// A connection of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub usize);

/// How an endpoint accepts.
#[derive(Clone)]
pub struct ListenConfig {
    /// The handshake's settings.
    pub acceptor: AcceptorConfig,
    /// Keys that may connect. None: any key, the listener is open.
    pub allow: Option<BTreeSet<PublicKey>>,
    /// Keys that may not connect, whatever `allow` and `admit` say. Default: none. [`Endpoint::revoke`] adds to them.
    pub deny: BTreeSet<PublicKey>,
    /// Asked of whoever `allow` lets in, with what it came from, before anything is kept for it; false: it gets no answer, either. Called
    /// while the endpoint is held: it must be quick, and must not call the endpoint. None: nobody is asked.
    pub admit: Option<Admit>,
    /// Application protocols served. Empty: any.
    pub protocols: Vec<Bytes>,
    /// Give clients tickets, and deliver what comes with the first packet of one that returns: half a round trip after it connects, where
    /// others need one and a half. Default false: such data is as `early` as any that comes with PING, its sender's address is not proven,
    /// and whoever can hold that packet back can deliver it later, once, while its ticket lasts.
    pub early_from_tickets: bool,
    /// Connections at once; beyond it PING is not answered. Default 100,000. Sessions whose peers are suspended or out of reach count, and
    /// may be half of them.
    pub max_connections: usize,
    /// Connections at once of one client key; beyond it PING is not answered. Default 1,024. Higher: one client can take more of
    /// `max_connections`. Lower: a gateway that connects for many under one key is refused.
    pub max_per_key: usize,
    /// Percent of `max_connections` that one network may take of a listener that is open (`allow` is None): an IPv4 /24, an IPv6 /48, and half
    /// of it an IPv6 /56. Default 25. At least 16 connections; loopback has no limit. Higher: fewer networks can fill the listener; 100 turns the
    /// limit off. Lower: a large NAT is refused sooner.
    pub network_share: u8,
    /// PINGs with a valid cookie taken a second and address (the address's /24 or /56). Default 1,000: each costs five
    /// Diffie-Hellmans. A /20 or /48 has twice as many, a /16 or /40 four times.
    pub pings_per_address: u32,
    /// PINGs whose key agreements are made a second, from everybody together. Default 10,000, of which strangers have three quarters at the
    /// most: the rest is for tickets, and for networks from which somebody is connected. Higher: a flood takes more of the processor from
    /// those who are connected. Lower: fewer handshakes a second.
    pub handshakes_per_second: u32,
    /// SYNs answered a second, from everybody together. Default 20,000: a flood of more takes from strangers, who ask again, and not from
    /// those who are connected. Higher: more of the processor for strangers; lower: fewer handshakes a second.
    pub syns_per_second: u32,
}

/// Whether a client with this key, at this address, is let in.
pub type Admit = Arc<dyn Fn(&PublicKey, SocketAddr) -> bool + Send + Sync>;

impl ListenConfig {
    fn lets_in(&self, key: &PublicKey, from: SocketAddr) -> bool {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        self.lists(key) && self.admit.as_ref().is_none_or(|admit| admit(key, from))
    }
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            acceptor: AcceptorConfig::default(),
            allow: None,
            deny: BTreeSet::new(),
            admit: None,
            protocols: Vec::new(),
            early_from_tickets: false,
            max_connections: 100_000,
            max_per_key: 1_024,
            network_share: 25,
            pings_per_address: 1_000,
            handshakes_per_second: 10_000,
            syns_per_second: 20_000,
        }
    }
}

/// Whom to connect to, and how.
#[derive(Clone)]
pub struct ConnectConfig {
    /// What is known of the server's key.
    pub server_key: ServerKey,
    /// The application protocol asked for.
    pub protocol: Bytes,
    /// A pre-shared key; turns early data off.
    pub psk: Option<Secret>,
    /// From an earlier connection to this server: what is sent at once travels with the first packet.
    pub ticket: Option<Ticket>,
    /// Further addresses of the server: while none has answered, one more is asked every 250 ms, and the first that answers is taken.
    pub alternatives: Vec<SocketAddr>,
    /// Settings of the connection.
    pub transport: TransportConfig,
}

/// What a datagram led to.
pub enum Routed {
    /// Nothing further: dropped, and counted.
    Nothing,
    /// An answer was appended to the buffer, to be sent back to where the datagram came from.
    Reply,
    /// It is for this connection.
    Connection(Handle, Datagram),
    /// The peer repeated PING: the connection's PONG is due again.
    RepeatedPing(Handle, Datagram),
    /// The peer missed every PONG and began again with another cookie: the connection's PONG is due again, to where that came from.
    SecondPing(Handle, Datagram),
    /// The peer of this connection has lost it, as its token says.
    Reset(Handle, ResetToken),
    /// The peer of this connection wants its session to go on over another: for [`Connection::handle_resume`].
    Resuming(Handle, Box<Resuming>),
    /// A PING whose key agreements are due; then [`Endpoint::handle_agreed`], or [`Endpoint::abandon`]. Only from
    /// [`Endpoint::handle_datagram_deferring`].
    Agreeing(Box<Agreeing>),
    /// Somebody new was let in.
    Accepted(Handle, Box<Connection>),
}

impl Routed {
    /// The connection that it is for, if that is known already.
    pub fn handle(&self) -> Option<Handle> {
        match self {
            Self::Nothing | Self::Reply | Self::Agreeing(_) | Self::Accepted(..) => None,
            Self::Connection(handle, _)
            | Self::RepeatedPing(handle, _)
            | Self::SecondPing(handle, _)
            | Self::Reset(handle, _)
            | Self::Resuming(handle, _) => Some(*handle),
        }
    }
}

/// Datagrams that led to nothing, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStats {
    /// SYNs answered.
    pub syns: u64,
    /// SYNs beyond what is answered in a second.
    pub syns_dropped: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// PINGs refused: no valid cookie, replayed, forged, over a limit, not allowed.
    pub refused: u64,
    /// PINGs whose key agreements were made.
    pub agreements: u64,
    /// PINGs with a good cookie or ticket for which none were made, since an address, a ticket or everybody together had had its share of
    /// the second, or there were too many connections.
    pub over_budget: u64,
    /// Of those refused, PINGs with a good cookie or ticket that did not open.
    pub forged: u64,
    /// Of those refused, PINGs for a session whose early data may have been delivered by a connection that is over, or of more sessions than are
    /// remembered.
    pub begun_before: u64,
    /// PINGs among those refused whose key had `max_per_key` connections.
    pub key_full: u64,
    /// PINGs among those refused whose network had its share of the connections.
    pub network_full: u64,
    /// Connections and waiting sessions that ended because their peer's key is not let in any more.
    pub revoked: u64,
    /// Packets for nobody.
    pub unknown: u64,
    /// Stateless resets sent.
    pub resets: u64,
    /// Datagrams dropped before they were opened, since more waited from their senders than from others.
    pub crowded: u64,
}

/// Resets sent a second at the most.
const RESETS_PER_SECOND: u32 = 100;

/// See the module.
pub struct Endpoint {
    identity: Identity,
    ids: CidGenerator,
    reset_key: ResetKey,
    acceptor: Option<(Acceptor, ListenConfig)>,
    transport: Arc<TransportConfig>,
    budgets: Budgets,
    routes: BTreeMap<ConnectionId, Handle>,
    tokens: Tokens,
    connections: BTreeMap<Handle, Ids>,
    waiting: Waiting,
    begun: Begun,
    /// Needed beside the keys wherever a session goes on.
    psk: Option<Secret>,
    /// Only peers of sessions that wait here are let in.
    resumes_only: bool,
    /// Of `connections`, those that others began.
    accepted: usize,
    places: Places,
    shares: Shares,
    next_handle: usize,
    gate: Gate,
    reset_budget: Budget<()>,
    stats: EndpointStats,
    aes_in_hardware: bool,
    rng: ChaCha20Rng,
}

#[derive(Debug)]
struct Ids {
    id: ConnectionId,
    accepted: bool,
    /// Whose limits it counts against, if it was accepted.
    place: Place,
    /// Whose PING began the session over this connection: another of the same client's begins it again.
    begun_by: Option<PublicKey>,
    rare: Option<Box<Rare>>,
    /// Ids of further paths.
    more: Vec<ConnectionId>,
    /// The id of the session, by which it is resumed.
    resumable: Option<[u8; 16]>,
    /// Where its client was when it proved itself.
    network: Option<Network>,
    /// What this end began it with, and dials with again.
    psk: Option<Box<Secret>>,
}

/// What few of a server's connections have.
#[derive(Debug, Default)]
struct Rare {
    /// By which its peer would say that it lost the connection.
    tokens: Vec<ResetToken>,
    /// Ids of PINGs that began the same session again.
    aliases: Vec<ConnectionId>,
}

/// PINGs that began one session again and are known when they are repeated.
const ALIASES: usize = 8;

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

    /// The key others know this endpoint by.
    pub fn public_key(&self) -> PublicKey {
        self.identity.public()
    }

    /// A secret that both ends must have beside their keys where a suspended session is resumed. Default: the listener's. A connection that
    /// is dialled again has the one it began with.
    pub fn set_psk(&mut self, psk: Option<Secret>) {
        self.psk = psk;
    }

    /// Makes reset tokens from this salt, to be called before the first connection. A process that is started again with the salt it had
    /// before is noticed by its peers at once. Default: a salt from the seed, so that they notice by silence, or when the session is
    /// dialled again.
    ///
    /// No two endpoints of one identity may have the same salt while both run: each would give the other's tokens to whoever asks, and
    /// end its connections so.
    pub fn set_reset_salt(&mut self, salt: &[u8; 32]) {
        debug_assert!(self.connections.is_empty(), "tokens that were told before would mean nothing");
        self.reset_key = ResetKey::new(&self.identity, salt);
        if let Some((acceptor, _)) = &mut self.acceptor {
            acceptor.set_reset_key(self.reset_key.clone());
        }
    }

    /// Counts.
    pub fn stats(&self) -> EndpointStats {
        self.stats
    }

    /// Whoever drives this has dropped so many datagrams of connections, since more of them waited than there was room for.
    pub fn count_crowded(&mut self, datagrams: u64) {
        self.stats.crowded += datagrams;
    }

    /// Connections, those that are ending included.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// What its sessions share; those of one client key have no more than a part. What they use of it is beyond what each is assured of.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Begins a connection; its first packet comes out of `poll_transmit`.
    pub fn connect(&mut self, now: Time, remote: SocketAddr, config: ConnectConfig) -> (Handle, Connection) {
        let ConnectConfig { server_key, protocol, psk, ticket, alternatives, transport } = config;
        let local_id = self.ids.issue();
        let mut session_id = [0; 16];
        self.rng.fill_bytes(&mut session_id);
        let mut params = Connection::own_params(&transport);
        params.protocol = protocol;
        params.session = Some(session_id);
        let (ticket, memory) = ticket.map_or((None, None), |ticket| (Some(ticket.bytes), ticket.memory));
        let client =
            ClientConfig { psk: psk.clone(), ticket, ..ClientConfig::new(server_key, self.aes_in_hardware) };
        let handshake = ClientHandshake::new(&mut self.rng, &self.identity, client, local_id);
        let setup = self.setup(Side::Client, remote, local_id, Arc::new(transport));
        let patience = setup.config.handshake_timeout;
        let mut connection = Connection::new(now, setup);
        let opening = Opening::new(now, handshake, params, true, patience, memory).or_at(alternatives);
        connection.open_with(now, opening);
        connection.name_session(session_id);
        let handle = self.register(local_id, false);
        self.keep_psk(handle, psk);
        self.name_session(handle, session_id);
        (handle, connection)
    }

    /// Of a connection of which the peer's id is not known yet.
    fn setup(
        &mut self,
        side: Side,
        remote: SocketAddr,
        local_id: ConnectionId,
        config: Arc<TransportConfig>,
    ) -> Setup {
        Setup {
            side,
            config,
            budgets: self.budgets.clone(),
            remote,
            local: None,
            local_id,
            remote_id: ConnectionId(0),
            issues_tickets: false,
            rng: self.child_rng(),
        }
    }

    fn keep_psk(&mut self, handle: Handle, psk: Option<Secret>) {
        if let Some(ids) = self.connections.get_mut(&handle) {
            ids.psk = psk.map(Box::new);
        }
    }

    fn child_rng(&mut self) -> ChaCha20Rng {
        let mut seed = Zeroizing::new([0; 32]);
        self.rng.fill_bytes(seed.as_mut_slice());
        ChaCha20Rng::from_seed(*seed)
    }

    fn register(&mut self, id: ConnectionId, accepted: bool) -> Handle {
        let handle = Handle(self.next_handle);
        self.next_handle += 1;
        self.accepted += usize::from(accepted);
        self.routes.insert(id, handle);
        self.connections.insert(
            handle,
            Ids {
                id,
                accepted,
                place: Place::default(),
                begun_by: None,
                rare: None,
                more: Vec::new(),
                resumable: None,
                network: None,
                psk: None,
            },
        );
        handle
    }

    /// Takes what a connection has to say to its endpoint.
    /// What is returned is for the connection: [`Connection::handle_answer`].
    pub fn handle_event(
        &mut self,
        now: Time,
        handle: Handle,
        event: EndpointEvent,
    ) -> Option<EndpointAnswer> {
        match event {
            EndpointEvent::PeerResetToken(token) => {
                if let Some(ids) = self.connections.get_mut(&handle) {
                    ids.rare.get_or_insert_default().tokens.push(token);
                    self.tokens.insert(&token, handle);
                }
            }
            EndpointEvent::TicketWanted { client_key, memory } => {
                let (acceptor, listen) = self.acceptor.as_mut()?;
                if !listen.lists(&client_key) {
                    return None;
                }
                let (ticket, life) = acceptor.issue_ticket(now, &client_key, memory);
                return Some(EndpointAnswer::Ticket(IssuedTicket { bytes: ticket.to_vec(), life }));
            }
            EndpointEvent::Proven { from } => self.on_proven(handle, from),
            EndpointEvent::IdWanted => {
                let ids = self.connections.get_mut(&handle)?;
                let id = self.ids.issue();
                ids.more.reserve_exact(1);
                ids.more.push(id);
                self.routes.insert(id, handle);
                return Some(EndpointAnswer::Id(id, self.reset_key.token(id)));
            }
            EndpointEvent::IdUnused(id) => {
                if let Some(ids) = self.connections.get_mut(&handle)
                    && id != ids.id
                {
                    ids.more.retain(|more| *more != id);
                    if let Some(rare) = &mut ids.rare {
                        rare.aliases.retain(|alias| *alias != id);
                    }
                    self.routes.remove(&id);
                }
            }
            EndpointEvent::PeerTokenUnused(token) => {
                if let Some(rare) = self.connections.get_mut(&handle).and_then(|ids| ids.rare.as_mut()) {
                    rare.tokens.retain(|known| *known != token);
                    self.tokens.remove(&token);
                }
            }
            EndpointEvent::WaitWanted { peer, bytes } => {
                let granted = self.admit(handle, peer, bytes);
                if granted {
                    self.open_door();
                }
                return Some(EndpointAnswer::Wait(now, granted));
            }
            EndpointEvent::WaitOver => {
                self.waiting.on_reattached(handle);
            }
            EndpointEvent::Left => {
                let session = self.connections.get_mut(&handle)?.resumable.take()?;
                self.waiting.leave(handle, session);
            }
            EndpointEvent::DialWanted { peer } => {
                return Some(EndpointAnswer::Dial(Box::new(self.dial(now, handle, peer)?)));
            }
            EndpointEvent::Reattached { id } => self.on_reattached(handle, id),
            EndpointEvent::Revoked => self.stats.revoked += 1,
            EndpointEvent::Drained => self.forget(handle),
        }
        None
    }

    /// Its client is no stranger, and who else is there is less of one.
    fn on_proven(&mut self, handle: Handle, from: SocketAddr) {
        let Some(ids) = self.connections.get_mut(&handle) else { return };
        let network = Network::of(from.ip());
        self.gate.add_known(network);
        if let Some(before) = ids.network.replace(network) {
            self.gate.remove_known(before);
        }
    }

    /// The connection is gone.
    pub fn forget(&mut self, handle: Handle) {
        if let Some(ids) = self.connections.remove(&handle) {
            self.accepted -= usize::from(ids.accepted);
            self.places.leave(ids.place);
            self.shares.leave(ids.place);
            if let Some(network) = ids.network {
                self.gate.remove_known(network);
            }
            self.routes.remove(&ids.id);
            let rare = ids.rare.map(|rare| *rare).unwrap_or_default();
            for alias in rare.aliases.into_iter().chain(ids.more) {
                self.routes.remove(&alias);
            }
            for token in &rare.tokens {
                self.tokens.remove(token);
            }
            if let Some(session) = ids.resumable {
                self.waiting.forget(handle, session);
            }
        }
    }

    /// Finds what a datagram is for. An answer to a stranger is appended to `out`, which is empty.
    pub fn handle_datagram(&mut self, now: Time, datagram: Datagram, out: &mut Vec<u8>) -> Routed {
        match self.handle_datagram_deferring(now, datagram, out) {
            Routed::Agreeing(agreeing) => self.handle_agreed(now, agreeing.run(), out),
            routed => routed,
        }
    }

    /// The same, but leaves the key agreements of a PING to the caller, who may have a thread for them.
    pub fn handle_datagram_deferring(&mut self, now: Time, datagram: Datagram, out: &mut Vec<u8>) -> Routed {
        let Some((flags, id)) = destination(&datagram.bytes) else {
            self.stats.unknown += 1;
            return Routed::Nothing;
        };
        if flags & CLEAR_BIT != 0 {
            return self.handle_clear(now, flags & !CLEAR_BIT, id, datagram, out);
        }
        match self.routes.get(&id) {
            Some(handle) => Routed::Connection(*handle, datagram),
            None => self.handle_unknown(now, id, &datagram.bytes, out),
        }
    }

    fn handle_clear(
        &mut self,
        now: Time,
        kind: u8,
        id: ConnectionId,
        datagram: Datagram,
        out: &mut Vec<u8>,
    ) -> Routed {
        match (kind, &mut self.acceptor) {
            (block::SYN, Some((_, listen))) if !self.gate.takes_syn(now, listen) => {
                self.stats.syns_dropped += 1;
                Routed::Nothing
            }
            (block::SYN, Some((acceptor, _))) => {
                match acceptor.handle_syn(now, datagram.from, &datagram.bytes, out) {
                    Ok(()) => {
                        self.stats.syns += 1;
                        Routed::Reply
                    }
                    Err(_) => self.refuse(),
                }
            }
            (block::PING, Some(_)) => self.check_ping(now, datagram, out),
            (block::SYN_ACK | block::PONG, _) => match self.routes.get(&id) {
                Some(handle) => Routed::Connection(*handle, datagram),
                None => {
                    self.stats.unknown += 1;
                    Routed::Nothing
                }
            },
            _ => {
                self.stats.unknown += 1;
                Routed::Nothing
            }
        }
    }

    fn refuse(&mut self) -> Routed {
        self.stats.refused += 1;
        Routed::Nothing
    }

    /// A packet for nobody: a peer's reset, or of a connection lost in a restart, which its peer is told.
    fn handle_unknown(&mut self, now: Time, id: ConnectionId, packet: &[u8], out: &mut Vec<u8>) -> Routed {
        self.stats.unknown += 1;
        if let Some(token) = packet.last_chunk().copied().map(ResetToken::new)
            && let Some(handle) = self.tokens.find(&token)
        {
            return Routed::Reset(handle, token);
        }
        // Its sender has no PONG, and so no connection that it could be told of: its PING got lost, or is still being opened.
        if packet.first().is_some_and(|flags| flags & EARLY_BIT != 0) {
            return Routed::Nothing;
        }
        // Shorter than what it answers: two endpoints cannot reset each other for ever (RFC 9000 section 10.3.3).
        if !self.reset_budget.take(now, (), RESETS_PER_SECOND) {
            return Routed::Nothing;
        }
        if self.reset_key.write(id, packet.len(), &mut self.rng, out).is_none() {
            return Routed::Nothing;
        }
        self.stats.resets += 1;
        Routed::Reply
    }
}
