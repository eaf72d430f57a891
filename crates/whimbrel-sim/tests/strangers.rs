//! Attacks by strangers without keys, from any address.

use std::net::SocketAddr;
use std::time::Duration;

use whimbrel_proto::{Event, ListenConfig, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, World};

const LINK: &str = "delay=10ms";

/// A PING with something as long as a cookie.
fn forged_ping() -> Vec<u8> {
    let mut packet = vec![0x80 | 4];
    packet.extend_from_slice(&[7; 16]);
    packet.extend_from_slice(&[0x40, 65]);
    packet.resize(400, 1);
    packet
}

/// PINGs were counted against a limit before their cookies were checked. A thousand forged ones a second locked out a
/// client's whole network, and 16,384 addresses locked out everyone.
#[test]
fn regression_forged_pings_keep_nobody_out() {
    let mut pair = Pair::new(1, TransportConfig::default(), LINK);
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    for _ in 0..2_000 {
        pair.world.inject(client, server, &forged_ping());
    }
    for network in 0..20_000u32 {
        let from: SocketAddr = (std::net::Ipv4Addr::from(0x0b00_0000 + (network << 8)), 5000).into();
        pair.world.inject(from, server, &forged_ping());
    }
    assert!(pair.settle(Duration::from_millis(500)), "{:?}", pair.events(End::Client));
    assert_eq!(pair.world.endpoint(SERVER).stats().refused, 22_000);
}

#[test]
fn a_flood_of_syns_costs_no_more_than_the_limit_and_lets_others_in_afterwards() {
    let listen = ListenConfig::default().syns_per_second(100);
    let mut world = World::new(1, TransportConfig::default(), listen);
    let mut syn = vec![0; 160];
    syn[0] = 0x80 | 2;
    syn[9..13].copy_from_slice(&0x5748_0001u32.to_be_bytes());
    syn[13..21].copy_from_slice(&[9; 8]);
    let server = world.address(SERVER);
    // A thousand in a second, each from another network.
    for number in 0..1_000u32 {
        let from: SocketAddr = (std::net::Ipv4Addr::from(0x0b00_0000 + (number << 8)), 5000).into();
        world.inject(from, server, &syn);
        world.run(Duration::from_millis(1));
    }
    let stats = world.endpoint(SERVER).stats();
    assert!((895..=900).contains(&stats.syns_dropped), "{stats:?}");
    assert_eq!(world.endpoint(SERVER).connections(), 0);
    let link = || LINK.parse().expect("it is well written");
    let client = world.add_client(TransportConfig::default(), link(), link());
    let handle = world.connect(client);
    world.run(Duration::from_millis(100));
    let peer = world.try_peer(client, handle).expect("it is there");
    assert!(peer.events.iter().any(|(_, event)| *event == Event::Connected), "{:?}", peer.events);
    assert_eq!(world.endpoint(SERVER).stats().syns_dropped, stats.syns_dropped);
}

/// One connection more than `max_connections` was accepted.
#[test]
fn regression_the_limit_of_connections_is_the_limit() {
    let listen = ListenConfig::default().max_connections(2);
    let mut world = World::new(1, TransportConfig::default(), listen);
    let connections: Vec<_> = (0..3)
        .map(|_| {
            let link = || LINK.parse().expect("it is well written");
            let client = world.add_client(TransportConfig::default(), link(), link());
            (client, world.connect(client))
        })
        .collect();
    world.run(Duration::from_secs(1));
    assert_eq!(world.endpoint(SERVER).connections(), 2);
    let connected = connections.iter().filter(|(client, handle)| {
        world
            .try_peer(*client, *handle)
            .is_some_and(|peer| peer.events.iter().any(|(_, event)| *event == Event::Connected))
    });
    assert_eq!(connected.count(), 2);
}
