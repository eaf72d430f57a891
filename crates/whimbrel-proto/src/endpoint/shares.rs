//! What the sessions of one client key, and of all the keys of one network, may have of an endpoint's budgets together.
//!
//! A key may have many connections. If each had a share of its own, whoever has one key could take everything, and the next session that
//! needs something would be closed: another's. So a key has a share; and since keys cost a stranger nothing, its network has one, where the
//! listener is open.

use std::collections::{BTreeMap, VecDeque};

use super::places::{Network, Place};
use crate::budget::Budgets;

/// A key may have one in so many of the bytes that are free.
const OF_KEY: u64 = 4;
/// A network may.
const OF_NETWORK: u64 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shares {
    keys: BTreeMap<u64, Share>,
    /// By how many keys each has.
    networks: BTreeMap<Network, (u32, Budgets)>,
    /// Keys that had no connections left when something of theirs was still held, which nobody has read yet: to be looked at again.
    gone: VecDeque<u64>,
}

/// How many of those are looked at whenever a connection comes or goes.
const LOOKS: usize = 2;

/// A key's.
#[derive(Debug)]
struct Share {
    connections: u32,
    /// From which it came first, and against which it counts wherever else it comes from. None: the listener is not open.
    network: Option<Network>,
    budgets: Budgets,
}

impl Shares {
    /// What a connection more from there draws on.
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

    /// It is gone.
    pub(super) fn leave(&mut self, place: Place) {
        self.forget();
        let Some(share) = self.keys.get_mut(&place.key) else { return };
        share.connections -= 1;
        self.gone.push_front(place.key);
        self.forget();
    }

    /// A share is forgotten once nothing of it is held: else who closes its connections before anybody has read what they brought would
    /// have another.
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

fn enter(networks: &mut BTreeMap<Network, (u32, Budgets)>, network: Network, whole: &Budgets) -> Budgets {
    let (keys, budgets) = networks.entry(network).or_insert_with(|| (0, whole.share(OF_NETWORK)));
    *keys += 1;
    budgets.clone()
}

fn leave(networks: &mut BTreeMap<Network, (u32, Budgets)>, network: Network) {
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

    /// Takes all that it gets.
    fn fill(budgets: &Budgets) -> u64 {
        while budgets.memory.take(MIB) {}
        while budgets.credit.take(MIB) {}
        assert_eq!(budgets.credit.used(), budgets.memory.used());
        budgets.memory.used() / MIB
    }

    #[test]
    fn connections_of_a_key_share_and_networks_limit_keys_where_anybody_may_come() {
        for is_open in [false, true] {
            let whole = Budgets::new(1000 * MIB, 1000 * MIB);
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
        let whole = Budgets::new(0, 1000 * MIB);
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
