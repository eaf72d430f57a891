//! The endpoint: finds the connection a datagram is for, and answers strangers without remembering them.

mod resume;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;

pub use resume::ResumeError;
use waiting::Waiting;

use crate::config::TransportConfig;
use crate::connection::{
    Connection, Datagram, EndpointAnswer, EndpointEvent, IssuedTicket, Opening, Resuming, Setup,
};
use crate::crypto::{CidGenerator, Identity, PublicKey, ResetToken, Secret};
use crate::handshake::{
    Accepted, Acceptor, AcceptorConfig, ClientConfig, ClientHandshake, Effort, Ping, ServerKey,
};
use crate::wire::block;
use crate::wire::packet::{CLEAR_BIT, destination};
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
    /// PINGs with a valid cookie taken a second and address (the address's /24 or /56). Default 1,000: each costs four
    /// Diffie-Hellmans.
    pub pings_per_address: u32,
    /// SYNs answered a second, from everybody together. Default 20,000: a flood of more takes from strangers, who ask again, and not from
    /// those who are connected. Higher: more of the processor for strangers; lower: fewer handshakes a second.
    pub syns_per_second: u32,
}

/// Whether a client with this key, at this address, is let in.
pub type Admit = Arc<dyn Fn(&PublicKey, SocketAddr) -> bool + Send + Sync>;

impl ListenConfig {
    fn lets_in(&self, key: &PublicKey, from: SocketAddr) -> bool {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        self.allow.as_ref().is_none_or(|allow| allow.contains(key))
            && self.admit.as_ref().is_none_or(|admit| admit(key, from))
    }
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self {
            acceptor: AcceptorConfig::default(),
            allow: None,
            admit: None,
            protocols: Vec::new(),
            early_from_tickets: false,
            max_connections: 100_000,
            pings_per_address: 1_000,
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
    /// Somebody new was let in.
    Accepted(Handle, Box<Connection>),
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
    /// Packets for nobody.
    pub unknown: u64,
    /// Stateless resets sent.
    pub resets: u64,
}

/// PINGs taken a second with one ticket. It is good for one connection; more come from who has it and cannot use it.
const TRIES_PER_TICKET: u32 = 4;
/// Resets sent a second at the most.
const RESETS_PER_SECOND: u32 = 100;

/// See the module.
pub struct Endpoint {
    identity: Identity,
    ids: CidGenerator,
    reset_key: crate::crypto::ResetKey,
    acceptor: Option<(Acceptor, ListenConfig)>,
    transport: Arc<TransportConfig>,
    routes: BTreeMap<ConnectionId, Handle>,
    tokens: BTreeMap<[u8; 16], Handle>,
    connections: BTreeMap<Handle, Ids>,
    waiting: Waiting,
    /// Needed beside the keys wherever a session goes on.
    psk: Option<Secret>,
    /// Only peers of sessions that wait here are let in.
    resumes_only: bool,
    /// Of `connections`, those that others began.
    accepted: usize,
    next_handle: usize,
    syn_budget: Trickle,
    ping_budget: Budget<IpAddr>,
    ticket_budget: Budget<ConnectionId>,
    reset_budget: Budget<()>,
    stats: EndpointStats,
    aes_in_hardware: bool,
    rng: ChaCha20Rng,
}

#[derive(Debug)]
struct Ids {
    id: ConnectionId,
    accepted: bool,
    /// Whose PING began the session over this connection: another of the same client's begins it again.
    begun_by: Option<PublicKey>,
    rare: Option<Box<Rare>>,
    /// Ids of further paths.
    more: Vec<ConnectionId>,
    /// The id of the session, by which it is resumed.
    resumable: Option<[u8; 16]>,
    /// What this end began it with, and dials with again.
    psk: Option<Box<Secret>>,
}

/// What few of a server's connections have.
#[derive(Debug, Default)]
struct Rare {
    /// By which its peer would say that it lost the connection.
    tokens: Vec<[u8; 16]>,
    /// Ids of PINGs that began the same session again.
    aliases: Vec<ConnectionId>,
}

/// PINGs that may begin one session again. A client has no cause for more.
const ALIASES: usize = 8;

impl Endpoint {
    /// An endpoint for the core numbered `core`, reproducible from `seed`.
    pub fn new(
        identity: Identity,
        listen: Option<ListenConfig>,
        transport: TransportConfig,
        core: u8,
        seed: [u8; 32],
        aes_in_hardware: bool,
    ) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let psk = listen.as_ref().and_then(|listen| listen.acceptor.psk.clone());
        // Two generators of one identity must differ: the acceptor's core has the high bit set.
        let ids = CidGenerator::new(&identity, core, &mut rng);
        let acceptor = listen.map(|listen| {
            let own = CidGenerator::new(&identity, core | 0x80, &mut rng);
            // A register without room declines every ticket.
            let tickets_remembered =
                if listen.early_from_tickets { listen.acceptor.tickets_remembered } else { 0 };
            let config = AcceptorConfig { aes_in_hardware, tickets_remembered, ..listen.acceptor.clone() };
            (Acceptor::new(&identity, &config, own, &mut rng), listen)
        });
        Self {
            reset_key: crate::crypto::ResetKey::new(&identity),
            identity,
            ids,
            acceptor,
            transport: Arc::new(transport),
            routes: BTreeMap::new(),
            tokens: BTreeMap::new(),
            connections: BTreeMap::new(),
            waiting: Waiting::default(),
            psk,
            resumes_only: false,
            accepted: 0,
            next_handle: 0,
            syn_budget: Trickle::default(),
            ping_budget: Budget::default(),
            ticket_budget: Budget::default(),
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

    /// Counts.
    pub fn stats(&self) -> EndpointStats {
        self.stats
    }

    /// Connections, those that are ending included.
    pub fn connections(&self) -> usize {
        self.connections.len()
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
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        ChaCha20Rng::from_seed(seed)
    }

    fn register(&mut self, id: ConnectionId, accepted: bool) -> Handle {
        let handle = Handle(self.next_handle);
        self.next_handle += 1;
        self.accepted += usize::from(accepted);
        self.routes.insert(id, handle);
        self.connections.insert(
            handle,
            Ids { id, accepted, begun_by: None, rare: None, more: Vec::new(), resumable: None, psk: None },
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
                    ids.rare.get_or_insert_default().tokens.push(*token.as_bytes());
                    self.tokens.insert(*token.as_bytes(), handle);
                }
            }
            EndpointEvent::TicketWanted { client_key, memory } => {
                let (acceptor, _) = self.acceptor.as_mut()?;
                let (ticket, life) = acceptor.issue_ticket(now, &client_key, memory);
                return Some(EndpointAnswer::Ticket(IssuedTicket { bytes: ticket.to_vec(), life }));
            }
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
                    rare.tokens.retain(|known| known != token.as_bytes());
                    self.tokens.remove(token.as_bytes());
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
            EndpointEvent::Drained => self.forget(handle),
        }
        None
    }

