//! Tests of a connection from SYN to FIN-DONE, over good and bad links.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use whimbrel_link::LinkConfig;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{CloseReason, Event, Handle, ListenConfig, Service, StreamId, TransportConfig};
use whimbrel_sim::world::{SERVER, World};

fn world(seed: u64, link: &str) -> (World, usize) {
    let mut world = World::new(seed, TransportConfig::default(), ListenConfig::default());
    let link: LinkConfig = link.parse().unwrap();
    let client = world.add_client(TransportConfig::default(), link.clone(), link);
    (world, client)
}

fn send(world: &mut World, node: usize, handle: Handle, service: Service, payload: Bytes) {
    let now = world.now();
    world
        .peer(node, handle)
        .connection
        .session()
        .send(now, Outgoing::new(StreamId(0), service, payload))
        .unwrap();
}

fn received(world: &mut World, node: usize, handle: Handle) -> Vec<Bytes> {
    let now = world.now();
    let session = world.peer(node, handle).connection.session();
    std::iter::from_fn(|| session.recv(now)).map(|message| message.payload).collect()
}

#[test]
fn data_rides_the_third_packet() {
    let (mut world, client) = world(1, "delay=25ms");
    let handle = world.connect(client);
    send(&mut world, client, handle, Service::ReliableSequenced, Bytes::from_static(b"hello"));
    let mut server = None;
    let arrived = world.run_until(Duration::from_secs(1), |world| {
        server = server.or_else(|| world.accept());
        server.is_some_and(|server| !received(world, SERVER, server).is_empty())
    });
    assert!(arrived);
    // One round trip for the cookie, and half of one for PING.
    assert_eq!(world.now().as_nanos(), 75_000_000);
}

#[test]
fn a_megabyte_arrives_in_order_over_a_bad_link_and_the_close_is_polite() {
    for seed in 0..10 {
        let (mut world, client) = world(seed, "rate=20mbit,delay=20ms,queue=100ms,loss=5%");
        let handle = world.connect(client);
        for i in 0..1000u32 {
            let payload: Vec<u8> = i.to_be_bytes().into_iter().cycle().take(1000).collect();
            send(&mut world, client, handle, Service::ReliableSequenced, payload.into());
        }
        let now = world.now();
        let mut server = None;
        let mut got = Vec::new();
        let done = world.run_until(Duration::from_secs(20), |world| {
            server = server.or_else(|| world.accept());
            if let Some(server) = server {
                got.extend(received(world, SERVER, server));
            }
            got.len() == 1000
        });
        assert!(done, "seed {seed}: {} of 1000 after {:?}", got.len(), world.now().since(now));
        for (i, payload) in got.iter().enumerate() {
            assert_eq!(payload[..4], (i as u32).to_be_bytes(), "seed {seed}");
        }
        let now = world.now();
        world.peer(client, handle).connection.close(now, 7, "done");
        let server = server.unwrap();
        let closed = world.run_until(Duration::from_secs(5), |world| {
            world.peer(client, handle).connection.is_closed()
                && world.peer(SERVER, server).connection.is_closed()
        });
        assert!(closed, "seed {seed}");
        let last =
            |world: &mut World, node, handle| world.peer(node, handle).events.last().cloned().unwrap().1;
        assert_eq!(last(&mut world, client, handle), Event::Closed(CloseReason::Local));
        let Event::Closed(CloseReason::Peer(reason)) = last(&mut world, SERVER, server) else {
            panic!("seed {seed}: {:?}", world.peer(SERVER, server).events);
        };
        assert_eq!((reason.code, reason.text.raw()), (7, "done"));
    }
}
