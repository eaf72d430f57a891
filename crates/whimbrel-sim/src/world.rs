//! Nodes on a virtual clock, joined by emulated links: the whole transport without a socket.
//!
//! A world has one server and any number of clients. Each client has a link to the server and one back. The seed
//! decides everything that happens, so a run can be repeated to the byte.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use whimbrel_proto::crypto::{Identity, PublicKey, Secret};
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::{
    ConnectConfig, Connection, Datagram, Ecn, Endpoint, Event, Handle, ListenConfig, LocalAddress,
    ResumeError, Routed, Suspended, Ticket, Time, TransportConfig,
};

use whimbrel_link::{Link, LinkConfig};

/// A host: an endpoint and its connections.
pub struct Node {
    endpoint: Endpoint,
    identity: Identity,
    listen: Option<ListenConfig>,
    /// The salt of its reset tokens. The node stores it, so that its peers notice a restart at once.
    salt: Option<[u8; 32]>,
    /// Its address on each network, by the network's number; `None` where it has none.
    addresses: Vec<Option<SocketAddr>>,
    /// The node's own idea of its address on the first network, if a NAT has given it another.
    behind_nat: Option<IpAddr>,
    connections: BTreeMap<Handle, Peer>,
    /// Connections that were accepted and not yet returned.
    accepted: Vec<Handle>,
    transport: TransportConfig,
    sleep: Sleep,
}

/// The state of a host that is busy with other things and wakes up late.
#[derive(Default)]
struct Sleep {
    /// Whether it sleeps.
    deep: bool,
    /// How late it will wake up.
    late: Duration,
    /// Packets that arrived meanwhile, and when the first of them did.
    inbox: Vec<Flight>,
    called_at: Option<Time>,
}

/// A connection and its events.
pub struct Peer {
    /// The connection.
    pub connection: Connection,
    /// Every event so far.
    pub events: Vec<(Time, Event)>,
    due: Due,
}

/// Whether a connection must be polled again, as a driver polls only connections that something happened to.
#[derive(Default)]
enum Due {
    /// The connection was accessed: it may have something to send, and another timer.
    #[default]
    Touched,
    /// The connection has nothing to send before its timer, if it has one.
    Quiet(Option<Time>),
}

impl Peer {
    fn new(connection: Connection) -> Self {
        Self { connection, events: Vec::new(), due: Due::Touched }
    }

    fn is_touched(&self) -> bool {
        matches!(self.due, Due::Touched)
    }

    fn touch(&mut self) -> &mut Self {
        self.due = Due::Touched;
        self
    }

    /// Notes that everything was sent and all events were taken.
    fn settle(&mut self) {
        self.due = Due::Quiet(self.connection.poll_timeout());
    }

    fn timer(&self) -> Option<Time> {
        match self.due {
            Due::Touched => self.connection.poll_timeout(),
            Due::Quiet(timer) => timer,
        }
    }
}

/// A packet in flight.
struct Flight {
    to: SocketAddr,
    from: SocketAddr,
    ecn: Option<Ecn>,
    bytes: Vec<u8>,
}

/// The route of one network's packets from one node to another.
#[derive(Clone, Copy)]
struct Leg {
    link: usize,
    /// How much longer than the link's own delay it takes, for a part that others do not share.
    more: Duration,
}

/// An attacker on the path, who sees each packet before the link does, and may change it.
pub type Tap = Box<dyn FnMut(Time, SocketAddr, SocketAddr, &mut Vec<u8>) -> TapVerdict>;

/// What the tap wants done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapVerdict {
    /// Forward the packet, changed or not.
    Pass,
    /// Drop the packet before it reaches the link.
    Drop,
    /// Forward the packet twice.
    Twice,
}

/// The simulated world; see the module documentation.
pub struct World {
    now: Time,
    nodes: Vec<Node>,
    /// The leg for each sender, receiver and network.
    ways: BTreeMap<(usize, usize, usize), Leg>,
    links: Vec<Link>,
    flights: BTreeMap<u64, Flight>,
    arrivals: BinaryHeap<Reverse<(Time, u64)>>,
    next_flight: u64,
    rng: ChaCha20Rng,
    /// The node and network behind each address, as a NAT presents it.
    routes: BTreeMap<SocketAddr, (usize, usize)>,
    tap: Option<Tap>,
    /// Packets that reached no node.
    pub stray: u64,
    /// The bytes of packets to addresses that nobody has.
    pub to_nobody: BTreeMap<SocketAddr, u64>,
    /// The number of steps in a row that took no time.
    standstill: u32,
    /// Timers fire only at multiples of this.
    grain: Duration,
    /// How often hosts wake up late, and how late.
    late: (f64, RangeInclusive<Duration>),
    /// A hash of all packets, events and states so far.
    digest: DefaultHasher,
}