    /// The connection is gone.
    pub fn forget(&mut self, handle: Handle) {
        if let Some(ids) = self.connections.remove(&handle) {
            self.accepted -= usize::from(ids.accepted);
            self.routes.remove(&ids.id);
            let rare = ids.rare.map(|rare| *rare).unwrap_or_default();
            for alias in rare.aliases.into_iter().chain(ids.more) {
                self.routes.remove(&alias);
            }
            for token in rare.tokens {
                self.tokens.remove(&token);
            }
            if let Some(session) = ids.resumable {
                self.waiting.forget(handle, session);
            }
        }
    }

    /// Finds what a datagram is for. An answer to a stranger is appended to `out`, which is empty.
    pub fn handle_datagram(&mut self, now: Time, datagram: Datagram, out: &mut Vec<u8>) -> Routed {
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
            (block::SYN, Some((_, listen))) if !self.syn_budget.take(now, listen.syns_per_second) => {
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
            (block::PING, Some(_)) => self.handle_ping(now, datagram, out),
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

    fn handle_ping(&mut self, now: Time, datagram: Datagram, out: &mut Vec<u8>) -> Routed {
        let Some((acceptor, listen)) = &mut self.acceptor else { return self.refuse() };
        // Who is awaited takes no further place.
        let full = self.accepted >= listen.max_connections && self.waiting.is_empty();
        let (from, bytes) = (datagram.from, &datagram.bytes);
        let mut afford = |effort| match effort {
            Effort::SynAck => self.syn_budget.take(now, listen.syns_per_second),
            _ if full => false,
            Effort::Cookie => self.ping_budget.take(now, prefix(from.ip()), listen.pings_per_address),
            Effort::Ticket(id) => self.ticket_budget.take(now, id, TRIES_PER_TICKET),
        };
        let ping = acceptor.handle_ping(now, from, bytes, &mut self.rng, &mut afford, out);
        match ping {
            Ok(Ping::New(accepted)) => match accepted.params.resume {
                Some(proof) if listen.lets_in(&accepted.client_key, from) => {
                    self.accept_resume(*accepted, proof.session, &datagram, out)
                }
                Some(_) => self.refuse(),
                None => self.accept(now, *accepted, datagram),
            },
            Ok(Ping::Repeated { server_id }) => match self.routes.get(&server_id) {
                Some(handle) => Routed::RepeatedPing(*handle, datagram),
                None => Routed::Nothing,
            },
            Ok(Ping::Answered(_)) => Routed::Reply,
            Err(_) => self.refuse(),
        }
    }

    fn accept(&mut self, now: Time, accepted: Accepted, datagram: Datagram) -> Routed {
        let Some((_, listen)) = &self.acceptor else { return self.refuse() };
        let issues_tickets = listen.early_from_tickets;
        let served = listen.protocols.is_empty() || listen.protocols.contains(&accepted.params.protocol);
        let full = self.accepted >= listen.max_connections;
        // Who can be taken is asked about last.
        if !served || full || self.resumes_only || !listen.lets_in(&accepted.client_key, datagram.from) {
            return self.refuse();
        }
        let local_id = accepted.server_id;
        let (session, client) = (accepted.params.session, accepted.client_key);
        if let Some(handle) = session.and_then(|session| self.begun(&session, client)) {
            // What came with the first PING was delivered: a second connection would deliver it twice. And a ticket proves no address.
            if accepted.unvalidated().is_some() {
                return self.refuse();
            }
            return self.begin_again(handle, local_id, datagram);
        }
        let setup = Setup {
            local: datagram.to,
            remote_id: accepted.client_id,
            issues_tickets,
            ..self.setup(Side::Server, datagram.from, local_id, Arc::clone(&self.transport))
        };
        let mut connection = Connection::new(now, setup);
        if connection.accept_with(now, accepted).is_err() {
            return self.refuse();
        }
        self.stats.accepted += 1;
        let handle = self.register(local_id, true);
        if let (Some(session), Some(ids)) = (session, self.connections.get_mut(&handle)) {
            ids.begun_by = Some(client);
            self.name_session(handle, session);
        }
        Routed::Accepted(handle, Box::new(connection))
    }

    /// The connection that a PING of this client's began the session over.
    fn begun(&self, session: &[u8; 16], client: PublicKey) -> Option<Handle> {
        let handle = self.waiting.find(session)?;
        (self.connections.get(&handle)?.begun_by == Some(client)).then_some(handle)
    }

    /// A PING with a good cookie, for a session that an earlier one began.
    fn begin_again(&mut self, handle: Handle, alias: ConnectionId, datagram: Datagram) -> Routed {
        match self.connections.get_mut(&handle) {
            Some(ids) if ids.rare.as_ref().is_none_or(|rare| rare.aliases.len() < ALIASES) => {
                // When it is repeated, it is known by this id.
                ids.rare.get_or_insert_default().aliases.push(alias);
                self.routes.insert(alias, handle);
                Routed::SecondPing(handle, datagram)
            }
            _ => self.refuse(),
        }
    }

    /// A packet for nobody: a peer's reset, or of a connection lost in a restart, which its peer is told.
    fn handle_unknown(&mut self, now: Time, id: ConnectionId, packet: &[u8], out: &mut Vec<u8>) -> Routed {
        self.stats.unknown += 1;
        if let Some(token) = packet.last_chunk()
            && let Some(handle) = self.tokens.get(token)
        {
            return Routed::Reset(*handle, ResetToken::new(*token));
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

/// Who counts as one address: one host can have many of these.
fn prefix(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) & 0xffff_ff00).into()),
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 72 << 72).into()),
    }
}

