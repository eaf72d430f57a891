//! The public methods of an endpoint.

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
use crate::endpoint::told::{self, Limit};
use crate::handshake::{ClientConfig, ClientHandshake};
use crate::wire::block;
use crate::wire::packet::{CLEAR_BIT, EARLY_BIT, destination};
use crate::{ConnectionId, Side, Time};

impl Endpoint {
    /// Returns the public key of this endpoint.
    pub fn public_key(&self) -> PublicKey {
        self.identity.public()
    }

    /// Sets the pre-shared key that both ends need where a suspended session is resumed. Default: the listener's. A
    /// connection that is dialled again keeps the key it began with.
    pub fn set_psk(&mut self, psk: Option<Secret>) {
        self.psk = psk;
    }

    /// Derives reset tokens from this salt. Call it before the first connection. If a process restarts with its
    /// former salt, its peers notice at once. Default: a salt from the seed; peers then notice the restart by
    /// silence, or when the session is dialled again.
    ///
    /// Endpoints of one identity that run at the same time must have different salts. Otherwise each would give the
    /// other's tokens to anyone who asks, and so end its connections.
    pub fn set_reset_salt(&mut self, salt: &Secret) {
        debug_assert!(self.connections.is_empty(), "tokens that were told before would mean nothing");
        self.reset_key = ResetKey::new(&self.identity, salt.bytes());
        if let Some((acceptor, _)) = &mut self.acceptor {
            acceptor.set_reset_key(self.reset_key.clone());
        }
    }

    /// Returns the endpoint's counters, and what is in use of its budgets.
    pub fn stats(&self) -> EndpointStats {
        EndpointStats {
            memory_used: self.budgets.memory.used(),
            credit_used: self.budgets.credit.used(),
            send_used: self.budgets.send.used(),
            ..self.stats
        }
    }

    /// Counts datagrams of connections that the driver dropped because too many were waiting.
    pub fn count_crowded(&mut self, datagrams: u64) {
        self.stats.crowded += datagrams;
    }

    /// Returns the number of connections, including those that are closing.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns the budgets that its sessions share, beyond what each session is assured of. The sessions of one client key
    /// get only a part.
    pub fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Opens a connection. Its first packet comes from `poll_transmit`.
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

    /// The setup of a connection whose peer's id is not known yet.
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

    /// Handles an event of a connection. The answer is for the connection: pass it to [`Connection::handle_answer`].
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
                } else {
                    self.told.on_limit(now, Limit::Waiting, None);
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

    /// Notes that a connection's client has proven itself, which makes its network a known one.
    fn on_proven(&mut self, handle: Handle, from: SocketAddr) {
        let Some(ids) = self.connections.get_mut(&handle) else { return };
        let network = Network::of(from.ip());
        self.gate.add_known(network);
        if let Some(before) = ids.network.replace(network) {
            self.gate.remove_known(before);
        }
    }

    /// Forgets a connection that is over.
    pub fn forget(&mut self, handle: Handle) {
        if let Some(ids) = self.connections.remove(&handle) {
            told::connection_forgotten(ids.id);
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

    /// Routes a datagram. An answer to a stranger is appended to `out`, which must be empty.
    pub fn handle_datagram(&mut self, now: Time, datagram: Datagram, out: &mut Vec<u8>) -> Routed {
        match self.handle_datagram_deferring(now, datagram, out) {
            Routed::Agreeing(agreeing) => self.handle_agreed(now, agreeing.run(), out),
            routed => routed,
        }
    }

    /// Routes a datagram like [`Endpoint::handle_datagram`], but leaves the key agreements of a PING to the caller,
    /// who may run them on another thread.
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
                self.told.on_limit(now, Limit::Syns, Some(datagram.from));
                told::syn_refused(datagram.from, "over the limit of SYNs a second");
                Routed::Nothing
            }
            (block::SYN, Some((acceptor, _))) => {
                match acceptor.handle_syn(now, datagram.from, &datagram.bytes, out) {
                    Ok(()) => {
                        self.stats.syns += 1;
                        told::cookie_sent(datagram.from);
                        Routed::Reply
                    }
                    Err(refusal) => {
                        told::syn_refused(datagram.from, refusal);
                        self.refuse()
                    }
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

    /// Handles a packet for an unknown id: a peer's reset, or a packet of a connection lost in a restart, which is
    /// answered with a reset.
    fn handle_unknown(&mut self, now: Time, id: ConnectionId, packet: &[u8], out: &mut Vec<u8>) -> Routed {
        self.stats.unknown += 1;
        if let Some(token) = packet.last_chunk().copied().map(ResetToken::new)
            && let Some(handle) = self.tokens.find(&token)
        {
            return Routed::Reset(handle, token);
        }
        // An early packet: its sender has no PONG, and so no connection that a reset could end. Its PING was lost or
        // is still being opened.
        if packet.first().is_some_and(|flags| flags & EARLY_BIT != 0) {
            return Routed::Nothing;
        }
        // A reset is shorter than the packet it answers, so two endpoints cannot reset each other for ever (RFC 9000
        // section 10.3.3).
        if !self.reset_budget.take(now, (), RESETS_PER_SECOND) {
            told::reset_held_back(id, "enough were sent in this second");
            return Routed::Nothing;
        }
        if self.reset_key.write(id, packet.len(), &mut self.rng, out).is_none() {
            told::reset_held_back(id, "the packet is too short to be answered by one");
            return Routed::Nothing;
        }
        told::reset_sent(id);
        self.stats.resets += 1;
        Routed::Reply
    }
}
