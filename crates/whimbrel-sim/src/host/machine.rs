//! A host: an endpoint with its connections.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use rand::CryptoRng;
use whimbrel_proto::crypto::{Identity, PublicKey};
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::{
    ConnectConfig, Connection, Endpoint, Event, Handle, ListenConfig, ResumeError, Suspended, Time,
    TransportConfig,
};

use super::disk::Disk;
use super::peer::Peer;

/// A host: an endpoint and its connections.
pub struct Host {
    pub(super) disk: Disk,
    pub(super) endpoint: Endpoint,
    pub(super) connections: BTreeMap<Handle, Peer>,
    /// Connections that were accepted and not yet returned.
    pub(super) accepted: Vec<Handle>,
    /// Scratch space for packets, kept for its memory.
    pub(super) buffer: Vec<u8>,
}

impl Host {
    /// Creates a host with a new identity. It accepts connections if `listen` says how.
    pub fn new(rng: &mut impl CryptoRng, transport: TransportConfig, listen: Option<ListenConfig>) -> Self {
        let (disk, endpoint) = Disk::new(rng, transport, listen);
        Self { disk, endpoint, connections: BTreeMap::new(), accepted: Vec::new(), buffer: Vec::new() }
    }

    /// Kills the host's process and starts it again, with the same identity and settings and no other state. The new
    /// process draws from `seed`.
    pub fn restart(&mut self, seed: [u8; 32]) {
        self.endpoint = self.disk.boot(seed);
        self.end_all();
    }

    /// Drops all connections. Their peers learn nothing of it.
    pub fn end_all(&mut self) {
        self.connections.clear();
        self.accepted.clear();
    }

    /// Makes the host forget the salt of its reset tokens: after a restart its tokens differ.
    pub fn forget_salt(&mut self) {
        self.disk.salt = None;
    }

    /// Sets the identity that the host has after its next restart.
    pub fn set_identity(&mut self, identity: Identity) {
        self.disk.identity = identity;
    }

    /// Sets the listen settings that the host has after its next restart.
    pub fn set_listen(&mut self, listen: ListenConfig) {
        self.disk.listen = Some(listen);
    }

    /// The endpoint.
    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// The settings for a connection to a server, with the host's own transport settings.
    pub fn connect_config(&self, server_key: ServerKey) -> ConnectConfig {
        ConnectConfig {
            server_key,
            protocol: Default::default(),
            psk: None,
            ticket: None,
            alternatives: Vec::new(),
            transport: self.disk.transport.clone(),
        }
    }

    /// Opens a connection.
    pub fn connect(&mut self, now: Time, server: SocketAddr, config: ConnectConfig) -> Handle {
        let (handle, connection) = self.endpoint.connect(now, server, config);
        self.keep(handle, connection)
    }

    /// Resumes a suspended session, with the peer at its former address or another.
    pub fn resume(
        &mut self,
        now: Time,
        wall: Duration,
        suspended: &Suspended,
        remote: Option<SocketAddr>,
    ) -> Result<Handle, ResumeError> {
        let (handle, connection) = self.endpoint.resume(now, wall, suspended, remote)?;
        Ok(self.keep(handle, connection))
    }

    /// Takes up a suspended session, which waits for its peer.
    pub fn wait_for_peer(
        &mut self,
        now: Time,
        wall: Duration,
        suspended: &Suspended,
    ) -> Result<Handle, ResumeError> {
        let (handle, connection) = self.endpoint.wait_for_peer(now, wall, suspended)?;
        Ok(self.keep(handle, connection))
    }

    pub(super) fn keep(&mut self, handle: Handle, connection: Connection) -> Handle {
        self.connections.insert(handle, Peer::new(connection));
        handle
    }

    /// Takes the state of a suspended connection. Panics if the connection is gone.
    pub fn take_suspended(&mut self, now: Time, wall: Duration, handle: Handle) -> Option<Suspended> {
        let own = self.endpoint.public_key();
        let peer = self.peer(handle).expect("the connection is there");
        peer.connection.take_suspended(now, own, wall)
    }

    /// The next connection that was accepted.
    pub fn accept(&mut self) -> Option<Handle> {
        (!self.accepted.is_empty()).then(|| self.accepted.remove(0))
    }

    /// A connection, if it still exists.
    pub fn peer(&mut self, handle: Handle) -> Option<&mut Peer> {
        self.connections.get_mut(&handle).map(Peer::touch)
    }

    /// All events of a connection; none if it is gone.
    pub fn events(&self, handle: Handle) -> &[(Time, Event)] {
        self.connections.get(&handle).map_or(&[], |peer| &peer.events)
    }

    /// The handles of all connections.
    pub fn handles(&self) -> Vec<Handle> {
        self.connections.keys().copied().collect()
    }

    /// Restricts the listener to these keys, or opens it to all but denied ones. Connections of other keys end.
    pub fn set_allow(&mut self, now: Time, allow: Option<BTreeSet<PublicKey>>) {
        let Self { endpoint, connections, .. } = self;
        endpoint.set_allow(now, allow);
        for peer in connections.values_mut() {
            peer.touch().connection.recheck(now, &mut |key, _| endpoint.lists(key));
        }
    }

    /// Revokes a key, which ends its connections.
    pub fn revoke(&mut self, now: Time, key: &PublicKey) {
        self.endpoint.revoke(now, key);
        for peer in self.connections.values_mut() {
            peer.touch().connection.revoke(now, key);
        }
    }
}
