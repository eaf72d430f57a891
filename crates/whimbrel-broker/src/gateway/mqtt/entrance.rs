//! The addresses that clients come from, so that none of them takes all places.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::limits::Limits;

/// The most connections whose clients have not said who they are: all of them wait for TLS, WebSocket or CONNECT.
pub(super) const MOST_PENDING: usize = 2_048;
/// The most addresses whose attempts are counted. Attempts from further ones are not.
const MOST_ADDRESSES: usize = 65_536;
/// The most clients that wait for their passwords to be checked. A check takes long by design, and they are made one by one.
const MOST_CHECKS: usize = 64;
/// The most of them from one address.
const MOST_CHECKS_OF_ADDRESS: usize = 16;
/// Attempts may come together that are permitted within this time.
const BURST: Duration = Duration::from_secs(2);

/// An IPv4 address, or the 64 bits of IPv6 that one network has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Network(Ipv6Addr);

impl Network {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped()),
            IpAddr::V6(address) => Self((u128::from(address) >> 64 << 64).into()),
        }
    }
}

/// The connections of each network.
#[derive(Debug)]
pub(super) struct Entrance {
    limits: Limits,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    networks: HashMap<Network, Comers>,
    /// Connections whose clients have not said who they are, the oldest first.
    pending: BTreeMap<u64, (Network, Arc<Notify>)>,
    last: u64,
    connections: usize,
    /// Passwords that wait to be checked.
    checks: usize,
    turned_away: u64,
}

/// The connections and attempts of one network.
#[derive(Debug)]
struct Comers {
    connections: usize,
    pending: usize,
    checks: usize,
    /// The time at which no attempt will count any more.
    forgotten: Instant,
}

/// A connection's place.
#[derive(Debug)]
pub(super) struct Guest {
    entrance: Arc<Entrance>,
    network: Network,
    number: u64,
    evicted: Arc<Notify>,
}

/// A place among the passwords that wait to be checked.
#[derive(Debug)]
pub(super) struct Check<'a>(&'a Guest);

/// The connections as they are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections that there are.
    pub connections: usize,
    /// Those whose clients have not said who they are.
    pub pending: usize,
    /// Connections that were closed at once, or while they were pending, since a limit was reached.
    pub turned_away: u64,
    /// Wills whose channels have no room at present.
    pub wills_waiting: usize,
    /// Wills that were refused, or lost when the broker stopped.
    pub wills_refused: u64,
}

impl Entrance {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, inner: Mutex::default() })
    }

    /// Lets a connection in. `None`: there is no place for it.
    pub(super) fn enter(self: &Arc<Self>, from: IpAddr, now: Instant) -> Option<Guest> {
        let network = Network::of(from);
        let mut inner = self.inner();
        if !inner.attempt(network, &self.limits, now) {
            inner.turned_away += 1;
            return None;
        }
        if !inner.make_room(network) {
            inner.turned_away += 1;
            return None;
        }
        inner.connections += 1;
        inner.last += 1;
        let (number, evicted) = (inner.last, Arc::<Notify>::default());
        inner.pending.insert(number, (network, Arc::clone(&evicted)));
        let comers = inner.networks.entry(network).or_insert_with(|| Comers::new(now));
        comers.connections += 1;
        comers.pending += 1;
        Some(Guest { entrance: Arc::clone(self), network, number, evicted })
    }

    /// Forgets networks of which nothing counts any more.
    pub(super) fn tick(&self, now: Instant) {
        self.inner().networks.retain(|_, comers| comers.connections > 0 || comers.forgotten > now);
    }

    pub(super) fn report(&self) -> Connections {
        let Inner { pending, connections, turned_away, .. } = &*self.inner();
        let (connections, pending, turned_away) = (*connections, pending.len(), *turned_away);
        Connections { connections, pending, turned_away, ..Connections::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whether a connection may come, as far as limits say. The attempt counts.
    fn attempt(&mut self, network: Network, limits: &Limits, now: Instant) -> bool {
        if self.networks.len() >= MOST_ADDRESSES && !self.networks.contains_key(&network) {
            return self.connections < limits.max_connections;
        }
        let comers = self.networks.entry(network).or_insert_with(|| Comers::new(now));
        let after =
            comers.forgotten.max(now) + Duration::from_secs(1) / limits.max_attempts_per_address.max(1);
        if after > now + BURST {
            return false;
        }
        comers.forgotten = after;
        comers.connections < limits.max_connections_per_address && self.connections < limits.max_connections
    }

    /// Makes room for a connection of `newcomer`. The connection that has been pending the longest gives way, of the network that has the
    /// most with this one: who floods displaces itself. Returns whether there is room.
    fn make_room(&mut self, newcomer: Network) -> bool {
        if self.pending.len() < MOST_PENDING {
            return true;
        }
        let pending = |network: Network| self.networks.get(&network).map_or(0, |comers| comers.pending);
        let most = self.networks.values().map(|comers| comers.pending).max().unwrap_or(0);
        let own = pending(newcomer);
        // Whoever has as many as anybody displaces nobody else.
        let gives_way = |network: Network| {
            if own + 1 >= most { network == newcomer } else { pending(network) == most }
        };
        let oldest = self.pending.iter().find(|(_, (network, _))| gives_way(*network));
        let Some((number, (network, evicted))) =
            oldest.map(|(number, (network, evicted))| (*number, (*network, Arc::clone(evicted))))
        else {
            return false;
        };
        self.pending.remove(&number);
        self.turned_away += 1;
        if let Some(comers) = self.networks.get_mut(&network) {
            comers.pending -= 1;
        }
        evicted.notify_one();
        true
    }

    /// The connection is not pending any more. Returns whether it was.
    fn settle(&mut self, number: u64) -> bool {
        let Some((network, _)) = self.pending.remove(&number) else { return false };
        if let Some(comers) = self.networks.get_mut(&network) {
            comers.pending -= 1;
        }
        true
    }
}

impl Comers {
    fn new(now: Instant) -> Self {
        Self { connections: 0, pending: 0, checks: 0, forgotten: now }
    }
}

impl Guest {
    /// Waits until another connection needs the place. It comes to an end only while the connection is pending.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// The client has said who it is. Returns whether it still has its place.
    pub(super) fn settle(&self) -> bool {
        self.entrance.inner().settle(self.number)
    }
}

impl Guest {
    /// Takes a place among the passwords that wait to be checked. `None`: there is none for its address.
    pub(super) fn check(&self) -> Option<Check<'_>> {
        let mut inner = self.entrance.inner();
        let Inner { networks, checks, .. } = &mut *inner;
        let comers = networks.get_mut(&self.network)?;
        if *checks >= MOST_CHECKS || comers.checks >= MOST_CHECKS_OF_ADDRESS {
            return None;
        }
        *checks += 1;
        comers.checks += 1;
        Some(Check(self))
    }
}

