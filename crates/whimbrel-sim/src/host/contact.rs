//! The connections between a world's hosts.

use std::net::SocketAddr;

use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::{ConnectConfig, Event, Handle, LocalAddress, ResumeError, Suspended, Ticket, Time};

use super::machine::Host;
use super::peer::Peer;
use crate::world::{SERVER, World};

impl World<Host> {
    /// Opens a connection from a client to the server.
    pub fn connect(&mut self, client: usize) -> Handle {
        let config = self.known_server(client);
        self.begin(client, config)
    }

    /// Works like [`World::connect`], with the given knowledge of the server's key.
    pub fn connect_with(&mut self, client: usize, server_key: ServerKey) -> Handle {
        let config = self.node(client).connect_config(server_key);
        self.begin(client, config)
    }

    /// Works like [`World::connect`], with a pre-shared key.
    pub fn connect_with_psk(&mut self, client: usize, psk: [u8; 32]) -> Handle {
        let config = ConnectConfig { psk: Some(psk.into()), ..self.known_server(client) };
        self.begin(client, config)
    }

    /// Works like [`World::connect`], with a ticket from an earlier connection.
    pub fn connect_by(&mut self, client: usize, ticket: Ticket) -> Handle {
        let config = ConnectConfig { ticket: Some(ticket), ..self.known_server(client) };
        self.begin(client, config)
    }

    /// A client's settings for a connection to the server, whose key it knows.
    fn known_server(&self, client: usize) -> ConnectConfig {
        let key = self.node(SERVER).endpoint.public_key();
        self.node(client).connect_config(ServerKey::Known(key))
    }

    fn begin(&mut self, client: usize, config: ConnectConfig) -> Handle {
        let (now, server) = (self.now(), self.address(SERVER));
        self.node_mut(client).connect(now, server, config)
    }

    /// The next connection that the server accepted.
    pub fn accept(&mut self) -> Option<Handle> {
        self.node_mut(SERVER).accept()
    }

    /// A connection. Panics if it is gone.
    pub fn peer(&mut self, node: usize, handle: Handle) -> &mut Peer {
        self.try_peer(node, handle).expect("the connection is there")
    }

    /// A connection, if it still exists.
    pub fn try_peer(&mut self, node: usize, handle: Handle) -> Option<&mut Peer> {
        self.node_mut(node).peer(handle)
    }

    /// All events of a connection; none if it is gone.
    pub fn events(&self, node: usize, handle: Handle) -> &[(Time, Event)] {
        self.node(node).events(handle)
    }

    /// The handles of a node's connections.
    pub fn handles(&self, node: usize) -> Vec<Handle> {
        self.node(node).handles()
    }

    /// Tells a connection the current addresses of its host.
    pub fn announce(&mut self, node: usize, handle: Handle) {
        self.announce_as(node, handle, |_, address| address.into());
    }

    /// Works like [`World::announce`], with `like` describing the address on each network.
    pub fn announce_as(
        &mut self,
        node: usize,
        handle: Handle,
        like: impl Fn(usize, SocketAddr) -> LocalAddress,
    ) {
        let addresses = self.addresses_by_network(node).map(|(network, address)| like(network, address));
        let addresses: Vec<LocalAddress> = addresses.collect();
        self.tell(node, handle, &addresses);
    }

    /// Works like [`World::announce`], with the cost of each network.
    pub fn announce_at_cost(&mut self, node: usize, handle: Handle, costs: &[u32]) {
        let addresses = self.addresses(node).into_iter().zip(costs);
        let addresses: Vec<LocalAddress> =
            addresses.map(|(address, cost)| LocalAddress { cost: *cost, ..address.into() }).collect();
        self.tell(node, handle, &addresses);
    }

    fn tell(&mut self, node: usize, handle: Handle, addresses: &[LocalAddress]) {
        let now = self.now();
        self.peer(node, handle).connection.set_local_addresses(now, addresses);
        self.flush();
    }

    /// Takes the state of a suspended connection.
    pub fn take_suspended(&mut self, node: usize, handle: Handle) -> Option<Suspended> {
        let (now, wall) = (self.now(), self.wall());
        let state = self.node_mut(node).take_suspended(now, wall, handle)?;
        self.record(&state.to_bytes());
        Some(state)
    }

    /// Resumes a suspended session on a node, with the peer at its former address or another.
    pub fn resume(
        &mut self,
        node: usize,
        suspended: &Suspended,
        remote: Option<SocketAddr>,
    ) -> Result<Handle, ResumeError> {
        let (now, wall) = (self.now(), self.wall());
        self.node_mut(node).resume(now, wall, suspended, remote)
    }

    /// Takes up a suspended session on a node, where it waits for its peer.
    pub fn wait_for_peer(&mut self, node: usize, suspended: &Suspended) -> Result<Handle, ResumeError> {
        let (now, wall) = (self.now(), self.wall());
        self.node_mut(node).wait_for_peer(now, wall, suspended)
    }
}
