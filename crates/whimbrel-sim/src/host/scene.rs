//! A world of hosts: one server, and clients that are joined to it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use rand::Rng;
use whimbrel_link::LinkConfig;
use whimbrel_proto::crypto::PublicKey;
use whimbrel_proto::{Datagram, Endpoint, ListenConfig, Routed, TransportConfig};

use super::machine::Host;
use crate::world::{SERVER, World};

impl World<Host> {
    /// Creates a world with a server.
    pub fn new(seed: u64, transport: TransportConfig, listen: ListenConfig) -> Self {
        let mut world = Self::empty(seed);
        world.add_host(transport, Some(listen));
        world
    }

    fn add_host(&mut self, transport: TransportConfig, listen: Option<ListenConfig>) -> usize {
        let host = Host::new(self.rng(), transport, listen);
        self.add_node(host)
    }

    /// Adds a client, joined to the server by a link in each direction.
    pub fn add_client(&mut self, transport: TransportConfig, up: LinkConfig, down: LinkConfig) -> usize {
        let client = self.add_host(transport, None);
        self.join(0, [client, SERVER], up, down);
        client
    }

    /// Adds a client that shares the links of another client on one of its networks.
    pub fn add_client_behind(&mut self, transport: TransportConfig, other: usize, network: usize) -> usize {
        let client = self.add_host(transport, None);
        self.join_behind(0, [client, SERVER], (network, [other, SERVER]), Duration::ZERO);
        client
    }

    /// Adds another host of a client's owner, with the same identity and its own endpoint.
    pub fn add_host_of(&mut self, client: usize, up: LinkConfig, down: LinkConfig) -> usize {
        let disk = self.node(client).disk.clone();
        let other = self.add_client(disk.transport, up, down);
        self.node_mut(other).set_identity(disk.identity);
        self.node_mut(other).forget_salt();
        self.restart(other);
        other
    }

    /// Adds another server with the server's identity, unknown to clients. It receives only what
    /// [`World::misdeliver`] passes to it.
    pub fn add_sibling(&mut self) -> usize {
        let disk = self.node(SERVER).disk.clone();
        let sibling = self.add_host(disk.transport, disk.listen);
        self.node_mut(sibling).set_identity(disk.identity);
        self.restart(sibling);
        sibling
    }

    /// Delivers a packet for one server of a fleet to another. An answer is sent from the address that the packet was
    /// for.
    pub fn misdeliver(&mut self, node: usize, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let datagram = Datagram { from, to: Some(to.ip()), ecn: None, bytes: bytes.into() };
        let mut reply = Vec::new();
        let now = self.now();
        if matches!(self.endpoint(node).handle_datagram(now, datagram, &mut reply), Routed::Reply) {
            self.inject(to, from, &reply);
        }
    }

    /// Adds a network between a client and the server, with an address for both. Returns its number.
    pub fn add_network(&mut self, client: usize, up: LinkConfig, down: LinkConfig) -> usize {
        let network = self.networks(client);
        self.join(network, [client, SERVER], up, down);
        self.set_up(client, network);
        self.set_up(SERVER, network);
        network
    }

    /// Works like [`World::add_network`], but the new network also uses the links of the client's first network: one
    /// bottleneck for both. It is `more` longer in each direction. Returns its number.
    pub fn add_network_behind(&mut self, client: usize, more: Duration) -> usize {
        let network = self.networks(client);
        let ends = [client, SERVER];
        self.join_behind(network, ends, (0, ends), more);
        self.set_up(client, network);
        self.set_up(SERVER, network);
        network
    }

    /// A node's endpoint.
    pub fn endpoint(&mut self, node: usize) -> &mut Endpoint {
        self.node_mut(node).endpoint()
    }

    /// Kills the server's process and starts it again with the same key and no other state.
    pub fn restart_server(&mut self) {
        self.restart(SERVER);
    }

    /// Restarts the server with other listen settings.
    pub fn listen_as(&mut self, listen: ListenConfig) {
        self.node_mut(SERVER).set_listen(listen);
        self.restart(SERVER);
    }

    /// Restarts a node.
    pub fn restart(&mut self, node: usize) {
        let mut seed = [0; 32];
        self.rng().fill_bytes(&mut seed);
        self.node_mut(node).restart(seed);
    }

    /// Makes a node forget the salt of its reset tokens: after a restart its tokens differ.
    pub fn forget_salt(&mut self, node: usize) {
        self.node_mut(node).forget_salt();
    }

    /// Makes a node vanish: packets to it are lost and it sends none.
    pub fn kill(&mut self, node: usize) {
        self.node_mut(node).end_all();
        self.cut_off(node);
    }

    /// Restricts a node's listener to these keys, or opens it to all but denied ones. Connections of other keys end.
    pub fn set_allow(&mut self, node: usize, allow: Option<BTreeSet<PublicKey>>) {
        let now = self.now();
        self.node_mut(node).set_allow(now, allow);
        self.flush();
    }

    /// Revokes a key at a node, which ends its connections.
    pub fn revoke(&mut self, node: usize, key: &PublicKey) {
        let now = self.now();
        self.node_mut(node).revoke(now, key);
        self.flush();
    }
}
