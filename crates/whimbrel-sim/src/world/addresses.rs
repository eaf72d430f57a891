//! The addresses of nodes, and who has which.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The port of every node until its NAT chooses another.
const PORT: u16 = 4433;

/// The addresses of all nodes on all networks.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    places: Vec<Place>,
    /// The node and network behind each address, as a NAT presents it.
    owners: BTreeMap<SocketAddr, (usize, usize)>,
}

/// Where a node is.
#[derive(Debug, Default)]
struct Place {
    /// Its address on each network, by the network's number; `None` where it has none.
    outside: Vec<Option<SocketAddr>>,
    /// The node's own idea of its address on the first network, if a NAT has given it another.
    behind_nat: Option<IpAddr>,
}

impl Place {
    /// The node's own idea of an address that it has on a network.
    fn inside(&self, network: usize, outside: SocketAddr) -> IpAddr {
        self.behind_nat.filter(|_| network == 0).unwrap_or(outside.ip())
    }
}

impl Addresses {
    /// Adds a node, with an address on the first network.
    pub(super) fn add(&mut self) {
        self.places.push(Place::default());
        self.set_up(self.places.len() - 1, 0);
    }

    /// The number of networks that a node is or was on.
    pub(super) fn networks(&self, node: usize) -> usize {
        self.places[node].outside.len()
    }

    /// A node's addresses, with the networks that it has them on.
    pub(super) fn of(&self, node: usize) -> impl Iterator<Item = (usize, SocketAddr)> {
        let outside = self.places[node].outside.iter().enumerate();
        outside.filter_map(|(network, address)| Some((network, (*address)?)))
    }

    /// A node's address on a network.
    pub(super) fn on(&self, node: usize, network: usize) -> Option<SocketAddr> {
        self.places[node].outside.get(network).copied().flatten()
    }

    /// The node that has an address, and the network on which it has it.
    pub(super) fn owner(&self, address: SocketAddr) -> Option<(usize, usize)> {
        self.owners.get(&address).copied()
    }

    /// The node that has an address, and its own idea of that address.
    pub(super) fn reach(&self, address: SocketAddr) -> Option<(usize, IpAddr)> {
        let (node, network) = self.owner(address)?;
        Some((node, self.places[node].inside(network, address)))
    }

    /// The address that others see if a node sends from `source` to a network. `None` if the node is not on that network,
    /// or has `source` on another.
    pub(super) fn sends_from(
        &self,
        node: usize,
        network: usize,
        source: Option<IpAddr>,
    ) -> Option<SocketAddr> {
        let outside = self.on(node, network)?;
        let inside = self.places[node].inside(network, outside);
        source.is_none_or(|source| source == inside).then_some(outside)
    }

    /// Gives a node an address on a network: a new one, or the one it had at first.
    pub(super) fn set_up(&mut self, node: usize, network: usize) {
        let address = SocketAddr::from(([10, network as u8, (node >> 8) as u8, node as u8], PORT));
        let outside = &mut self.places[node].outside;
        outside.resize(outside.len().max(network + 1), None);
        outside[network] = Some(address);
        self.owners.insert(address, (node, network));
    }

    /// Takes a node's address on a network away.
    pub(super) fn take_down(&mut self, node: usize, network: usize) {
        if let Some(address) = self.places[node].outside[network].take() {
            self.owners.remove(&address);
        }
    }

    /// Gives a node another port on a network, of which the node knows nothing.
    pub(super) fn change_port(&mut self, node: usize, network: usize) {
        let old = self.on(node, network).expect("the node is on that network");
        self.replace(node, network, SocketAddr::new(old.ip(), next_port(old)));
    }

    /// Gives a node another IP address and port on the first network, of which the node knows nothing.
    pub(super) fn change_address(&mut self, node: usize) {
        let old = self.on(node, 0).expect("the first network stays");
        let ip = match old.ip() {
            IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip).wrapping_add(1 << 16)).into(),
            IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip).wrapping_add(1 << 64)).into(),
        };
        self.places[node].behind_nat.get_or_insert(old.ip());
        self.replace(node, 0, SocketAddr::new(ip, next_port(old)));
    }

    fn replace(&mut self, node: usize, network: usize, new: SocketAddr) {
        if let Some(old) = self.places[node].outside[network].replace(new) {
            self.owners.remove(&old);
        }
        self.owners.insert(new, (node, network));
    }
}

fn next_port(old: SocketAddr) -> u16 {
    old.port().wrapping_add(1).max(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nat_shows_another_address_than_the_node_knows() {
        let mut addresses = Addresses::default();
        addresses.add();
        let first = addresses.on(0, 0).unwrap();
        addresses.change_address(0);
        let second = addresses.on(0, 0).unwrap();
        assert_eq!(addresses.owner(first), None);
        assert_eq!(addresses.reach(second), Some((0, first.ip())));
        assert_eq!(addresses.sends_from(0, 0, Some(first.ip())), Some(second));
        assert_eq!(addresses.sends_from(0, 0, Some(second.ip())), None, "the node does not know it");
        addresses.change_port(0, 0);
        let third = addresses.on(0, 0).unwrap();
        assert_eq!((third.ip(), third.port()), (second.ip(), second.port() + 1));
        assert_eq!(addresses.reach(third), Some((0, first.ip())));
    }

    #[test]
    fn a_node_sends_from_its_address_on_the_network() {
        let mut addresses = Addresses::default();
        addresses.add();
        assert_eq!(addresses.sends_from(0, 1, None), None);
        addresses.set_up(0, 1);
        let [first, second] = [0, 1].map(|network| addresses.on(0, network).unwrap());
        assert_eq!(addresses.of(0).collect::<Vec<_>>(), [(0, first), (1, second)]);
        assert_eq!(addresses.sends_from(0, 1, None), Some(second));
        assert_eq!(addresses.sends_from(0, 1, Some(first.ip())), None, "that one is on another network");
        addresses.take_down(0, 1);
        assert_eq!((addresses.sends_from(0, 1, None), addresses.owner(second)), (None, None));
        assert_eq!(addresses.networks(0), 2, "it was on both");
    }
}
