//! A thief has a copy of a ticket without its key. It may cost the owner a round trip, and nothing else. An attacker
//! on the path who saw one PING with the ticket can do the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Datagram, Event, Handle, ListenConfig, Service, StreamId, Ticket, TransportConfig};
use whimbrel_sim::world::{SERVER, TapVerdict, World};

const MS: Duration = Duration::from_millis(1);
const PING: u8 = 0x84;
const SYN_ACK: u8 = 0x83;
/// Where the Noise message begins in a PING with a ticket: after head and ids, an empty cookie, the ticket's length
/// and the ticket.
const NOISE: usize = 1 + 8 + 8 + 1 + 2 + 80;

type Kept = Rc<RefCell<Vec<Vec<u8>>>>;

/// Keeps the PINGs of a node. They are forwarded only if `pass` is set.
fn keep_pings(world: &mut World, of: usize, pass: bool) -> Kept {
    let kept = Kept::default();
    let (keep, own) = (Rc::clone(&kept), world.address(of));
    world.set_tap(Box::new(move |_, from, _, bytes| {
        if from != own || bytes[0] != PING {
            return TapVerdict::Pass;
        }
        keep.borrow_mut().push(bytes.clone());
        if pass { TapVerdict::Pass } else { TapVerdict::Drop }
    }));
    kept
}

struct Scene {
    world: World,
    owner: usize,
    ticket: Ticket,
    thief: SocketAddr,
    /// A PING with the ticket under another key.
    ping: Vec<u8>,
    forged: u64,
}

impl Scene {
    fn new(seed: u64) -> Self {
        let listen = ListenConfig::default().early_from_tickets(true);
        let mut world = World::new(seed, TransportConfig::default(), listen);
        let link = || "delay=10ms".parse().unwrap();
        let [owner, thief] = [(); 2].map(|()| world.add_client(TransportConfig::default(), link(), link()));
        let first = world.connect(owner);
        world.run(200 * MS);
        let events = world.events(owner, first);
        let ticket =
            |event: &Event| if let Event::Ticket(ticket) = event { Some(ticket.clone()) } else { None };
        let ticket = events.iter().find_map(|(_, event)| ticket(event)).unwrap();
        close(&mut world, owner, first);
        let kept = keep_pings(&mut world, thief, false);
        let theirs = world.connect_by(thief, ticket.clone());
        world.run(2 * MS);
        close(&mut world, thief, theirs);
        let (thief, ping) = (world.address(thief), kept.borrow()[0].clone());
        Self { world, owner, ticket, thief, ping, forged: 0 }
    }

    /// A PING with the ticket that differs from all others.
    fn forge(&mut self) -> Vec<u8> {
        let mut forged = self.ping.clone();
        self.forged += 1;
        forged[NOISE..NOISE + 8].copy_from_slice(&self.forged.to_be_bytes());
        forged
    }

    /// The longest answer of the server to `each` forged PINGs a millisecond.
    fn flood(&mut self, each: u64, time: u64) -> usize {
        let mut longest = 0;
        for _ in 0..time {
            for _ in 0..each {
                let forged = self.forge();
                let (now, mut reply) = (self.world.now(), Vec::new());
                let datagram =
                    Datagram { from: self.thief, to: None, ecn: None, bytes: BytesMut::from(&forged[..]) };
                self.world.endpoint(SERVER).handle_datagram(now, datagram, &mut reply);
                assert!(reply.len() <= forged.len() && (reply.is_empty() || reply[0] == SYN_ACK));
                longest = longest.max(reply.len());
            }
            self.world.run(MS);
        }
        longest
    }

    /// The owner returns and sends a message.
    fn come_back(&mut self) -> Handle {
        let back = self.world.connect_by(self.owner, self.ticket.clone());
        let now = self.world.now();
        let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, Bytes::from_static(b"pay 10"));
        self.world.peer(self.owner, back).connection.session().send(now, message).unwrap();
        back
    }

    /// How often that message was delivered.
    fn delivered(&mut self) -> usize {
        let now = self.world.now();
        let mut messages = 0;
        for handle in self.world.handles(SERVER) {
            let Some(peer) = self.world.try_peer(SERVER, handle) else { continue };
            messages += std::iter::from_fn(|| peer.connection.session().recv(now)).count();
        }
        messages
    }

    fn is_connected(&self, back: Handle) -> bool {
        self.world.events(self.owner, back).iter().any(|(_, event)| *event == Event::Connected)
    }
}

fn close(world: &mut World, node: usize, handle: Handle) {
    let now = world.now();
    world.peer(node, handle).connection.abort(now, 0, "");
    world.run(2000 * MS);
}

#[test]
fn a_thief_of_a_ticket_cannot_keep_its_owner_out() {
    for (seed, each) in [(1, 1), (2, 4), (3, 10)] {
        let mut scene = Scene::new(seed);
        let before = scene.world.endpoint(SERVER).stats();
        assert!(scene.flood(each, 1_100 + 97 * seed) > 0, "the ticket is declined");
        let back = scene.come_back();
        scene.flood(each, 150);
        assert!(scene.is_connected(back), "{each}: {:?}", scene.world.events(scene.owner, back));
        assert_eq!(scene.delivered(), 1);
        let after = scene.world.endpoint(SERVER).stats();
        assert!(after.agreements - before.agreements <= 5, "the thief's cost no more, {after:?}");
    }
}

/// The thief tries just often enough to use up the tries of a second, and the owner finds them spent.
#[test]
fn an_owner_who_finds_the_tries_spent_goes_on_at_once() {
    let mut scene = Scene::new(4);
    // Wait for the beginning of a second.
    let ahead = 1_000_000_000 - scene.world.now().since(whimbrel_proto::Time::ZERO).subsec_nanos();
    scene.world.run(Duration::from_nanos(ahead.into()));
    assert_eq!(scene.flood(1, 4), 0, "four are opened, or not");
    let back = scene.come_back();
    scene.world.run(100 * MS);
    assert!(scene.is_connected(back), "{:?}", scene.world.events(scene.owner, back));
    assert_eq!(scene.delivered(), 1);
}

/// The owner's PING is held back while its ticket is spent. It arrives when the server still remembers the session,
/// or no longer does.
#[test]
fn a_ticket_that_was_given_up_delivers_nothing_later() {
    for wait in [1, 40_000] {
        let mut scene = Scene::new(5);
        let kept = keep_pings(&mut scene.world, scene.owner, false);
        let back = scene.come_back();
        scene.world.run(5 * MS);
        let first = kept.borrow()[0].clone();
        scene.flood(8, 1);
        keep_pings(&mut scene.world, scene.owner, true);
        scene.world.run(1_000 * MS);
        assert!(scene.is_connected(back));
        assert_eq!(scene.delivered(), 1);
        close(&mut scene.world, scene.owner, back);
        scene.world.run(wait * MS);
        let (from, server) = (scene.world.address(scene.owner), scene.world.address(SERVER));
        let accepted = scene.world.endpoint(SERVER).stats().accepted;
        scene.world.inject(from, server, &first);
        scene.world.run(1_000 * MS);
        assert_eq!(scene.world.endpoint(SERVER).stats().accepted, accepted);
        assert_eq!(scene.delivered(), 0, "nothing more");
    }
}
