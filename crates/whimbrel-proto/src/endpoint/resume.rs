//! Sessions that continue: taken up here from their suspended state, or resumed by their peer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::handle::Handle;
use super::routed::Routed;
use super::settings::ListenConfig;
use super::state::Endpoint;
use super::told;
use super::waiting::Gone;
use crate::config::TransportConfig;
use crate::connection::{Attachment, Connection, Datagram, Dial, Opening, Resuming, Setup, Suspended};
use crate::crypto::{CidGenerator, PublicKey};
use crate::handshake::{
    Accepted, Acceptor, AcceptorConfig, ClientConfig, ClientHandshake, Params, Resumed, ServerKey,
};
use crate::session::SnapshotError;
use crate::{ConnectionId, Side, Time};

/// Why a suspended session was not taken up. The endpoint is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The bytes are not a usable snapshot.
    #[error(transparent)]
    State(#[from] SnapshotError),
    /// The session was suspended under another key, and this key was not named at the time.
    #[error(
        "the session was suspended under another key: use that identity, or name this key when suspending"
    )]
    Identity,
}

impl Endpoint {
    /// Continues a suspended session and dials the peer, at `remote` if it has moved. `wall` is the wall-clock time
    /// since the Unix epoch. The connection reports [`Event::Connected`](crate::Event::Connected), or
    /// [`Event::Closed`](crate::Event::Closed) with the reason.
    ///
    /// # Errors
    /// Returns a [`ResumeError`]; nothing was sent to the peer.
    pub fn resume(
        &mut self,
        now: Time,
        wall: Duration,
        suspended: &Suspended,
        remote: Option<SocketAddr>,
    ) -> Result<(Handle, Connection), ResumeError> {
        let (session, transport, attachment) = self.take_up(now, wall, suspended)?;
        let local_id = self.ids.issue();
        let params = Connection::own_params(&transport);
        let client = ClientConfig {
            resume: Some(suspended.claim.clone()),
            psk: self.psk.clone(),
            ..ClientConfig::new(ServerKey::Known(suspended.peer_key), self.aes_in_hardware)
        };
        let handshake = ClientHandshake::new(&mut self.rng, &self.identity, client, local_id);
        let remote = remote.unwrap_or(suspended.remote);
        let setup = self.setup(Side::Client, remote, local_id, Arc::new(transport));
        let patience = setup.config.handshake_timeout;
        let mut connection = Connection::new(now, setup);
        connection.begin_resume(session, attachment);
        connection.open_with(now, Opening::new(now, handshake, params, false, patience, None));
        let handle = self.register(local_id, false);
        self.keep_psk(handle, self.psk.clone());
        self.name_session(handle, suspended.claim.session);
        Ok((handle, connection))
    }

    /// Prepares a new handshake for a connection that was given up.
    pub(super) fn dial(&mut self, now: Time, handle: Handle, peer: PublicKey) -> Option<Dial> {
        let local_id = self.ids.issue();
        let ids = self.connections.get_mut(&handle)?;
        ids.more.push(local_id);
        let psk = ids.psk.as_deref().cloned();
        self.routes.insert(local_id, handle);
        let server_key = ServerKey::Known(peer);
        let client = ClientConfig { psk, ..ClientConfig::new(server_key, self.aes_in_hardware) };
        let handshake = ClientHandshake::new(&mut self.rng, &self.identity, client, local_id);
        Some(Dial { now, handshake, local_id, rng: self.child_rng() })
    }

    /// Returns whether a session may wait here for its peer. Sessions of clients that are gone must leave room for
    /// new ones.
    pub(super) fn admit(&mut self, handle: Handle, peer: PublicKey, bytes: u64) -> bool {
        let Some(ids) = self.connections.get(&handle) else { return false };
        if !ids.accepted {
            self.waiting.wait(handle);
            return true;
        }
        let places = self.acceptor.as_ref().map_or(usize::MAX, |(_, listen)| listen.max_connections / 2);
        let limits = (self.transport.max_waiting, self.transport.max_waiting_bytes);
        self.waiting.admitted() < places && self.waiting.admit(handle, peer, bytes, limits)
    }

