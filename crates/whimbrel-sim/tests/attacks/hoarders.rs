//! Peers with valid keys make the server hold all the memory that it has for peers, in fragments of messages that are
//! never completed. Connections of others would then be closed for lack of memory. Or many peers are served so well that
//! each of them wants a wide window.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::{Outgoing, Read, StreamKind};
use whimbrel_proto::wire::Writer;
use whimbrel_proto::wire::data::{self, DataHead, Extras, Length};
use whimbrel_proto::{CloseReason, Event, Handle, ListenConfig, Service, StreamId, TransportConfig};
use whimbrel_sim::world::{SERVER, TapVerdict, World};

const KIB: u64 = 1 << 10;
const BUDGET: u64 = 64 << 20;
/// Memory is taken in steps.
const STEP: u64 = 64 * KIB;
const SECOND: Duration = Duration::from_secs(1);

fn world() -> World {
    let mut transport = TransportConfig::default();
    transport.memory_budget = BUDGET;
    World::new(3, transport, ListenConfig::default())
}

/// Adds a client in the network with this number.
fn client(world: &mut World, network: usize) -> usize {
    client_over(world, network, "delay=10ms,rate=100mbit")
}

fn client_over(world: &mut World, network: usize, link: &str) -> usize {
    let link = || link.parse().unwrap();
    let node = world.add_client(TransportConfig::default(), link(), link());
    for _ in 0..network {
        world.rebind_address(node);
    }
    node
}

/// A fragment of one byte, which is charged 34 bytes and takes ten times that.
fn part(stream: u64, number: u64, flags: u8) -> Vec<u8> {
    let mut packet = Vec::new();
    let out = &mut Writer::new(&mut packet, 100);
    let head = DataHead { flags, stream, number, offset: 1, extras: Extras::NONE, message_length: None };
    head.write(out, Length::Bytes(1));
    out.bytes(b"x");
    packet
}

/// Makes a connection of the server hold `goal` bytes. Returns false if it was closed for that.
fn fill(world: &mut World, handle: Handle, goal: u64) -> bool {
    const SERVICES: [u8; 4] = [data::RELIABLE, data::RELIABLE | data::UNSEQUENCED, 0, data::UNSEQUENCED];
    let now = world.now();
    let connection = &mut world.peer(SERVER, handle).connection;
    for stream in 0..128 {
        for part in
            SERVICES.iter().flat_map(|service| (0..470).map(|number| part(2 * stream, number, *service)))
        {
            connection.handle_blocks(now, Bytes::from(part));
            if connection.is_closed() {
                return false;
            }
            if connection.session_ref().held() >= goal {
                return true;
            }
        }
    }
    true
}