/// This many steps without time passing mean that a timer fires again and again at once.
const STANDSTILL: u32 = 100_000;

/// The server's node number.
pub const SERVER: usize = 0;

impl World {
    /// Creates a world with a server.
    pub fn new(seed: u64, transport: TransportConfig, listen: ListenConfig) -> Self {
        let mut world = Self {
            now: Time::ZERO,
            nodes: Vec::new(),
            ways: BTreeMap::new(),
            links: Vec::new(),
            flights: BTreeMap::new(),
            arrivals: BinaryHeap::new(),
            next_flight: 0,
            rng: ChaCha20Rng::seed_from_u64(seed),
            routes: BTreeMap::new(),
            tap: None,
            stray: 0,
            to_nobody: BTreeMap::new(),
            standstill: 0,
            grain: Duration::ZERO,
            late: (0.0, Duration::ZERO..=Duration::ZERO),
            digest: DefaultHasher::new(),
        };
        world.add_node(transport, Some(listen));
        world
    }

    fn add_node(&mut self, transport: TransportConfig, listen: Option<ListenConfig>) -> usize {
        let index = self.nodes.len();
        let address = SocketAddr::from(([10, 0, (index >> 8) as u8, index as u8], 4433));
        let identity = Identity::generate(&mut self.rng);
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let mut endpoint = Endpoint::new(identity.clone(), listen.clone(), transport.clone(), 0, seed, true);
        endpoint.set_reset_salt(&seed);
        self.nodes.push(Node {
            endpoint,
            identity,
            listen,
            salt: Some(seed),
            addresses: vec![Some(address)],
            behind_nat: None,
            connections: BTreeMap::new(),
            accepted: Vec::new(),
            transport,
            sleep: Sleep::default(),
        });
        self.routes.insert(address, (index, 0));
        index
    }

    /// Adds a client, joined to the server by a link in each direction.
    pub fn add_client(&mut self, transport: TransportConfig, up: LinkConfig, down: LinkConfig) -> usize {
        let index = self.add_node(transport, None);
        self.lay(index, 0, up, down);
        index
    }

    /// Adds a client that shares the links of another client on one of its networks.
    pub fn add_client_behind(&mut self, transport: TransportConfig, other: usize, network: usize) -> usize {
        let index = self.add_node(transport, None);
        self.share(index, 0, (other, network), Duration::ZERO);
        index
    }

    /// Adds a link in each direction between a client and the server.
    fn lay(&mut self, client: usize, network: usize, up: LinkConfig, down: LinkConfig) {
        for (from, to, config) in [(client, SERVER, up), (SERVER, client, down)] {
            let way = Leg { link: self.links.len(), more: Duration::ZERO };
            self.links.push(Link::new(config, self.rng.next_u64()));
            self.ways.insert((from, to, network), way);
        }
    }

    /// Routes a client's network over the links of another.
    fn share(&mut self, client: usize, network: usize, with: (usize, usize), more: Duration) {
        let (other, over) = with;
        for [from, to] in [[0, 1], [1, 0]] {
            let (ours, theirs) = ([client, SERVER], [other, SERVER]);
            let way = Leg { more, ..self.ways[&(theirs[from], theirs[to], over)] };
            self.ways.insert((ours[from], ours[to], network), way);
        }
    }

    /// Puts an attacker on the path.
    pub fn set_tap(&mut self, tap: Tap) {
        self.tap = Some(tap);
    }

    /// Makes timers fire only at multiples of `grain`, as on a real host. Default: to the nanosecond.
    pub fn set_timer_grain(&mut self, grain: Duration) {
        self.grain = grain;
    }

