//! Shares of an endpoint's budgets: for the sessions of one client key, and for all keys of one network.
//!
//! A key may have many connections. If each had a share of its own, one key could take everything, and the next
//! session that needed something would be closed, although it belongs to another. So each key has a share. Keys cost
//! a stranger nothing, so on an open listener each network has a share too.

use std::collections::{BTreeMap, VecDeque};

use super::places::{Place, Prefix};
use crate::budget::Budgets;

/// A key may take at most one part in this many of the free bytes.
const OF_KEY: u64 = 4;
/// A network may take at most one part in this many of the free bytes.
const OF_NETWORK: u64 = 2;

/// The shares; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Shares {
    keys: BTreeMap<u64, Share>,
    /// The share of each network, and the number of keys that use it.
    networks: BTreeMap<Prefix, (u32, Budgets)>,
    /// Keys without connections whose data is still held because nobody has read it yet. They are checked again
    /// later.
    gone: VecDeque<u64>,
}

/// How many of them are checked whenever a connection comes or goes.
const LOOKS: usize = 2;

/// The share of one key.
#[derive(Debug)]
struct Share {
    connections: u32,
    /// The network from which the key first connected; the key counts against it wherever else it connects from.
    /// `None` if the listener is not open.
    network: Option<Prefix>,
    budgets: Budgets,
}

impl Shares {
    /// Adds a connection and returns the budgets that it draws on.
    pub(super) fn enter(&mut self, place: Place, is_open: bool, whole: &Budgets) -> Budgets {
        self.forget();
        let networks = &mut self.networks;
        let share = self.keys.entry(place.key).or_insert_with(|| {
            let network = place.widest().filter(|_| is_open);
            let around = network.map_or_else(|| whole.clone(), |network| enter(networks, network, whole));
            Share { connections: 0, network, budgets: around.share(OF_KEY) }
        });
        share.connections += 1;
        share.budgets.clone()
    }

    /// Removes a connection.
    pub(super) fn leave(&mut self, place: Place) {
        self.forget();
        let Some(share) = self.keys.get_mut(&place.key) else { return };
        share.connections -= 1;
        self.gone.push_front(place.key);
        self.forget();
    }

    /// Forgets shares of which nothing is held any more. A client that closes its connections before its data is read
    /// must not get another share.
    fn forget(&mut self) {
        for _ in 0..LOOKS {
            let Some(key) = self.gone.pop_front() else { return };
            match self.keys.get(&key) {
                Some(share) if share.connections > 0 => {}
                Some(share) if share.budgets.is_used() => self.gone.push_back(key),
                Some(_) => self.remove(key),
                None => {}
            }
        }
    }

    fn remove(&mut self, key: u64) {
        if let Some(network) = self.keys.remove(&key).and_then(|share| share.network) {
            leave(&mut self.networks, network);
        }
    }
}

fn enter(networks: &mut BTreeMap<Prefix, (u32, Budgets)>, network: Prefix, whole: &Budgets) -> Budgets {
    let (keys, budgets) = networks.entry(network).or_insert_with(|| (0, whole.share(OF_NETWORK)));
    *keys += 1;
    budgets.clone()
}

fn leave(networks: &mut BTreeMap<Prefix, (u32, Budgets)>, network: Prefix) {
    if let Some((keys, _)) = networks.get_mut(&network) {
        *keys -= 1;
        if *keys == 0 {
            networks.remove(&network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::PublicKey;

    const MIB: u64 = 1 << 20;

    fn place(key: u8, ip: &str) -> Place {
        Place::new(&PublicKey::proven([key; 32]).unwrap(), ip.parse().unwrap())
    }

    /// Takes as much as it gets, and returns it in MiB.
    fn fill(budgets: &Budgets) -> u64 {
        while budgets.memory.take(MIB) {}
        while budgets.credit.take(MIB) {}
        assert_eq!(budgets.credit.used(), budgets.memory.used());
        budgets.memory.used() / MIB
    }

    #[test]
    fn connections_of_a_key_share_and_networks_limit_keys_where_anybody_may_come() {
        for is_open in [false, true] {
            let whole = Budgets::new(1000 * MIB, 1000 * MIB, 0);
            let mut shares = Shares::default();
            let mut fill = |key, ip: &str| fill(&shares.enter(place(key, ip), is_open, &whole));
            assert_eq!((fill(1, "192.0.2.1"), fill(1, "198.51.100.1")), (200, 200), "wherever it is");
            let crowd: u64 = (2..20).map(|key| fill(key, "192.0.2.2")).sum();
            if is_open {
                assert!((120..=133).contains(&crowd), "{crowd}: a third of all with the first");
                let elsewhere = fill(99, "203.0.113.1");
                assert!((130..=134).contains(&elsewhere), "{elsewhere}");
            } else {
                assert!(crowd > 700, "{crowd}");
            }
        }
    }

    #[test]
    fn nothing_is_kept_of_who_is_gone() {
        let whole = Budgets::new(0, 1000 * MIB, 0);
        let mut shares = Shares::default();
        let places = [place(1, "192.0.2.1"), place(1, "2001:db8::1"), place(2, "192.0.2.1"), place(3, "::1")];
        for is_open in [true, false] {
            for place in places {
                shares.enter(place, is_open, &whole);
            }
            for place in places {
                shares.leave(place);
            }
            assert!(shares.keys.is_empty() && shares.networks.is_empty());
        }
        shares.leave(Place::default());
        // What is still held counts until it is read.
        let ip = "192.0.2.1";
        let held = shares.enter(place(4, ip), true, &whole);
        held.memory.force(200 * MIB);
        shares.leave(place(4, ip));
        assert!(!shares.enter(place(4, ip), true, &whole).memory.take(1));
        shares.leave(place(4, ip));
        held.memory.give_back(200 * MIB);
        assert!(shares.enter(place(5, "::1"), true, &whole).memory.take(1));
        assert_eq!((shares.keys.len(), shares.networks.len()), (1, 0));
    }
}
