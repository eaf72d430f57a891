//! Connection setup over bad links and among strangers.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use whimbrel_link::LinkConfig;
use whimbrel_proto::crypto::Identity;
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::{CloseReason, Event, ListenConfig, Service, Time};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, World};

use super::{MS, SECOND, config, numbered, trace, transfer};

#[test]
fn a_handshake_gets_through_30_percent_loss() {
    for seed in 0..50 {
        let mut pair = Pair::new(seed, config(), "delay=15ms,loss=30%,rate=10mbit");
        pair.send(End::Client, Service::ReliableSequenced, "early");
        assert!(pair.settle(10 * SECOND), "seed {seed}: {:?}", pair.closed(End::Client));
        transfer(&mut pair, End::Server, 20, 500, 20 * SECOND);
    }
}

#[test]
fn a_handshake_gets_through_30_percent_corruption() {
    for seed in 0..50 {
        let mut pair = Pair::new(seed, config(), "delay=15ms,corrupt=30%,rate=10mbit");
        let connected =
            pair.run_until(10 * SECOND, |pair| pair.events(End::Client).contains(&Event::Connected));
        assert!(connected, "seed {seed}: {:?}", pair.events(End::Client));
    }
}

#[test]
fn a_satellite_of_750_ms_connects_and_transfers() {
    let mut pair = Pair::new(1, config(), "delay=750ms,rate=10mbit,queue=100ms");
    assert!(pair.settle(10 * SECOND));
    // SYN, SYN-ACK, PING, PONG and the packet that proves the client: two and a half round trips.
    assert!(pair.now() <= Time::ZERO + 3800 * MS, "{:?}", pair.now());
    transfer(&mut pair, End::Client, 200, 1000, 15 * SECOND);
    let path = pair.stats(End::Client).paths[0];
    assert!(path.lost_packets * 10 <= path.sent_packets, "long round trips are not taken for loss: {path:?}");
}

#[test]
fn nothing_but_the_handshake_timeout_ends_a_connection_to_nobody() {
    let mut pair = Pair::new(1, config(), "delay=10ms,loss=100%");
    assert!(pair.run_until(11 * SECOND, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::HandshakeTimedOut));
    assert_eq!(pair.now(), Time::ZERO + config().handshake_timeout);
}

#[test]
fn another_server_with_the_address_gets_nothing() {
    let mut world = World::new(1, config(), ListenConfig::default());
    let link: LinkConfig = "delay=10ms".parse().unwrap();
    let client = world.add_client(config(), link.clone(), link);
    let mut rng = <rand_chacha::ChaCha20Rng as rand::SeedableRng>::seed_from_u64(7);
    let expected = Identity::generate(&mut rng).public();
    let handle = world.connect_with(client, ServerKey::Known(expected));
    world.run(11 * SECOND);
    assert_eq!(world.endpoint(SERVER).stats().accepted, 0);
    let events: Vec<Event> =
        world.peer(client, handle).events.iter().map(|(_, event)| event.clone()).collect();
    assert!(!events.contains(&Event::Connected));
    assert!(matches!(events.last(), Some(Event::Closed(_))), "{events:?}");
}

#[test]
fn a_key_that_is_not_on_the_allow_list_gets_no_connection() {
    let listen = ListenConfig::default().allow(Some(BTreeSet::new()));
    let link: LinkConfig = "delay=10ms".parse().unwrap();
    let mut pair = Pair::join(World::new(1, config(), listen), config(), link.clone(), link);
    pair.send(End::Client, Service::ReliableSequenced, "let me in");
    pair.run(11 * SECOND);
    assert_eq!(pair.place(End::Server), None);
    assert_eq!(pair.world.endpoint(SERVER).connections(), 0);
    assert!(pair.closed(End::Client).is_some(), "the client is not left hanging");
}

#[test]
fn until_the_address_is_proven_no_more_goes_to_it_than_came_from_it() {
    let mut pair = Pair::new(3, config(), "delay=20ms");
    let sent = trace(&mut pair.world);
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    assert!(pair.settle(SECOND));
    let sent = sent.borrow();
    let mut balance = 0i64;
    for (_, from, to, bytes) in sent.iter() {
        if (*from, *to) == (client, server) {
            // A valid cookie in PING proves the address.
            if bytes[0] == 0x84 {
                return;
            }
            balance += bytes.len() as i64;
        } else {
            balance -= bytes.len() as i64;
        }
        assert!(balance >= 0, "SYN-ACK is never larger than SYN");
    }
}