impl Drop for Check<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.entrance.inner();
        inner.checks -= 1;
        if let Some(comers) = inner.networks.get_mut(&self.0.network) {
            comers.checks -= 1;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut inner = self.entrance.inner();
        inner.settle(self.number);
        inner.connections -= 1;
        if let Some(comers) = inner.networks.get_mut(&self.network) {
            comers.connections -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrance(max_connections: usize, max_connections_per_address: usize, attempts: u32) -> Arc<Entrance> {
        let limits = Limits {
            max_connections,
            max_connections_per_address,
            max_attempts_per_address: attempts,
            ..Limits::default()
        };
        Entrance::new(limits)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_network_does_not_take_all() {
        let (entrance, now) = (entrance(4, 2, 1_000), Instant::now());
        let enter = |from: &str| entrance.enter(address(from), now);
        let first = enter("2001:db8::1").unwrap();
        let _second = enter("2001:db8:0:0:ffff::2").unwrap();
        assert!(enter("2001:db8::3").is_none(), "the same 64 bits");
        let _other = enter("2001:db8:0:1::1").unwrap();
        let _mapped = enter("::ffff:192.0.2.1").unwrap();
        assert!(enter("192.0.2.2").is_none(), "there is no place at all");
        drop(first);
        assert!(enter("192.0.2.2").is_some());
        assert_eq!(entrance.report().turned_away, 2);
    }

    #[test]
    fn attempts_are_counted_and_forgotten() {
        let (entrance, mut now) = (entrance(1_000, 1_000, 10), Instant::now());
        let count = |now| (0..100).filter(|_| entrance.enter(address("192.0.2.1"), now).is_some()).count();
        assert_eq!(count(now), 20);
        assert!(entrance.enter(address("192.0.2.2"), now).is_some(), "another address");
        now += Duration::from_millis(500);
        assert_eq!(count(now), 5);
        now += BURST;
        entrance.tick(now);
        assert!(entrance.inner().networks.is_empty());
    }

    #[test]
    fn passwords_of_one_address_leave_room_for_those_of_others() {
        let (entrance, now) = (entrance(1_000, 1_000, 1_000), Instant::now());
        let guests: Vec<_> = (0..20).map(|_| entrance.enter(address("192.0.2.1"), now).unwrap()).collect();
        let checks: Vec<_> = guests.iter().filter_map(Guest::check).collect();
        assert_eq!(checks.len(), MOST_CHECKS_OF_ADDRESS);
        let other = entrance.enter(address("192.0.2.2"), now).unwrap();
        assert!(other.check().is_some());
        drop(checks);
        assert!(guests[19].check().is_some());
    }

    #[test]
    fn who_is_slow_gives_way_in_the_network_that_has_the_most() {
        let (entrance, now) = (entrance(10_000, 10_000, 100_000), Instant::now());
        let other = entrance.enter(address("192.0.2.2"), now).unwrap();
        let settled = entrance.enter(address("192.0.2.1"), now).unwrap();
        assert!(settled.settle());
        let slow: Vec<_> =
            (0..MOST_PENDING).map(|_| entrance.enter(address("192.0.2.1"), now).unwrap()).collect();
        assert_eq!(entrance.report().pending, MOST_PENDING);
        assert!(!slow[0].settle(), "it gave way");
        assert!(slow[1].settle() && other.settle());
        drop((slow, other, settled));
        entrance.tick(now + BURST);
        assert_eq!(entrance.report(), Connections { turned_away: 1, ..Connections::default() });
        assert!(entrance.inner().networks.is_empty());
    }

    #[test]
    fn who_has_as_many_as_anybody_displaces_nobody_else() {
        let (entrance, now) = (entrance(10_000, 10_000, 100_000), Instant::now());
        let enter = |from: IpAddr| entrance.enter(from, now);
        // The largest address, which a flooder does not have.
        let stranger = enter(address("255.255.255.255")).unwrap();
        let of_flooder =
            |number: usize| IpAddr::from(((0x2001_0db8_u128 << 96) | (number as u128) << 64).to_be_bytes());
        let flood: Vec<_> = (1..MOST_PENDING).map(|number| enter(of_flooder(number)).unwrap()).collect();
        assert!(enter(of_flooder(MOST_PENDING)).is_none(), "all have one, and so has the newcomer");
        let again = enter(of_flooder(7)).unwrap();
        assert!(!flood[6].settle(), "its own former one gave way");
        assert!(again.settle() && stranger.settle());
    }
}
