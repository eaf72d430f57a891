//! An attacker without keys holds a packet back and forwards it from its own address, to attract the session.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use whimbrel_proto::{Event, Service, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict};

const MS: Duration = Duration::from_millis(1);
const LINK: &str = "delay=10ms";

/// A host of the attacker that packets can reach.
fn attacker(pair: &mut Pair) -> SocketAddr {
    let link = || LINK.parse().expect("it is well written");
    let node = pair.world.add_client(TransportConfig::default(), link(), link());
    pair.world.address(node)
}

fn moved(pair: &mut Pair, end: End) -> bool {
    pair.events(end).iter().any(|event| matches!(event, Event::PeerAddressChanged { .. }))
}

/// The server challenges the attacker's address. The attacker forwards the challenge to the client, which answers to
/// the server. The server took the answer for one from the attacker's address, and moved there.
#[test]
fn a_challenge_that_is_passed_on_moves_nothing() {
    let mut pair = Pair::connected(1, TransportConfig::default(), LINK);
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    let attacker = attacker(&mut pair);
    pair.run(500 * MS);
    let hold = Rc::new(Cell::new(true));
    let (held, asked) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
    let (holds, holding, asking) = (Rc::clone(&hold), Rc::clone(&held), Rc::clone(&asked));
    pair.world.set_tap(Box::new(move |_, from, to, bytes| {
        if from == client && holds.get() {
            holding.borrow_mut().push(bytes.clone());
            return TapVerdict::Drop;
        }
        if to == attacker {
            asking.borrow_mut().push(bytes.clone());
            return TapVerdict::Drop;
        }
        TapVerdict::Pass
    }));
    pair.send(End::Client, Service::ReliableSequenced, "held back");
    pair.run(5 * MS);
    hold.set(false);
    let packet = held.borrow()[0].clone();
    pair.world.inject(attacker, server, &packet);
    let begin = pair.now();
    while pair.now().since(begin) < 2000 * MS {
        pair.run(MS);
        for challenge in asked.take() {
            pair.world.inject(server, client, &challenge);
        }
    }
    assert!(!moved(&mut pair, End::Server), "{:?}", pair.events(End::Server));
    assert_eq!(pair.connection(End::Server).remote(), client);
    assert_eq!(pair.recv(End::Server).len(), 1, "what was held back counts as it is");
}

/// It does not matter how long the packet was held back.
#[test]
fn a_packet_that_comes_much_later_from_elsewhere_moves_nothing() {
    let mut pair = Pair::connected(2, TransportConfig::default(), LINK);
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    let attacker = attacker(&mut pair);
    let held = Rc::new(RefCell::new(Vec::new()));
    let (holding, mut nth) = (Rc::clone(&held), 0);
    let to_attacker = Rc::new(Cell::new(0));
    let counted = Rc::clone(&to_attacker);
    pair.world.set_tap(Box::new(move |_, from, to, bytes| {
        nth += 1;
        counted.set(counted.get() + if to == attacker { bytes.len() } else { 0 });
        if from == client && nth % 5 == 0 {
            holding.borrow_mut().push(bytes.clone());
            return TapVerdict::Drop;
        }
        TapVerdict::Pass
    }));
    for _ in 0..100 {
        pair.send(End::Client, Service::ReliableSequenced, vec![1; 200]);
        pair.run(20 * MS);
    }
    pair.run(10_000 * MS);
    let packets = held.take();
    assert!(packets.len() > 10, "otherwise nothing is shown");
    for packet in &packets {
        pair.world.inject(attacker, server, packet);
        pair.run(20 * MS);
    }
    assert_eq!(to_attacker.get(), 0, "newer packets had come from the client: not even a challenge");
    assert!(!moved(&mut pair, End::Server));
    assert_eq!(pair.recv(End::Server).len(), 100);
}
