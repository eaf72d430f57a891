//! One network or one key takes every connection that an open listener has.

use std::time::Duration;

use whimbrel_proto::{Event, Handle, ListenConfig, TransportConfig};
use whimbrel_sim::world::{SERVER, World};

const LINK: &str = "delay=10ms";

fn client(world: &mut World) -> usize {
    let link = || LINK.parse().expect("it is well written");
    world.add_client(TransportConfig::default(), link(), link())
}

fn connected(world: &mut World, clients: &[(usize, Handle)]) -> usize {
    let is_connected = |(node, handle): &&(usize, Handle)| {
        world
            .try_peer(*node, *handle)
            .is_some_and(|peer| peer.events.iter().any(|(_, event)| *event == Event::Connected))
    };
    clients.iter().filter(is_connected).count()
}

#[test]
fn one_network_fills_its_share_and_others_still_connect() {
    let listen = ListenConfig::default().max_connections(80);
    let mut world = World::new(1, TransportConfig::default(), listen);
    let crowd: Vec<_> = (0..100)
        .map(|_| {
            let node = client(&mut world);
            (node, world.connect(node))
        })
        .collect();
    world.run(Duration::from_secs(1));
    assert_eq!(connected(&mut world, &crowd), 20, "a quarter of 80");
    assert_eq!(world.endpoint(SERVER).connections(), 20, "nothing is kept for the others");
    let stats = world.endpoint(SERVER).stats();
    assert!(stats.network_full >= 80 && stats.network_full <= stats.refused, "{stats:?}");

    let elsewhere: Vec<_> = (0..15)
        .map(|_| {
            let node = client(&mut world);
            world.rebind_address(node);
            (node, world.connect(node))
        })
        .collect();
    world.run(Duration::from_secs(1));
    assert_eq!(connected(&mut world, &elsewhere), 15);

    // A place that becomes free goes to the next client, once those that were refused have stopped asking.
    world.run(Duration::from_secs(11));
    let placed = crowd.iter().find(|one| connected(&mut world, &[**one]) == 1);
    let (node, handle) = *placed.expect("20 are connected");
    let now = world.now();
    world.peer(node, handle).connection.abort(now, 0, "");
    world.run(Duration::from_secs(2));
    assert_eq!(world.endpoint(SERVER).connections(), 34);
    let node = client(&mut world);
    let next = [(node, world.connect(node))];
    world.run(Duration::from_secs(1));
    assert_eq!(connected(&mut world, &next), 1);
}

#[test]
fn keys_on_a_list_may_all_come_from_one_network() {
    let mut world = World::new(2, TransportConfig::default(), ListenConfig::default());
    let clients: Vec<usize> = (0..40).map(|_| client(&mut world)).collect();
    let keys = clients.iter().map(|node| world.endpoint(*node).public_key()).collect();
    world.listen_as(ListenConfig::default().allow(Some(keys)).max_connections(40));
    let connections: Vec<_> = clients.into_iter().map(|node| (node, world.connect(node))).collect();
    world.run(Duration::from_secs(1));
    assert_eq!(connected(&mut world, &connections), 40);
}

#[test]
fn one_key_has_no_more_connections_than_it_may() {
    let listen = ListenConfig::default().max_per_key(3);
    let mut world = World::new(3, TransportConfig::default(), listen);
    let (one, other) = (client(&mut world), client(&mut world));
    let connections: Vec<_> = [one, one, one, one, one, other].map(|node| (node, world.connect(node))).into();
    world.run(Duration::from_secs(1));
    assert_eq!(connected(&mut world, &connections), 4);
    assert_eq!(connected(&mut world, &connections[5..]), 1, "another key is another matter");
    assert!(world.endpoint(SERVER).stats().key_full >= 2);
}
