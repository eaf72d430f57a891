//! Counts connections by client key and by network, so that none fills a listener alone.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::settings::ListenConfig;
use crate::crypto::PublicKey;

/// The number of connections that a network may always have, because a share of a small listener is almost nothing.
const LEAST: usize = 16;

/// The key and network that a connection counts against, in 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The first 8 bytes of the key. Finding another key with the same prefix takes 2^64 tries, and the two would
    /// only share a limit.
    pub(super) key: u64,
    /// The network; 0 for loopback, which has none.
    network: Prefix,
}

/// An address prefix, with its family and length encoded in the low byte.
pub(super) type Prefix = u64;

/// The code of an IPv4 /24.
const V4_24: u64 = 1;
/// The codes of an IPv6 /56 and of the /48 around it.
const V6_56: u64 = 2;
const V6_48: u64 = 3;

impl Place {
    pub(super) fn new(key: &PublicKey, ip: IpAddr) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *key.as_bytes();
        Self { key: u64::from_be_bytes([a, b, c, d, e, f, g, h]), network: network(ip) }
    }

    /// The largest network around it; `None` for loopback.
    pub(super) fn widest(self) -> Option<Prefix> {
        networks(self).last()
    }
}

fn network(ip: IpAddr) -> Prefix {
    match ip.to_canonical() {
        ip if ip.is_loopback() => 0,
        IpAddr::V4(ip) => u64::from(u32::from(ip)) >> 8 << 8 | V4_24,
        IpAddr::V6(ip) => (u128::from(ip) >> 72 << 8) as u64 | V6_56,
    }
}

/// The next larger network around a network.
fn wider(network: Prefix) -> Option<Prefix> {
    (network & 0xff == V6_56).then_some(network >> 16 << 16 | V6_48)
}

/// The number of connections that a network may have.
fn share(network: Prefix, listen: &ListenConfig) -> usize {
    let share = listen.max_connections.saturating_mul(listen.network_share.into()) / 100;
    let share = if network & 0xff == V6_56 { share / 2 } else { share };
    share.max(LEAST)
}

/// The counts; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Places {
    keys: BTreeMap<u64, u32>,
    networks: BTreeMap<Prefix, u32>,
}

/// A limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::endpoint) enum Full {
    Key,
    Network,
}

impl Places {
    pub(in crate::endpoint) fn full(&self, place: Place, listen: &ListenConfig) -> Option<Full> {
        let taken = |counts: &BTreeMap<u64, u32>, of| counts.get(&of).map_or(0, |count| *count as usize);
        if taken(&self.keys, place.key) >= listen.max_per_key {
            return Some(Full::Key);
        }
        // Clients on an allow list are known, so networks are not limited.
        let limited = listen.allow.is_none() && listen.network_share < 100 && place.network != 0;
        let mut around = Some(place.network).filter(|_| limited);
        while let Some(network) = around {
            if taken(&self.networks, network) >= share(network, listen) {
                return Some(Full::Network);
            }
            around = wider(network);
        }
        None
    }

    pub(in crate::endpoint) fn take(&mut self, place: Place) {
        *self.keys.entry(place.key).or_default() += 1;
        for network in networks(place) {
            *self.networks.entry(network).or_default() += 1;
        }
    }

    /// Forgets the place of a connection that is gone. A connection that was not accepted has none.
    pub(super) fn leave(&mut self, place: Place) {
        if place == Place::default() {
            return;
        }
        release(&mut self.keys, place.key);
        for network in networks(place) {
            release(&mut self.networks, network);
        }
    }
}

fn networks(place: Place) -> impl Iterator<Item = Prefix> {
    let first = Some(place.network).filter(|network| *network != 0);
    first.into_iter().chain(first.and_then(wider))
}

fn release(counts: &mut BTreeMap<u64, u32>, of: u64) {
    if let Some(count) = counts.get_mut(&of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: u8, ip: &str) -> Place {
        Place::new(&PublicKey::proven([key; 32]).unwrap(), ip.parse().unwrap())
    }

    fn room(places: &mut Places, listen: &ListenConfig, key: u8, ip: &str) -> usize {
        let place = place(key, ip);
        (0..)
            .take_while(|_| places.full(place, listen).is_none().then(|| places.take(place)).is_some())
            .count()
    }

    #[test]
    fn a_network_has_its_share_and_a_site_no_more_than_one_network() {
        let listen = ListenConfig { max_connections: 400, ..ListenConfig::default() };
        let mut places = Places::default();
        assert_eq!(room(&mut places, &listen, 1, "192.0.2.7"), 100);
        assert_eq!(room(&mut places, &listen, 2, "::ffff:192.0.2.8"), 0, "the same network, spelt otherwise");
        assert_eq!(room(&mut places, &listen, 2, "192.0.3.7"), 100, "its neighbour");
        assert_eq!(room(&mut places, &listen, 3, "2001:db8:0:11::1"), 50);
        assert_eq!(room(&mut places, &listen, 4, "2001:db8:0:22::1"), 0, "the same /56");
        assert_eq!(room(&mut places, &listen, 4, "2001:db8:0:122::1"), 50);
        assert_eq!(room(&mut places, &listen, 5, "2001:db8:0:222::1"), 0, "its /48 has a share");
        assert_eq!(room(&mut places, &listen, 5, "2001:db8:1::1"), 50);
        assert_eq!(room(&mut places, &listen, 6, "127.0.0.1"), 1_024, "no limit but the key's");
        let shut = ListenConfig { allow: Some([].into()), ..listen.clone() };
        assert_eq!(room(&mut places, &shut, 9, "192.0.2.9"), 1_024, "who is listed is known");
        let off = ListenConfig { network_share: 100, ..listen };
        assert_eq!(room(&mut places, &off, 8, "192.0.2.9"), 1_024);
    }

    #[test]
    fn a_place_is_free_again_when_its_connection_is_gone() {
        let listen = ListenConfig { max_connections: 2, max_per_key: 3, ..ListenConfig::default() };
        let mut places = Places::default();
        for ip in ["192.0.2.7", "2001:db8::1", "::1"] {
            assert_eq!(room(&mut places, &listen, 1, ip), 3);
            for _ in 0..3 {
                places.leave(place(1, ip));
            }
        }
        places.leave(Place::default());
        assert!(places.keys.is_empty() && places.networks.is_empty());
        assert_eq!((1..9).map(|key| room(&mut places, &listen, key, "192.0.2.7")).sum::<usize>(), LEAST);
    }
}