    /// Makes hosts wake up late, as on a busy machine: arriving packets and timers wait for it. `share` (0 to 1) is
    /// how often, and `late` the range of delays. Call it before anything happens. Default: never.
    pub fn set_lateness(&mut self, share: f64, late: RangeInclusive<Duration>) {
        self.late = (share, late);
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// One direction of a link.
    pub fn link(&mut self, from: usize, to: usize) -> &mut Link {
        self.link_over(0, from, to)
    }

    /// One direction of a link on one of several networks.
    pub fn link_over(&mut self, network: usize, from: usize, to: usize) -> &mut Link {
        let way = self.ways.get(&(from, to, network)).expect("clients are joined to the server");
        &mut self.links[way.link]
    }

    /// Adds a network between a client and the server, with an address for both. Returns its number.
    pub fn add_network(&mut self, client: usize, up: LinkConfig, down: LinkConfig) -> usize {
        let network = self.nodes[client].addresses.len();
        self.lay(client, network, up, down);
        self.set_up(client, network);
        self.set_up(SERVER, network);
        network
    }

    /// Works like [`World::add_network`], but the new network also uses the links of the client's first network: one
    /// bottleneck for both. It is `more` longer in each direction. Returns its number.
    pub fn add_network_behind(&mut self, client: usize, more: Duration) -> usize {
        let network = self.nodes[client].addresses.len();
        self.share(client, network, (client, 0), more);
        self.set_up(client, network);
        self.set_up(SERVER, network);
        network
    }

    /// Gives a node an address on a network: a new one, or the one it had.
    pub fn set_up(&mut self, node: usize, network: usize) {
        let address = SocketAddr::from(([10, network as u8, (node >> 8) as u8, node as u8], 4433));
        let addresses = &mut self.nodes[node].addresses;
        addresses.resize(addresses.len().max(network + 1), None);
        addresses[network] = Some(address);
        self.routes.insert(address, (node, network));
    }

    /// Takes a node's address on a network away: packets to it and from it are lost.
    pub fn take_down(&mut self, node: usize, network: usize) {
        if let Some(address) = self.nodes[node].addresses[network].take() {
            self.routes.remove(&address);
        }
    }

    /// The current addresses of a node.
    pub fn addresses(&self, node: usize) -> Vec<SocketAddr> {
        self.nodes[node].addresses.iter().flatten().copied().collect()
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
        let networks = self.nodes[node].addresses.iter().enumerate();
        let addresses: Vec<LocalAddress> =
            networks.filter_map(|(network, address)| Some(like(network, (*address)?))).collect();
        let now = self.now;
        self.peer(node, handle).connection.set_local_addresses(now, &addresses);
        self.flush();
    }

    /// Works like [`World::announce`], with the cost of each network.
    pub fn announce_at_cost(&mut self, node: usize, handle: Handle, costs: &[u32]) {
        let addresses = self.addresses(node).into_iter().zip(costs);
        let addresses: Vec<LocalAddress> =
            addresses.map(|(address, cost)| LocalAddress { cost: *cost, ..address.into() }).collect();
        let now = self.now;
        self.peer(node, handle).connection.set_local_addresses(now, &addresses);
        self.flush();
    }

    /// A node's endpoint.
    pub fn endpoint(&mut self, node: usize) -> &mut Endpoint {
        &mut self.nodes[node].endpoint
    }

    /// A node's address on the first network, as the server sees it.
    pub fn address(&self, node: usize) -> SocketAddr {
        self.nodes[node].addresses[0].expect("the first network stays")
    }

    /// Makes a node's NAT give it another port: packets to the old one are lost.
    pub fn rebind(&mut self, node: usize) {
        self.rebind_over(0, node);
    }

    /// Works like [`World::rebind`], on one of several networks.
    pub fn rebind_over(&mut self, network: usize, node: usize) {
        let mut new = self.nodes[node].addresses[network].expect("the node is on that network");
        new.set_port(new.port().wrapping_add(1).max(1024));
        self.rebind_to(network, node, new);
    }

    /// Works like [`World::rebind`], but also changes to an address in another network.
    pub fn rebind_address(&mut self, node: usize) {
        let old = self.address(node);
        let ip = match old.ip() {
            IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip).wrapping_add(1 << 16)).into(),
            IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip).wrapping_add(1 << 64)).into(),
        };
        self.nodes[node].behind_nat.get_or_insert(old.ip());
        self.rebind_to(0, node, SocketAddr::new(ip, old.port().wrapping_add(1).max(1024)));
    }

    fn rebind_to(&mut self, network: usize, node: usize, new: SocketAddr) {
        if let Some(old) = self.nodes[node].addresses[network].replace(new) {
            self.routes.remove(&old);
        }
        self.routes.insert(new, (node, network));
    }

    /// Opens a connection from a client to the server.
    pub fn connect(&mut self, client: usize) -> Handle {
        let key = self.nodes[SERVER].endpoint.public_key();
        self.connect_with(client, ServerKey::Known(key))
    }

    /// Works like [`World::connect`], with the given knowledge of the server's key.
    pub fn connect_with(&mut self, client: usize, server_key: ServerKey) -> Handle {
        self.begin(client, server_key, None, None)
    }

    /// Works like [`World::connect`], with a pre-shared key.
    pub fn connect_with_psk(&mut self, client: usize, psk: [u8; 32]) -> Handle {
        let key = self.nodes[SERVER].endpoint.public_key();
        self.begin(client, ServerKey::Known(key), Some(psk.into()), None)
    }

    /// Works like [`World::connect`], with a ticket from an earlier connection.
    pub fn connect_by(&mut self, client: usize, ticket: Ticket) -> Handle {
        let key = self.nodes[SERVER].endpoint.public_key();
        self.begin(client, ServerKey::Known(key), None, Some(ticket))
    }

    fn begin(
        &mut self,
        client: usize,
        server_key: ServerKey,
        psk: Option<Secret>,
        ticket: Option<Ticket>,
    ) -> Handle {
        let server = self.address(SERVER);
        let node = &mut self.nodes[client];
        let config = ConnectConfig {
            server_key,
            protocol: Default::default(),
            psk,
            ticket,
            alternatives: Vec::new(),
            transport: node.transport.clone(),
        };
        let (handle, connection) = node.endpoint.connect(self.now, server, config);
        node.connections.insert(handle, Peer::new(connection));
        handle
    }

    /// Kills the server's process and starts it again with the same key and no other state.
    pub fn restart_server(&mut self) {
        self.restart(SERVER);
    }

    /// Restarts the server with other listen settings.
    pub fn listen_as(&mut self, listen: ListenConfig) {
        self.nodes[SERVER].listen = Some(listen);
        self.restart(SERVER);
    }

    /// Restarts a node.
    pub fn restart(&mut self, node: usize) {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let node = &mut self.nodes[node];
        let (identity, listen) = (node.identity.clone(), node.listen.clone());
        node.endpoint = Endpoint::new(identity, listen, node.transport.clone(), 0, seed, true);
        if let Some(salt) = &node.salt {
            node.endpoint.set_reset_salt(salt);
        }
        node.connections.clear();
        node.accepted.clear();
    }

    /// Makes a node forget the salt of its reset tokens: after a restart its tokens differ.
    pub fn forget_salt(&mut self, node: usize) {
        self.nodes[node].salt = None;
    }

    /// Restricts a node's listener to these keys, or opens it to all but denied ones. Connections of other keys end.
    pub fn set_allow(&mut self, node: usize, allow: Option<BTreeSet<PublicKey>>) {
        let now = self.now;
        let Node { endpoint, connections, .. } = &mut self.nodes[node];
        endpoint.set_allow(now, allow);
        for peer in connections.values_mut() {
            peer.touch().connection.recheck(now, &mut |key, _| endpoint.lists(key));
        }
        self.flush();
    }

    /// Revokes a key at a node, which ends its connections.
    pub fn revoke(&mut self, node: usize, key: &PublicKey) {
        let now = self.now;
        let Node { endpoint, connections, .. } = &mut self.nodes[node];
        endpoint.revoke(now, key);
        for peer in connections.values_mut() {
            peer.touch().connection.revoke(now, key);
        }
        self.flush();
    }

    /// Adds another host of a client's owner, with the same identity and its own endpoint.
    pub fn add_host_of(&mut self, client: usize, up: LinkConfig, down: LinkConfig) -> usize {
        let transport = self.nodes[client].transport.clone();
        let index = self.add_client(transport.clone(), up, down);
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let identity = self.nodes[client].identity.clone();
        self.nodes[index].endpoint = Endpoint::new(identity.clone(), None, transport, 0, seed, true);
        self.nodes[index].salt = None;
        self.nodes[index].identity = identity;
        index
    }

    /// Adds another server with the server's identity, unknown to clients. It receives only what
    /// [`World::misdeliver`] passes to it.
    pub fn add_sibling(&mut self) -> usize {
        let (transport, listen) = (self.nodes[SERVER].transport.clone(), self.nodes[SERVER].listen.clone());
        let index = self.add_node(transport, listen);
        self.nodes[index].identity = self.nodes[SERVER].identity.clone();
        self.restart(index);
        index
    }

    /// Delivers a packet for one server of a fleet to another. An answer is sent from the address that the packet was
    /// for.
    pub fn misdeliver(&mut self, node: usize, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let datagram = Datagram { from, to: Some(to.ip()), ecn: None, bytes: bytes.into() };
        let mut reply = Vec::new();
        let now = self.now;
        if matches!(self.nodes[node].endpoint.handle_datagram(now, datagram, &mut reply), Routed::Reply) {
            self.inject(to, from, &reply);
        }
    }

    /// The wall-clock time, which all hosts share.
    pub fn wall(&self) -> Duration {
        self.now.since(Time::ZERO)
    }

    /// Takes the state of a suspended connection.
    pub fn take_suspended(&mut self, node: usize, handle: Handle) -> Option<Suspended> {
        let (now, wall) = (self.now, self.wall());
        let own = self.nodes[node].endpoint.public_key();
        let state = self.peer(node, handle).connection.take_suspended(now, own, wall)?;
        self.digest.write(&state.to_bytes());
        Some(state)
    }

    /// A hash that is equal for two worlds with the same packets, events and written states, each at the same time.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// Resumes a suspended session on a node, with the peer at its former address or another.
    pub fn resume(
        &mut self,
        node: usize,
        suspended: &Suspended,
        remote: Option<SocketAddr>,
    ) -> Result<Handle, ResumeError> {
        let (now, wall) = (self.now, self.wall());
        let (handle, connection) = self.nodes[node].endpoint.resume(now, wall, suspended, remote)?;
        self.nodes[node].connections.insert(handle, Peer::new(connection));
        Ok(handle)
    }

    /// Takes up a suspended session on a node, where it waits for its peer.
    pub fn wait_for_peer(&mut self, node: usize, suspended: &Suspended) -> Result<Handle, ResumeError> {
        let (now, wall) = (self.now, self.wall());
        let (handle, connection) = self.nodes[node].endpoint.wait_for_peer(now, wall, suspended)?;
        self.nodes[node].connections.insert(handle, Peer::new(connection));
        Ok(handle)
    }

    /// Makes a node vanish: packets to it are lost and it sends none.
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].connections.clear();
        for network in 0..self.nodes[node].addresses.len() {
            self.take_down(node, network);
        }
    }

    /// The next connection that the server accepted.
    pub fn accept(&mut self) -> Option<Handle> {
        let accepted = &mut self.nodes[SERVER].accepted;
        (!accepted.is_empty()).then(|| accepted.remove(0))
    }

    /// A connection. Panics if it is gone.
    pub fn peer(&mut self, node: usize, handle: Handle) -> &mut Peer {
        self.try_peer(node, handle).expect("the connection is there")
    }

    /// A connection, if it still exists.
    pub fn try_peer(&mut self, node: usize, handle: Handle) -> Option<&mut Peer> {
        self.nodes[node].connections.get_mut(&handle).map(Peer::touch)
    }

    /// All events of a connection; none if it is gone.
    pub fn events(&self, node: usize, handle: Handle) -> &[(Time, Event)] {
        self.nodes[node].connections.get(&handle).map_or(&[], |peer| &peer.events)
    }

    /// The handles of a node's connections.
    pub fn handles(&self, node: usize) -> Vec<Handle> {
        self.nodes[node].connections.keys().copied().collect()
    }

    /// Runs until `done` holds or `limit` is over. Returns whether it held.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            self.flush();
            if done(self) {
                return true;
            }
            if !self.step(end) {
                return done(self);
            }
        }
    }

    /// Advances to the next event, at most to `end`. Returns false if nothing happens until then; the time is `end`
    /// then.
    pub fn step(&mut self, end: Time) -> bool {
        let next = self.next_event().filter(|next| *next <= end);
        let was = self.now;
        self.now = next.unwrap_or(end).max(was);
        self.standstill = if self.now == was { self.standstill + 1 } else { 0 };
        assert!(self.standstill < STANDSTILL, "a timer at {was:?} is due for ever: the driver would spin");
        if next.is_some() {
            self.deliver();
            self.wake_up();
            self.fire_timers();
        } else {
            self.flush();
        }
        next.is_some()
    }

    /// Runs for this long.
    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    fn next_event(&self) -> Option<Time> {
        let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
        let nodes = self.nodes.iter().filter_map(|node| self.wakes_at(node));
        arrival.into_iter().chain(nodes).min()
    }

    /// When a node that is awake has something to do.
    fn wakes_at(&self, node: &Node) -> Option<Time> {
        let timers = node.connections.values().filter_map(Peer::timer);
        let timer = timers.min().map(|at| self.wake_at(at));
        timer.into_iter().chain(node.sleep.called_at).min().map(|at| at + node.sleep.late)
    }

    /// Wakes the nodes that are due, which then find what arrived. If hosts are late, the others keep sleeping.
    fn wake_up(&mut self) {
        let (share, late) = self.late.clone();
        if share == 0.0 {
            return;
        }
        for index in 0..self.nodes.len() {
            let wakes_at = self.wakes_at(&self.nodes[index]);
            let sleep = &mut self.nodes[index].sleep;
            sleep.deep = wakes_at.is_some_and(|at| at > self.now);
            if wakes_at.is_some() && !sleep.deep {
                let is_late = self.rng.random_bool(share);
                sleep.late = if is_late { self.rng.random_range(late.clone()) } else { Duration::ZERO };
                sleep.called_at = None;
                for flight in std::mem::take(&mut sleep.inbox) {
                    self.receive(flight);
                }
            }
        }
    }

    fn wake_at(&self, at: Time) -> Time {
        let grain = self.grain.as_nanos() as u64;
        if grain == 0 || at <= self.now {
            return at;
        }
        Time::from_nanos(at.as_nanos().div_ceil(grain).saturating_mul(grain))
    }

    fn fire_timers(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| !node.sleep.deep) {
            for peer in node.connections.values_mut() {
                if peer.timer().is_some_and(|at| at <= self.now) {
                    peer.touch().connection.handle_timeout(self.now);
                }
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(Reverse((at, id))) = self.arrivals.peek().copied()
            && at <= self.now
        {
            self.arrivals.pop();
            let Some(flight) = self.flights.remove(&id) else { continue };
            match self.routes.get(&flight.to) {
                Some((index, _)) if self.late.0 > 0.0 => {
                    let sleep = &mut self.nodes[*index].sleep;
                    sleep.called_at.get_or_insert(at);
                    sleep.inbox.push(flight);
                }
                _ => self.receive(flight),
            }
        }
    }

    /// Delivers a datagram to the owner of an address, as if it came from `from`.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.receive(Flight { to, from, ecn: None, bytes: bytes.to_vec() });
        self.flush();
    }

    fn receive(&mut self, flight: Flight) {
        let Some((index, network)) = self.routes.get(&flight.to).copied() else {
            self.stray += 1;
            return;
        };
        let now = self.now;
        let node = &mut self.nodes[index];
        let inside = node.behind_nat.filter(|_| network == 0).unwrap_or(flight.to.ip());
        let datagram = Datagram {
            from: flight.from,
            to: Some(inside),
            ecn: flight.ecn,
            bytes: BytesMut::from(Bytes::from(flight.bytes)),
        };
        let mut reply = Vec::new();
        match node.endpoint.handle_datagram(now, datagram, &mut reply) {
            Routed::Nothing | Routed::Agreeing(_) => {}
            Routed::Reply => self.send(index, Some(inside), flight.from, None, reply),
            Routed::Connection(handle, datagram) => {
                if let Some(peer) = node.connections.get_mut(&handle) {
                    peer.touch().connection.handle_datagram(now, datagram);
                }
            }
            Routed::RepeatedPing(handle, ping) => {
                if let Some(peer) = node.connections.get_mut(&handle) {
                    peer.touch().connection.handle_repeated_ping(&ping);
                }
            }
            Routed::SecondPing(handle, ping) => {
                if let Some(peer) = node.connections.get_mut(&handle) {
                    peer.touch().connection.handle_second_ping(&ping);
                }
            }
            Routed::Resuming(handle, resuming) => {
                if let Some(peer) = node.connections.get_mut(&handle) {
                    peer.touch().connection.handle_resume(now, *resuming);
                }
            }
            Routed::Reset(handle, token) => {
                if let Some(peer) = node.connections.get_mut(&handle) {
                    peer.touch().connection.handle_reset(now, &token);
                }
            }
            Routed::Accepted(handle, connection) => {
                node.connections.insert(handle, Peer::new(*connection));
                node.accepted.push(handle);
            }
        }
    }

    /// Sends everything that any node has to send now.
    pub fn flush(&mut self) {
        let mut buffer = Vec::new();
        for index in 0..self.nodes.len() {
            if self.nodes[index].sleep.deep {
                continue;
            }
            for handle in self.touched(index) {
                loop {
                    self.transmit(index, handle, &mut buffer);
                    if !self.collect(index, handle) {
                        break;
                    }
                }
            }
        }
    }

    fn touched(&self, index: usize) -> Vec<Handle> {
        let touched = self.nodes[index].connections.iter().filter(|(_, peer)| peer.is_touched());
        touched.map(|(handle, _)| *handle).collect()
    }

    fn transmit(&mut self, index: usize, handle: Handle, buffer: &mut Vec<u8>) {
        loop {
            buffer.clear();
            let now = self.now;
            let Some(peer) = self.nodes[index].connections.get_mut(&handle) else { break };
            let Some(transmit) = peer.connection.poll_transmit(now, buffer, 10) else { break };
            let segment = transmit.segment_size.unwrap_or(transmit.size).max(1);
            assert_eq!(buffer.len(), transmit.size, "a transmit is what was appended");
            let is_of_it = |packet: &[u8]| packet.get(1..9) == buffer.get(1..9);
            assert!(buffer.chunks(segment).all(is_of_it), "several are cut where one ends: each has the id");
            for packet in buffer.chunks(segment) {
                self.send(index, transmit.source, transmit.destination, transmit.ecn, packet.to_vec());
            }
        }
    }

    /// Takes a connection's events. Returns whether an answer was given, so that there may be more to send.
    fn collect(&mut self, index: usize, handle: Handle) -> bool {
        let now = self.now;
        let node = &mut self.nodes[index];
        let Some(peer) = node.connections.get_mut(&handle) else { return false };
        let mut answered = false;
        while let Some(event) = peer.connection.poll_event() {
            (index, now, format!("{event:?}")).hash(&mut self.digest);
            peer.events.push((now, event));
        }
        while let Some(event) = peer.connection.poll_endpoint_event() {
            if let Some(answer) = node.endpoint.handle_event(now, handle, event) {
                peer.connection.handle_answer(answer);
                answered = true;
            }
        }
        if !answered {
            peer.settle();
        }
        answered
    }

    fn send(
        &mut self,
        from: usize,
        source: Option<IpAddr>,
        to: SocketAddr,
        ecn: Option<Ecn>,
        mut bytes: Vec<u8>,
    ) {
        (from, self.now, to, &bytes).hash(&mut self.digest);
        let Some((target, network)) = self.routes.get(&to).copied() else {
            self.stray += 1;
            *self.to_nobody.entry(to).or_default() += bytes.len() as u64;
            return;
        };
        let Some(from_address) = self.nodes[from].addresses.get(network).copied().flatten() else {
            self.stray += 1;
            return;
        };
        let inside = self.nodes[from].behind_nat.filter(|_| network == 0).unwrap_or(from_address.ip());
        if source.is_some_and(|source| source != inside) {
            // No network has both addresses.
            self.stray += 1;
            return;
        }
        let mut copies = 1;
        if let Some(tap) = &mut self.tap {
            match tap(self.now, from_address, to, &mut bytes) {
                TapVerdict::Pass => {}
                TapVerdict::Drop => return,
                TapVerdict::Twice => copies = 2,
            }
        }
        let Some(way) = self.ways.get(&(from, target, network)) else {
            self.stray += 1;
            return;
        };
        for copy in 1..=copies {
            let verdict = self.links[way.link].push(self.now, bytes.len(), ecn.is_some());
            let mut deliveries = verdict.deliveries().peekable();
            while let Some(delivery) = deliveries.next() {
                let is_last = copy == copies && deliveries.peek().is_none();
                let mut bytes = if is_last { std::mem::take(&mut bytes) } else { bytes.clone() };
                if let Some(flip) = delivery.flip {
                    flip.apply(&mut bytes);
                }
                let ecn = if delivery.ce { Some(Ecn::Ce) } else { ecn };
                self.flights.insert(self.next_flight, Flight { to, from: from_address, ecn, bytes });
                self.arrivals.push(Reverse((delivery.at + way.more, self.next_flight)));
                self.next_flight += 1;
            }
        }
    }
}
