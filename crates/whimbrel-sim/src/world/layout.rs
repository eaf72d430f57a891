//! The nodes of a world, their addresses, and the links between them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use rand::Rng;
use rand_chacha::ChaCha20Rng;
use whimbrel_link::{Link, LinkConfig};

use super::{Tap, World};

impl<N> World<N> {
    /// Adds a node, with an address on the first network. Returns its number.
    pub fn add_node(&mut self, node: N) -> usize {
        self.nodes.push(node);
        self.air.addresses.add();
        self.sleepers.add();
        self.nodes.len() - 1
    }

    /// A node.
    pub fn node(&self, node: usize) -> &N {
        &self.nodes[node]
    }

    /// A node, to be told something. What it has to send leaves with the next [`World::flush`].
    pub fn node_mut(&mut self, node: usize) -> &mut N {
        &mut self.nodes[node]
    }

    /// The world's randomness, for seeds of nodes. Each draw changes what the world draws later.
    pub fn rng(&mut self) -> &mut ChaCha20Rng {
        &mut self.rng
    }

    /// Joins two nodes on a network by a link from the first to the second, `up`, and one back, `down`.
    pub fn join(&mut self, network: usize, ends: [usize; 2], up: LinkConfig, down: LinkConfig) {
        let [first, second] = ends;
        for (from, to, config) in [(first, second, up), (second, first, down)] {
            let link = Link::new(config, self.rng.next_u64());
            self.air.links.lay((from, to, network), link);
        }
    }

    /// Joins two nodes on a network by the links that join two others on theirs: one bottleneck for both. It is `more`
    /// longer in each direction.
    pub fn join_behind(
        &mut self,
        network: usize,
        ends: [usize; 2],
        others: (usize, [usize; 2]),
        more: Duration,
    ) {
        let (over, theirs) = others;
        for [from, to] in [[0, 1], [1, 0]] {
            let other = (theirs[from], theirs[to], over);
            self.air.links.share((ends[from], ends[to], network), other, more);
        }
    }

    /// One direction of a link.
    pub fn link(&mut self, from: usize, to: usize) -> &mut Link {
        self.link_over(0, from, to)
    }

    /// One direction of a link on one of several networks.
    pub fn link_over(&mut self, network: usize, from: usize, to: usize) -> &mut Link {
        self.air.links.link((from, to, network)).expect("the nodes are joined on that network")
    }

    /// Puts an attacker on the path.
    pub fn set_tap(&mut self, tap: Tap) {
        self.air.set_tap(tap);
    }

    /// The number of packets that reached no node.
    pub fn stray(&self) -> u64 {
        self.air.stray()
    }

    /// The bytes of packets to addresses that nobody had, by address.
    pub fn to_nobody(&self) -> &BTreeMap<SocketAddr, u64> {
        self.air.to_nobody()
    }

    /// A hash that is equal for two worlds with the same packets, reports and records, each at the same time.
    pub fn digest(&self) -> u64 {
        self.air.digest()
    }

    /// Adds something to the digest.
    pub fn record(&mut self, bytes: &[u8]) {
        self.air.record(bytes);
    }

    /// Gives a node an address on a network: a new one, or the one it had.
    pub fn set_up(&mut self, node: usize, network: usize) {
        self.air.addresses.set_up(node, network);
    }

    /// Takes a node's address on a network away: packets to it and from it are lost.
    pub fn take_down(&mut self, node: usize, network: usize) {
        self.air.addresses.take_down(node, network);
    }

    /// Takes all addresses of a node away.
    pub fn cut_off(&mut self, node: usize) {
        for network in 0..self.networks(node) {
            self.take_down(node, network);
        }
    }

    /// The number of networks that a node is or was on, which is the number of the next.
    pub fn networks(&self, node: usize) -> usize {
        self.air.addresses.networks(node)
    }

    /// A node's address on the first network, as others see it.
    pub fn address(&self, node: usize) -> SocketAddr {
        self.air.addresses.on(node, 0).expect("the first network stays")
    }

    /// The current addresses of a node.
    pub fn addresses(&self, node: usize) -> Vec<SocketAddr> {
        self.addresses_by_network(node).map(|(_, address)| address).collect()
    }

    /// The current addresses of a node, with the network of each.
    pub fn addresses_by_network(&self, node: usize) -> impl Iterator<Item = (usize, SocketAddr)> {
        self.air.addresses.of(node)
    }

    /// Makes a node's NAT give it another port: packets to the old one are lost.
    pub fn rebind(&mut self, node: usize) {
        self.rebind_over(0, node);
    }

    /// Works like [`World::rebind`], on one of several networks.
    pub fn rebind_over(&mut self, network: usize, node: usize) {
        self.air.addresses.change_port(node, network);
    }

    /// Works like [`World::rebind`], but also changes to an address in another network.
    pub fn rebind_address(&mut self, node: usize) {
        self.air.addresses.change_address(node);
    }
}
