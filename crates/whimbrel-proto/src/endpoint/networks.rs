//! Networks of addresses, and the networks with connected clients.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU64;

/// A network of any size. The low byte, which is never part of an IPv6 prefix here, encodes size and family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Network(NonZeroU64);

/// Multiples of the smallest network's limit for each network size: one host can have many addresses, and one
/// customer many networks.
pub(super) const SIZES: [u32; 3] = [1, 2, 4];

impl Network {
    /// The network that counts as one address: an IPv4 /24 or IPv6 /56.
    pub(super) fn of(ip: IpAddr) -> Self {
        let [smallest, ..] = Self::all_of(ip);
        smallest
    }

    /// The networks of an address from small to large: /24, /20 and /16, or /56, /48 and /40.
    pub(super) fn all_of(ip: IpAddr) -> [Self; SIZES.len()] {
        match ip.to_canonical() {
            IpAddr::V4(ip) => [24u8, 20, 16].map(|bits| Self::new(u64::from(u32::from(ip)) << 32, bits)),
            IpAddr::V6(ip) => [56u8, 48, 40].map(|bits| Self::new((u128::from(ip) >> 64) as u64, bits)),
        }
    }

    fn new(address: u64, bits: u8) -> Self {
        let kept = address & (u64::MAX << (64 - u32::from(bits)));
        Self(NonZeroU64::MIN | kept | u64::from(bits) << 1)
    }
}

/// Networks with a connected client that has proven itself, or whose session waits for it.
#[derive(Debug, Default)]
pub(super) struct Known {
    clients: BTreeMap<Network, u32>,
}

impl Known {
    pub(super) fn add(&mut self, network: Network) {
        *self.clients.entry(network).or_default() += 1;
    }

    pub(super) fn remove(&mut self, network: Network) {
        match self.clients.get_mut(&network) {
            Some(clients) if *clients > 1 => *clients -= 1,
            _ => {
                self.clients.remove(&network);
            }
        }
    }

    pub(super) fn contains(&self, network: Network) -> bool {
        self.clients.contains_key(&network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ip: &str) -> [Network; 3] {
        Network::all_of(ip.parse().unwrap())
    }

    #[test]
    fn neighbours_share_a_network_of_the_size_that_holds_both() {
        for (a, b, shared) in [
            ("192.0.2.1", "192.0.2.250", [true, true, true]),
            ("192.0.2.1", "192.0.3.1", [false, true, true]),
            ("192.0.2.1", "192.0.99.1", [false, false, true]),
            ("192.0.2.1", "192.1.2.1", [false, false, false]),
            ("192.0.2.1", "::ffff:192.0.2.9", [true, true, true]),
            ("2001:db8:1:200::1", "2001:db8:1:2ff::9", [true, true, true]),
            ("2001:db8:1:200::1", "2001:db8:1:300::1", [false, true, true]),
            ("2001:db8:100::1", "2001:db8:1ff::1", [false, false, true]),
            ("2001:db8:100::1", "2001:db8:200::1", [false, false, false]),
            // The same 64 bits in the other address family.
            ("192.0.2.0", "c000:200::", [false, false, false]),
        ] {
            let (a, b) = (of(a), of(b));
            assert_eq!([0, 1, 2].map(|size| a[size] == b[size]), shared, "{a:?} {b:?}");
        }
    }

    #[test]
    fn a_network_is_known_while_somebody_is_there() {
        let (mut known, [here, ..], [there, ..]) = (Known::default(), of("192.0.2.1"), of("192.0.3.1"));
        known.add(here);
        known.add(here);
        known.remove(here);
        assert!(known.contains(here) && !known.contains(there));
        known.remove(here);
        assert!(!known.contains(here) && known.clients.is_empty());
    }
}