#[test]
fn replayed_handshake_packets_make_no_second_connection_and_deliver_nothing_twice() {
    let mut pair = Pair::new(4, config(), "delay=20ms");
    let sent = trace(&mut pair.world);
    for number in 0..5 {
        pair.send(End::Client, Service::ReliableUnsequenced, numbered(number, 100));
    }
    assert!(pair.settle(SECOND));
    let mut got = pair.recv(End::Server).len();
    let packets = sent.borrow().clone();
    for round in 0..3 {
        for (_, from, to, bytes) in &packets {
            pair.world.inject(*from, *to, bytes);
            pair.run(MS);
            got += pair.recv(End::Server).len();
        }
        // Cookies expire in the meantime.
        pair.run(SECOND * (1 + 6 * round));
    }
    got += pair.recv(End::Server).len();
    assert_eq!(got, 5);
    assert_eq!(pair.world.endpoint(SERVER).connections(), 1);
    assert_eq!((pair.closed(End::Client), pair.closed(End::Server)), (None, None));
    transfer(&mut pair, End::Client, 10, 100, SECOND);
}

#[test]
fn forged_pings_are_at_nobodys_charge() {
    let listen = ListenConfig::default().pings_per_address(2);
    let world = World::new(1, config(), listen);
    let link: LinkConfig = "delay=10ms,rate=10mbit".parse().unwrap();
    let mut pair = Pair::join(world, config(), link.clone(), link.clone());
    let trace = trace(&mut pair.world);
    assert!(pair.settle(SECOND));
    let (_, from, to, mut ping) =
        trace.borrow().iter().find(|(_, _, _, bytes)| bytes[0] == 0x84).cloned().unwrap();
    pair.run(2 * SECOND);
    // The same second and address, with an invalid cookie.
    ping[30] ^= 1;
    for _ in 0..1_000 {
        pair.world.inject(from, to, &ping);
    }
    let refused = pair.world.endpoint(SERVER).stats().refused;
    assert!(refused >= 1_000, "{refused}");
    let neighbour = pair.world.add_client(config(), link.clone(), link);
    let handle = pair.world.connect(neighbour);
    let connected = pair.world.run_until(SECOND / 5, |world| {
        world.peer(neighbour, handle).events.iter().any(|(_, event)| *event == Event::Connected)
    });
    assert!(connected, "who has a cookie is let in beside them");
}

#[test]
fn a_flood_of_syns_leaves_memory_flat_and_others_undisturbed() {
    let mut pair = Pair::connected(26, config(), "delay=20ms,rate=4mbit,queue=100ms");
    let syn = {
        let mut other = Pair::new(99, config(), "delay=20ms");
        let sent = trace(&mut other.world);
        other.run(MS);
        sent.borrow()[0].3.clone()
    };
    for number in 0..400 {
        pair.send(End::Client, Service::ReliableSequenced, numbered(number, 1000));
    }
    let server = pair.world.address(SERVER);
    let (mut got, mut flood) = (0, 0u32);
    let begin = pair.now();
    let done = pair.run_until(5 * SECOND, |pair| {
        for _ in 0..20 {
            flood += 1;
            let mut syn = syn.clone();
            // Another client's id and address each time.
            syn[13..17].copy_from_slice(&flood.to_be_bytes());
            let [a, b, c, d] = flood.to_be_bytes();
            pair.world.inject(SocketAddr::from(([172, 16 + a, c, d], 1024 + u16::from(b))), server, &syn);
        }
        got += pair.recv(End::Server).len();
        got == 400
    });
    assert!(done, "{got}");
    assert!(flood > 5_000);
    assert_eq!(pair.world.endpoint(SERVER).connections(), 1, "strangers are not remembered");
    assert_eq!(pair.world.endpoint(SERVER).stats().accepted, 1);
    assert!(pair.now().since(begin) < 1200 * MS, "{:?}", pair.now().since(begin));
}
