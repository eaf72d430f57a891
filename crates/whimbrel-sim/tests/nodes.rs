//! Tests of a world whose nodes are not all hosts of the transport.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use whimbrel_link::LinkConfig;
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::{Ecn, Event, ListenConfig, Time, TransportConfig};
use whimbrel_sim::host::Host;
use whimbrel_sim::world::{Arrival, Departure, Node, Outbox, World};

const MS: Duration = Duration::from_millis(1);

/// A node that sends every datagram back.
struct Echo;

impl Node for Echo {
    fn handle_datagram(&mut self, _: Time, datagram: Arrival, out: &mut Outbox) {
        let Arrival { from, to, ecn, bytes } = datagram;
        out.send(Departure { source: Some(to), to: from, ecn, bytes });
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, _: Time, _: &mut Outbox) {}
}

/// A node that sends numbers to another at a steady pace, and keeps what comes back.
struct Pinger {
    to: SocketAddr,
    every: Duration,
    next: Time,
    sent: u8,
    due: bool,
    heard: Vec<(Time, Arrival)>,
}

impl Pinger {
    fn new(to: SocketAddr, every: Duration) -> Self {
        Self { to, every, next: Time::ZERO, sent: 0, due: false, heard: Vec::new() }
    }
}

impl Node for Pinger {
    fn handle_datagram(&mut self, now: Time, datagram: Arrival, out: &mut Outbox) {
        out.report(format!("{:?} is back", datagram.bytes));
        self.heard.push((now, datagram));
    }

    fn poll_timeout(&self) -> Option<Time> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.next <= now {
            self.next = now + self.every;
            self.due = true;
        }
    }

    fn poll_transmit(&mut self, _: Time, out: &mut Outbox) {
        if std::mem::take(&mut self.due) {
            out.send(Departure { source: None, to: self.to, ecn: Some(Ecn::Ect0), bytes: vec![self.sent] });
            self.sent += 1;
        }
    }
}

/// Everybody who lives in these worlds.
enum Resident {
    Host(Box<Host>),
    Echo(Echo),
    Pinger(Pinger),
}

impl Resident {
    fn node(&self) -> &dyn Node {
        match self {
            Self::Host(host) => &**host,
            Self::Echo(echo) => echo,
            Self::Pinger(pinger) => pinger,
        }
    }

    fn node_mut(&mut self) -> &mut dyn Node {
        match self {
            Self::Host(host) => &mut **host,
            Self::Echo(echo) => echo,
            Self::Pinger(pinger) => pinger,
        }
    }
}

impl Node for Resident {
    fn handle_datagram(&mut self, now: Time, datagram: Arrival, out: &mut Outbox) {
        self.node_mut().handle_datagram(now, datagram, out);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.node().poll_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        self.node_mut().handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Outbox) {
        self.node_mut().poll_transmit(now, out);
    }
}

fn host(world: &mut World<Resident>, node: usize) -> &mut Host {
    match world.node_mut(node) {
        Resident::Host(host) => host,
        _ => panic!("node {node} is another resident"),
    }
}

fn heard(world: &World<Resident>, node: usize) -> &[(Time, Arrival)] {
    match world.node(node) {
        Resident::Pinger(pinger) => &pinger.heard,
        _ => panic!("node {node} is another resident"),
    }
}

/// Adds an echo and a node that sends to it every 10 ms.
fn add_echo(world: &mut World<Resident>, link: &str) -> [usize; 2] {
    let link: LinkConfig = link.parse().unwrap();
    let echo = world.add_node(Resident::Echo(Echo));
    let pinger = Pinger::new(world.address(echo), 10 * MS);
    let pinger = world.add_node(Resident::Pinger(pinger));
    world.join(0, [pinger, echo], link.clone(), link);
    [pinger, echo]
}

fn add_host(world: &mut World<Resident>, listen: Option<ListenConfig>) -> usize {
    let host = Host::new(world.rng(), TransportConfig::default(), listen);
    world.add_node(Resident::Host(host.into()))
}

#[test]
fn an_echo_answers_after_the_delay_of_the_link() {
    let mut world = World::empty(1);
    let [pinger, echo] = add_echo(&mut world, "delay=7ms");
    let address = world.address(echo);
    world.run(25 * MS);
    let to = world.address(pinger).ip();
    let answer = |at: u32, number| {
        (Time::ZERO + at * MS, Arrival { from: address, to, ecn: Some(Ecn::Ect0), bytes: vec![number] })
    };
    assert_eq!(heard(&world, pinger), [answer(14, 0), answer(24, 1)]);
    assert_eq!(world.link(pinger, echo).stats().delivered, 3);
    world.take_down(echo, 0);
    world.run(100 * MS);
    assert_eq!(heard(&world, pinger).len(), 2, "what was on its way to the echo found nobody");
    assert!(world.to_nobody().contains_key(&address) && world.stray() > 0);
}

/// A server and a client with a bad link between them, beside an echo. Returns the world's digest.
fn mixed(seed: u64) -> u64 {
    let mut world = World::empty(seed);
    let [pinger, echo] = add_echo(&mut world, "delay=7ms,loss=10%");
    let server = add_host(&mut world, Some(ListenConfig::default()));
    let client = add_host(&mut world, None);
    let link: LinkConfig = "delay=20ms,loss=10%".parse().unwrap();
    for to in [server, echo] {
        world.join(0, [client, to], link.clone(), link.clone());
    }
    let key = ServerKey::Known(host(&mut world, server).endpoint().public_key());
    let [to_server, to_echo] = [server, echo].map(|to| {
        let (now, address) = (world.now(), world.address(to));
        let client = host(&mut world, client);
        let config = client.connect_config(key);
        client.connect(now, address, config)
    });
    world.run(Duration::from_secs(2));
    let mut connected =
        |handle| host(&mut world, client).events(handle).iter().any(|(_, event)| *event == Event::Connected);
    assert!(connected(to_server), "seed {seed}");
    assert!(!connected(to_echo), "seed {seed}: an echo is no server");
    assert!(host(&mut world, server).accept().is_some());
    let back = heard(&world, pinger).len();
    assert!((120..200).contains(&back), "seed {seed}: {back} of 200 came back");
    world.digest()
}

#[test]
fn hosts_connect_beside_nodes_that_know_nothing_of_the_transport() {
    let digests = [1, 2, 3].map(mixed);
    assert_eq!(digests, [1, 2, 3].map(mixed), "a run can be repeated");
    assert!(digests[0] != digests[1] && digests[1] != digests[2]);
}