/// So many a second, evenly: what is refused in a flood is a share of what comes at any time, and not all of what comes late in a second.
#[derive(Debug, Default)]
struct Trickle {
    /// What was taken is paid for by then.
    until: Time,
}

impl Trickle {
    /// Taken ahead of time at most.
    const AHEAD: Duration = Duration::from_millis(50);

    fn take(&mut self, now: Time, limit: u32) -> bool {
        let until = self.until.max(now) + Duration::from_secs(1) / limit.max(1);
        let granted = limit > 0 && until <= now + Self::AHEAD.max(Duration::from_secs(1) / limit.max(1));
        if granted {
            self.until = until;
        }
        granted
    }
}

/// So many a second for each key; keys beyond a bound share what is left by being refused.
#[derive(Debug)]
struct Budget<K> {
    second: u64,
    spent: BTreeMap<K, u32>,
}

impl<K> Default for Budget<K> {
    fn default() -> Self {
        Self { second: 0, spent: BTreeMap::new() }
    }
}

impl<K: Ord> Budget<K> {
    const MAX_KEYS: usize = 16_384;

    fn take(&mut self, now: Time, key: K, limit: u32) -> bool {
        let second = now.since(Time::ZERO).as_secs();
        if second != self.second {
            self.second = second;
            self.spent.clear();
        }
        if self.spent.len() >= Self::MAX_KEYS && !self.spent.contains_key(&key) {
            return false;
        }
        let spent = self.spent.entry(key).or_default();
        *spent += 1;
        *spent <= limit
    }
}
