//! A process that shares the server's identity is asked for the reset token of the server's connection.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use whimbrel_proto::crypto::{Identity, Secret};
use whimbrel_proto::{
    CloseReason, Datagram, Endpoint, Event, ListenConfig, Routed, Service, Time, TransportConfig,
};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict, World};

const SEED: u64 = 7;

fn config(reattach: bool) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.reattach = config.reattach.filter(|_| reattach);
    config
}

/// A connection, and the server's ids that were seen on the path.
fn watched(config: TransportConfig) -> (Pair, Rc<RefCell<Vec<[u8; 8]>>>) {
    let mut pair = Pair::connected(SEED, config, "delay=10ms");
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (ids, server) = (Rc::clone(&seen), pair.world.address(SERVER));
    pair.world.set_tap(Box::new(move |_, _, to, bytes| {
        if to == server && bytes[0] & 0x80 == 0 {
            ids.borrow_mut().push(bytes[1..9].try_into().expect("eight bytes"));
        }
        TapVerdict::Pass
    }));
    pair.send(End::Client, Service::ReliableSequenced, "hello");
    pair.run(Duration::from_millis(200));
    (pair, seen)
}

/// Another process with the server's identity, with any settings and on any host.
fn sibling(pair: &mut Pair, listen: Option<ListenConfig>) -> Endpoint {
    // The server's identity is the first that a world generates.
    let identity = Identity::generate(&mut ChaCha20Rng::seed_from_u64(SEED));
    assert_eq!(identity.public(), pair.world.endpoint(SERVER).public_key());
    Endpoint::new(identity, listen, TransportConfig::default(), 0, [9; 32], true)
}

/// Its answer to a packet for this id.
fn ask(sibling: &mut Endpoint, id: [u8; 8]) -> Vec<u8> {
    let mut packet = [0x40; 60];
    // An early packet would not be answered.
    packet[0] = 0;
    packet[1..9].copy_from_slice(&id);
    let datagram = Datagram { from: stranger(), to: None, ecn: None, bytes: BytesMut::from(&packet[..]) };
    let mut reply = Vec::new();
    assert!(matches!(sibling.handle_datagram(Time::ZERO, datagram, &mut reply), Routed::Reply));
    reply
}

fn stranger() -> SocketAddr {
    "203.0.113.9:1".parse().expect("an address")
}

#[test]
fn a_sibling_of_the_server_has_no_token_that_counts() {
    for reattach in [true, false] {
        for listen in [None, Some(ListenConfig::default())] {
            let (mut pair, ids) = watched(config(reattach));
            let mut sibling = sibling(&mut pair, listen);
            let (client, before) = (pair.world.address(pair.client), pair.events(End::Client));
            let seen = ids.borrow().clone();
            assert!(!seen.is_empty());
            for id in seen {
                let reply = ask(&mut sibling, id);
                pair.world.inject(stranger(), client, &reply);
            }
            pair.run(Duration::from_millis(1));
            assert_eq!(pair.events(End::Client), before, "reattach {reattach}");
            pair.send(End::Client, Service::ReliableSequenced, "still there");
            pair.run(Duration::from_millis(100));
            assert_eq!(pair.recv(End::Server).len(), 2);
        }
    }
}

/// The purpose of the salt: if two processes have the same one, the attack works.
#[test]
fn a_sibling_with_the_same_salt_is_an_oracle() {
    let mut world = World::new(SEED, config(false), ListenConfig::default());
    world.endpoint(SERVER).set_reset_salt(&Secret::new([3; 32]));
    let link = || "delay=10ms".parse().expect("it is well written");
    let mut pair = Pair::join(world, config(false), link(), link());
    assert!(pair.settle(Duration::from_secs(1)));
    let mut sibling = sibling(&mut pair, None);
    sibling.set_reset_salt(&Secret::new([3; 32]));
    let id = pair.connection(End::Server).local_id().to_bytes();
    let (client, reply) = (pair.world.address(pair.client), ask(&mut sibling, id));
    pair.world.inject(stranger(), client, &reply);
    assert_eq!(pair.closed(End::Client), Some(CloseReason::PeerRestarted));
}

#[test]
fn a_server_that_does_not_store_its_salt_is_found_restarted_when_it_is_dialled() {
    let mut config = config(true);
    config.idle_timeout = Duration::from_secs(10);
    let (mut pair, _) = watched(config);
    pair.world.forget_salt(SERVER);
    pair.world.restart_server();
    pair.send(End::Client, Service::ReliableSequenced, "is anybody there");
    pair.run(Duration::from_secs(5));
    assert!(!pair.events(End::Client).contains(&Event::Detached), "nobody can tell it so");
    pair.run(Duration::from_secs(10));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::PeerRestarted));
}