    /// Takes up a suspended session and waits for the peer, which was suspended too, to resume it here.
    ///
    /// # Errors
    /// Returns a [`ResumeError`].
    pub fn wait_for_peer(
        &mut self,
        now: Time,
        wall: Duration,
        suspended: &Suspended,
    ) -> Result<(Handle, Connection), ResumeError> {
        let (session, transport, attachment) = self.take_up(now, wall, suspended)?;
        let local_id = self.ids.issue();
        let setup = self.setup(Side::Server, suspended.remote, local_id, Arc::new(transport));
        let mut connection = Connection::new(now, setup);
        connection.begin_waiting(now, session, attachment, suspended.peer_key);
        let handle = self.register(local_id, false);
        self.name_session(handle, suspended.claim.session);
        self.waiting.take_over(suspended.claim.session, handle);
        self.waiting.wait(handle);
        self.open_door();
        Ok((handle, connection))
    }

    fn take_up(
        &self,
        now: Time,
        wall: Duration,
        suspended: &Suspended,
    ) -> Result<(crate::session::Session, TransportConfig, Attachment), ResumeError> {
        let own = self.identity.public();
        if own != suspended.own_key && Some(own) != suspended.heir {
            return Err(ResumeError::Identity);
        }
        let session = suspended.restore(now, wall)?;
        let transport = TransportConfig { session: session.config(), ..(*self.transport).clone() };
        Ok((session, transport, Attachment::restored(suspended.claim.clone())))
    }

    pub(super) fn name_session(&mut self, handle: Handle, session: [u8; 16]) {
        self.waiting.insert(session, handle);
        if let Some(ids) = self.connections.get_mut(&handle) {
            ids.resumable = Some(session);
        }
    }

    /// Makes an endpoint with waiting sessions answer their peers, even if it accepts no other clients.
    pub(super) fn open_door(&mut self) {
        if self.acceptor.is_some() {
            return;
        }
        let own = CidGenerator::new(&self.identity, 0x80, &mut self.rng);
        let config = AcceptorConfig {
            aes_in_hardware: self.aes_in_hardware,
            tickets_remembered: 0,
            psk: self.psk.clone(),
            ..AcceptorConfig::default()
        };
        let acceptor = Acceptor::new(&self.identity, &config, own, self.reset_key.clone(), &mut self.rng);
        self.acceptor = Some((acceptor, ListenConfig::default()));
        self.resumes_only = true;
    }

    /// Handles a PING that asks for a session that is here, or was here.
    pub(super) fn accept_resume(
        &mut self,
        accepted: Accepted,
        session: [u8; 16],
        datagram: &Datagram,
        out: &mut Vec<u8>,
    ) -> Routed {
        let Some(handle) = self.waiting.find(&session) else {
            let (client, from) = (accepted.client_key, datagram.from);
            let resumed = Some(match self.waiting.what_became_of(&session) {
                Some(Gone::Left) => {
                    told::resume_refused(from, &client, "the session is suspended here, too");
                    return self.refuse();
                }
                Some(Gone::Expired) => {
                    told::resume_refused(from, &client, "the session waited in vain and has ended");
                    Resumed::Expired
                }
                None => {
                    told::resume_refused(from, &client, "no such session is here");
                    Resumed::Unknown
                }
            });
            let params = Params { resumed, ..Connection::own_params(&self.transport) };
            return match accepted.finish(&params, 1200, &mut |_| {}) {
                Ok(finished) => {
                    out.extend_from_slice(&finished.pong);
                    Routed::Reply
                }
                Err(_) => self.refuse(),
            };
        };
        let local_id = accepted.server_id;
        if !self.add_alias(handle, local_id) {
            return self.refuse();
        }
        let setup = Setup {
            local: datagram.to,
            remote_id: accepted.client_id,
            ..self.setup(Side::Server, datagram.from, local_id, Arc::clone(&self.transport))
        };
        Routed::Resuming(handle, Box::new(Resuming { accepted, setup }))
    }

    /// Notes that a session continues over another connection, so its former ids no longer belong to it.
    pub(super) fn on_reattached(&mut self, handle: Handle, id: ConnectionId) {
        self.waiting.on_reattached(handle);
        let Some(ids) = self.connections.get_mut(&handle) else { return };
        if let Some(session) = ids.resumable {
            self.waiting.take_over(session, handle);
        }
        let old = std::mem::replace(&mut ids.id, id);
        let rare = ids.rare.take().map(|rare| *rare).unwrap_or_default();
        let others = rare.aliases.iter().copied().chain(std::mem::take(&mut ids.more));
        for other in others.chain([old]).filter(|other| *other != id) {
            self.routes.remove(&other);
        }
        for token in &rare.tokens {
            self.tokens.remove(token);
        }
        ids.begun_by = None;
    }
}
