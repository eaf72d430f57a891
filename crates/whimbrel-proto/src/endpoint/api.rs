//! The calls that an endpoint answers.

use std::net::SocketAddr;
use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use zeroize::Zeroizing;

use super::networks::Network;
use super::places::Place;
use crate::budget::Budgets;
use crate::config::TransportConfig;
use crate::connection::{Connection, Datagram, EndpointAnswer, EndpointEvent, IssuedTicket, Opening, Setup};
use crate::crypto::{PublicKey, ResetKey, ResetToken, Secret};
use crate::endpoint::handle::Handle;
use crate::endpoint::routed::{EndpointStats, Routed};
use crate::endpoint::settings::ConnectConfig;
use crate::endpoint::state::{Endpoint, Ids, RESETS_PER_SECOND};
use crate::handshake::{ClientConfig, ClientHandshake};
use crate::wire::block;
use crate::wire::packet::{CLEAR_BIT, EARLY_BIT, destination};
use crate::{ConnectionId, Side, Time};

impl Endpoint {
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
        connection.name_protocol(&params.protocol);
        let opening = Opening::new(now, handshake, params, true, patience, memory).or_at(alternatives);
        connection.open_with(now, opening);
        connection.name_session(session_id);
        let handle = self.register(local_id, false);
        self.keep_psk(handle, psk);
        self.name_session(handle, session_id);
        (handle, connection)
    }

    /// Of a connection of which the peer's id is not known yet.
    pub(in crate::endpoint) fn setup(
        &mut self,
        side: Side,
        remote: SocketAddr,
        local_id: ConnectionId,
        config: Arc<TransportConfig>,
    ) -> Setup {
        let own = Arc::ptr_eq(&config, &self.transport);
        let session = if own { Arc::clone(&self.session) } else { Arc::new(config.session) };
        Setup {
            side,
            config,
            session,
            budgets: self.budgets.clone(),
            remote,
            local: None,
            local_id,
            remote_id: ConnectionId(0),
            issues_tickets: false,
            rng: self.child_rng(),
        }
    }

    pub(in crate::endpoint) fn keep_psk(&mut self, handle: Handle, psk: Option<Secret>) {
        if let Some(ids) = self.connections.get_mut(&handle) {
            ids.psk = psk.map(Box::new);
        }
    }

    pub(in crate::endpoint) fn child_rng(&mut self) -> ChaCha20Rng {
        let mut seed = Zeroizing::new([0; 32]);
        self.rng.fill_bytes(seed.as_mut_slice());
        ChaCha20Rng::from_seed(*seed)
    }

    pub(in crate::endpoint) fn register(&mut self, id: ConnectionId, accepted: bool) -> Handle {
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

    pub(in crate::endpoint) fn refuse(&mut self) -> Routed {
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