/// Opens connections until a new one gets nothing; each holds as much as it gets.
fn hoard(world: &mut World, honest: usize, mut next: impl FnMut(&mut World, usize) -> usize) -> usize {
    let (mut goal, mut hoarders) = (BUDGET / 9, 0);
    let (server, honest) = (world.address(SERVER), world.address(honest));
    // The hoarders' own ends do not know what they are said to have sent, so they do not receive answers either.
    world.set_tap(Box::new(move |_, from, to, bytes| {
        let sealed = bytes[0] & 0x80 == 0;
        if from == server && to != honest && sealed { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
    while goal > 130 * KIB && hoarders < 200 {
        let node = next(world, hoarders);
        world.connect(node);
        world.run(Duration::from_millis(60));
        let Some(handle) = world.accept() else { break };
        let memory = world.endpoint(SERVER).budgets().memory.clone();
        let before = memory.used();
        if fill(world, handle, goal) {
            hoarders += 1;
            if memory.used() == before {
                // They have only their assured share.
                break;
            }
        } else {
            goal = goal * 7 / 10;
            // What it held is free again.
            world.run(5 * SECOND);
        }
    }
    world.run(SECOND);
    world.set_tap(Box::new(|_, _, _, _| TapVerdict::Pass));
    hoarders
}

/// Sends a message of an honest client to a server that reads. Returns how the client's connection ended, if it did.
fn serve(
    world: &mut World,
    node: usize,
    ends: (Handle, Handle),
    length: usize,
) -> (bool, Option<CloseReason>) {
    let now = world.now();
    let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![7; length].into());
    world.peer(node, ends.0).connection.session().send(now, message).unwrap();
    let arrived = world.run_until(5 * SECOND, |world| {
        let now = world.now();
        let server = world.try_peer(SERVER, ends.1);
        server.is_some_and(|peer| peer.connection.session().recv(now).is_some())
    });
    let closed = world.events(node, ends.0).iter().find_map(|(_, event)| match event {
        Event::Closed(reason) => Some(reason.clone()),
        _ => None,
    });
    (arrived, closed)
}

fn connected(world: &mut World, node: usize) -> (Handle, Handle) {
    let near = world.connect(node);
    world.run(SECOND);
    (near, world.accept().unwrap())
}

#[test]
fn one_key_cannot_hold_all_memory_and_others_go_on() {
    let mut world = world();
    let [attacker, honest] = [0, 0].map(|network| client(&mut world, network));
    let ends = connected(&mut world, honest);
    let memory = world.endpoint(SERVER).budgets().memory.clone();
    let hoarders = hoard(&mut world, honest, |_, _| attacker);
    println!("{hoarders} connections, {} of {} KiB", memory.used() / KIB, BUDGET / KIB);
    assert!(memory.used() > BUDGET / 8 && memory.used() <= BUDGET / 5 + STEP, "{}", memory.used());
    for length in [200_000, 4 << 20] {
        assert_eq!(serve(&mut world, honest, ends, length), (true, None), "{length}");
    }
}

/// Keys and networks cost this attacker nothing. Little memory is left, but a session that needs little gets it.
#[test]
fn however_many_keys_hold_all_memory_a_small_session_goes_on() {
    let mut world = world();
    let honest = client(&mut world, 0);
    let ends = connected(&mut world, honest);
    let memory = world.endpoint(SERVER).budgets().memory.clone();
    let hoarders = hoard(&mut world, honest, |world, hoarders| client(world, 1 + hoarders));
    println!("{hoarders} keys, {} of {} KiB", memory.used() / KIB, BUDGET / KIB);
    assert!(memory.free() < 1024 * KIB, "{}", memory.free());
    for _ in 0..20 {
        assert_eq!(serve(&mut world, honest, ends, 200_000), (true, None));
    }
    // With loss, so that most of what it may send waits behind a gap. With a window as wide as before, the session
    // would end.
    for link in [(honest, SERVER), (SERVER, honest)] {
        world.link(link.0, link.1).reconfigure("delay=10ms,rate=100mbit,loss=5%".parse().unwrap());
    }
    for number in 0..30_000u64 {
        let length = if number % 2 == 0 { 50 } else { 1000 };
        let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![7; length].into());
        let now = world.now();
        world.peer(honest, ends.0).connection.session().send(now, message).unwrap();
    }
    let mut received = 0;
    let all = world.run_until(60 * SECOND, |world| {
        let now = world.now();
        let Some(server) = world.try_peer(SERVER, ends.1) else { return true };
        received += std::iter::from_fn(|| server.connection.session().recv(now)).count();
        received == 30_000
    });
    assert!(all && received == 30_000, "{received}, {:?}", world.events(honest, ends.0).last());
    let late = client(&mut world, 250);
    let ends = connected(&mut world, late);
    assert_eq!(serve(&mut world, late, ends, 200_000), (true, None));
}

/// If all keys are in one network, another network has the greater part.
#[test]
fn one_network_cannot_hold_all_memory_of_an_open_listener() {
    let mut world = world();
    let honest = client(&mut world, 0);
    let ends = connected(&mut world, honest);
    let memory = world.endpoint(SERVER).budgets().memory.clone();
    let hoarders = hoard(&mut world, honest, |world, _| client(world, 1));
    println!("{hoarders} keys, {} of {} KiB", memory.used() / KIB, BUDGET / KIB);
    assert!(memory.used() > BUDGET / 5 && memory.used() <= BUDGET / 3 + STEP, "{}", memory.used());
    assert_eq!(serve(&mut world, honest, ends, 4 << 20), (true, None));
}

/// Each of these clients could use a wide window, and all of them together could use several times the budget.
#[test]
fn windows_of_all_peers_stay_within_the_credit_budget_and_all_of_them_move() {
    const CREDIT: u64 = 8 << 20;
    const CLIENTS: usize = 40;
    const LINK: &str = "delay=300ms,rate=10mbit,queue=1s";

    let mut transport = TransportConfig::default();
    transport.credit_budget = CREDIT;
    let mut world = World::new(3, transport, ListenConfig::default());
    // Each in a network of its own, since one network does not get all of the budget.
    let nodes: Vec<usize> = (0..CLIENTS).map(|network| client_over(&mut world, network, LINK)).collect();
    let near: Vec<Handle> = nodes.iter().map(|node| world.connect(*node)).collect();
    world.run(3 * SECOND);
    let far: Vec<Handle> = (0..CLIENTS).map(|_| world.accept().unwrap()).collect();
    let streams: Vec<StreamId> = nodes
        .iter()
        .zip(&near)
        .map(|(node, near)| {
            world.peer(*node, *near).connection.session().open_stream(StreamKind::Bytes).unwrap()
        })
        .collect();
    let credit = world.endpoint(SERVER).budgets().credit.clone();
    let (mut most, mut read) = (0, vec![0; CLIENTS]);
    let mut serve = |world: &mut World, seconds: u64| {
        let before = read.clone();
        let end = world.now() + Duration::from_secs(seconds);
        while world.now() < end {
            let now = world.now();
            for client in 0..CLIENTS {
                let near = &mut world.peer(nodes[client], near[client]).connection;
                while near.session().write(now, streams[client], vec![7; 64 << 10].into()).unwrap() > 0 {}
                let far = &mut world.peer(SERVER, far[client]).connection;
                for stream in far.session_ref().byte_streams() {
                    while let Ok(Read::Data(data)) = far.session().read(stream, 64 << 10) {
                        read[client] += data.len();
                    }
                }
            }
            world.run(Duration::from_millis(20));
            most = most.max(credit.used());
            assert!(credit.used() <= CREDIT, "{} KiB", credit.used() / KIB);
        }
        read.iter().zip(before).map(|(now, before)| now - before).collect::<Vec<usize>>()
    };
    serve(&mut world, 20);
    let read = serve(&mut world, 6);
    println!("at most {} of {} KiB; read in 6 s: {read:?}", most / KIB, CREDIT / KIB);
    assert!(most > CREDIT / 2, "{} KiB: nobody was short of credit", most / KIB);
    // The least share of a stream, once a round trip.
    assert!(read.iter().all(|read| *read > 9 * (64 << 10)), "{read:?}");
}
