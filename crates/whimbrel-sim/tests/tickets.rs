//! Tests of clients that return with a ticket: data in the first packet, and its fate when the ticket is not
//! accepted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_link::LinkConfig;
use whimbrel_proto::handshake::AcceptorConfig;
use whimbrel_proto::session::{Message, Outgoing};
use whimbrel_proto::{Event, Handle, ListenConfig, Service, StreamId, Ticket, Time, TransportConfig};
use whimbrel_sim::world::{SERVER, TapVerdict, World};

const SYN_ACK: u8 = 0x83;
const PING: u8 = 0x84;
const PONG: u8 = 0x85;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn listen() -> ListenConfig {
    ListenConfig::default().early_from_tickets(true)
}

fn world_with(seed: u64, link: &str, listen: ListenConfig) -> (World, usize) {
    let mut world = World::new(seed, TransportConfig::default(), listen);
    let link: LinkConfig = link.parse().unwrap();
    let client = world.add_client(TransportConfig::default(), link.clone(), link);
    (world, client)
}

fn world(seed: u64, link: &str) -> (World, usize) {
    world_with(seed, link, listen())
}

fn send(world: &mut World, node: usize, handle: Handle, payload: impl Into<Bytes>) {
    let now = world.now();
    let outgoing = Outgoing::new(StreamId(0), Service::ReliableSequenced, payload.into());
    world.peer(node, handle).connection.session().send(now, outgoing).unwrap();
}

fn received(world: &mut World, node: usize, handle: Handle) -> Vec<Message> {
    let now = world.now();
    let session = world.peer(node, handle).connection.session();
    std::iter::from_fn(|| session.recv(now)).collect()
}

fn close(world: &mut World, client: usize, handle: Handle) {
    let now = world.now();
    world.peer(client, handle).connection.close(now, 0, "");
    let closed =
        world.run_until(Duration::from_secs(20), |world| world.peer(client, handle).connection.is_closed());
    assert!(closed);
    world.run(Duration::from_secs(1));
}

fn tickets(world: &mut World, client: usize, handle: Handle) -> Vec<Ticket> {
    let events = &world.peer(client, handle).events;
    events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::Ticket(ticket) => Some(ticket.clone()),
            _ => None,
        })
        .collect()
}

/// Connects, sends `bytes` and closes. Returns the last ticket.
fn first_visit(world: &mut World, client: usize, bytes: usize) -> Ticket {
    let handle = world.connect(client);
    for _ in 0..bytes / 1000 {
        send(world, client, handle, vec![7; 1000]);
    }
    let mut servers = Vec::new();
    let mut got = 0;
    let done = world.run_until(Duration::from_secs(60), |world| {
        servers.extend(world.accept());
        got += servers.iter().map(|server| received(world, SERVER, *server).len()).sum::<usize>();
        got >= bytes / 1000 && !tickets(world, client, handle).is_empty()
    });
    assert!(done, "{got}");
    close(world, client, handle);
    tickets(world, client, handle).pop().unwrap()
}

/// Runs until all accepted connections together have delivered `count` messages, and a while longer. Returns the
/// messages by connection.
fn deliveries(world: &mut World, count: usize, limit: Duration) -> Vec<(Handle, Vec<Message>)> {
    let mut servers: Vec<(Handle, Vec<Message>)> = Vec::new();
    let mut take = |world: &mut World| {
        while let Some(handle) = world.accept() {
            servers.push((handle, Vec::new()));
        }
        for (handle, got) in &mut servers {
            if world.try_peer(SERVER, *handle).is_some() {
                got.extend(received(world, SERVER, *handle));
            }
        }
        servers.iter().map(|(_, got)| got.len()).sum::<usize>() >= count
    };
    world.run_until(limit, &mut take);
    let mut end = |world: &mut World| {
        take(world);
        false
    };
    world.run_until(Duration::from_secs(3), &mut end);
    servers
}

/// All packets of one kind that the tap saw: from, to, bytes.
type Seen = Rc<RefCell<Vec<(SocketAddr, SocketAddr, Vec<u8>)>>>;

fn watch(world: &mut World, kind: u8) -> Seen {
    let seen = Seen::default();
    let copy = Rc::clone(&seen);
    world.set_tap(Box::new(move |_, from, to, bytes| {
        if bytes[0] == kind {
            copy.borrow_mut().push((from, to, bytes.clone()));
        }
        TapVerdict::Pass
    }));
    seen
}

#[test]
fn the_first_packet_of_a_returning_client_carries_data() {
    let (mut world, client) = world(1, "delay=25ms");
    let ticket = first_visit(&mut world, client, 1000);
    let handle = world.connect_by(client, ticket);
    let start = world.now();
    send(&mut world, client, handle, &b"hello"[..]);
    let mut server = None;
    let mut got = Vec::new();
    let arrived = world.run_until(Duration::from_secs(1), |world| {
        server = server.or_else(|| world.accept());
        got = server.map_or(Vec::new(), |server| received(world, SERVER, server));
        !got.is_empty()
    });
    assert!(arrived);
    assert_eq!(world.now().since(start), ms(25));
    assert!(got[0].early, "and says so");
    let server = server.unwrap();
    let established = |world: &mut World| world.peer(client, handle).connection.is_established();
    assert!(world.run_until(ms(25), established), "PONG comes at once");
    send(&mut world, client, handle, &b"later"[..]);
    world.run(ms(25));
    let got = received(&mut world, SERVER, server);
    assert_eq!((&got[0].payload[..], got[0].early), (&b"later"[..], false));
    world.run(ms(200));
    assert_eq!(tickets(&mut world, client, handle).len(), 1, "and another ticket");
}

#[test]
fn without_the_listeners_consent_there_are_no_tickets_and_none_counts() {
    let (mut world, client) = world_with(2, "delay=10ms", ListenConfig::default());
    let handle = world.connect(client);
    send(&mut world, client, handle, &b"a"[..]);
    world.run(Duration::from_secs(3));
    close(&mut world, client, handle);
    assert_eq!(tickets(&mut world, client, handle), []);
    world.accept();
    let ticket = Ticket {
        server_key: world.endpoint(SERVER).public_key(),
        bytes: vec![1; 80].into(),
        until: Time::MAX,
        memory: None,
    };
    let handle = world.connect_by(client, ticket);
    let start = world.now();
    send(&mut world, client, handle, &b"b"[..]);
    let got = deliveries(&mut world, 1, Duration::from_secs(1));
    assert_eq!((got.len(), got[0].1.len()), (1, 1));
    assert!(world.peer(client, handle).connection.is_established());
    let connected = world.peer(client, handle).events[0].clone();
    assert_eq!((connected.0.since(start), connected.1), (ms(40), Event::Connected));
}

#[test]
fn a_replayed_ping_from_another_address_opens_nothing_and_delivers_nothing() {
    let (mut world, client) = world(3, "delay=25ms");
    let elsewhere =
        world.add_client(TransportConfig::default(), LinkConfig::default(), LinkConfig::default());
    let ticket = first_visit(&mut world, client, 1000);
    while world.accept().is_some() {}
    let pings = watch(&mut world, PING);
    let handle = world.connect_by(client, ticket);
    send(&mut world, client, handle, &b"once"[..]);
    world.run(ms(26));
    let (_, to, ping) = pings.borrow()[0].clone();
    let pongs = watch(&mut world, PONG);
    let (from, genuine) = (world.address(elsewhere), world.address(client));
    let mut accepted_before = 0;
    for round in 0..4 {
        for port in 0..5 {
            world.inject(SocketAddr::new(from.ip(), from.port() + port), to, &ping);
        }
        if round == 0 {
            accepted_before = world.endpoint(SERVER).stats().accepted;
            assert!(
                pongs.borrow().iter().all(|(_, to, _)| *to == genuine),
                "the same PONG to where the first came from"
            );
        }
        // In progress, established, closed, forgotten.
        match round {
            1 => assert!(world.peer(client, handle).connection.is_established()),
            2 => close(&mut world, client, handle),
            _ => world.run(Duration::from_secs(1)),
        }
    }
    assert_eq!(world.endpoint(SERVER).stats().accepted, accepted_before);
    let mut got = Vec::new();
    while let Some(server) = world.accept() {
        got.extend(received(&mut world, SERVER, server));
    }
    assert_eq!(got.len(), 1);
}

/// The number of messages sent by a returning client whose ticket is not accepted. Each arrives once, in order, on
/// one connection.
const COUNT: usize = 300;

fn falls_back(world: &mut World, client: usize, ticket: Ticket, seed: u64, why: &str) {
    while world.accept().is_some() {}
    let handle = world.connect_by(client, ticket);
    for i in 0..COUNT as u32 {
        let payload: Vec<u8> = i.to_be_bytes().into_iter().cycle().take(500).collect();
        send(world, client, handle, payload);
    }
    let got = deliveries(world, COUNT, Duration::from_secs(30));
    // A PONG that is lost repeatedly is requested by another PING, which opens no second connection.
    assert_eq!(got.len(), 1, "{why}, seed {seed}");
    let order: Vec<u32> =
        got[0].1.iter().map(|message| u32::from_be_bytes(message.payload[..4].try_into().unwrap())).collect();
    assert_eq!(order, (0..COUNT as u32).collect::<Vec<_>>(), "{why}, seed {seed}");
}

const BAD_LINK: &str = "rate=20mbit,delay=20ms,queue=100ms,loss=10%";

#[test]
fn after_a_restart_nothing_is_lost_or_doubled() {
    for seed in 0..100 {
        let (mut world, client) = world(seed, BAD_LINK);
        let ticket = first_visit(&mut world, client, 1000);
        world.restart_server();
        falls_back(&mut world, client, ticket, seed, "restart");
    }
}

#[test]
fn with_a_full_register_nothing_is_lost_or_doubled() {
    for seed in 0..100 {
        let acceptor = AcceptorConfig::default().tickets_remembered(1);
        let (mut world, client) = world_with(seed, BAD_LINK, listen().acceptor(acceptor));
        let first = first_visit(&mut world, client, 1000);
        let second = first_visit(&mut world, client, 1000);
        let handle = world.connect_by(client, first);
        send(&mut world, client, handle, &b"takes the place"[..]);
        world.run(Duration::from_secs(2));
        close(&mut world, client, handle);
        falls_back(&mut world, client, second, seed, "full register");
    }
}

#[test]
fn with_another_clients_ticket_nothing_is_lost_or_doubled() {
    for seed in 0..100 {
        let (mut world, client) = world(seed, BAD_LINK);
        let link: LinkConfig = BAD_LINK.parse().unwrap();
        let thief = world.add_client(TransportConfig::default(), link.clone(), link);
        let ticket = first_visit(&mut world, client, 1000);
        falls_back(&mut world, thief, ticket.clone(), seed, "another key");
        // The owner's ticket is still valid.
        falls_back(&mut world, client, ticket, seed, "its own");
    }
}

#[test]
fn a_ticket_that_counts_loses_and_doubles_nothing_either() {
    for seed in 0..100 {
        let (mut world, client) = world(seed, "rate=20mbit,delay=20ms,queue=100ms,loss=30%");
        let ticket = first_visit(&mut world, client, 1000);
        falls_back(&mut world, client, ticket, seed, "good ticket");
    }
}

#[test]
fn a_lost_pong_comes_again() {
    let (mut world, client) = world(5, "delay=25ms");
    let ticket = first_visit(&mut world, client, 1000);
    while world.accept().is_some() {}
    let mut lost = 0;
    world.set_tap(Box::new(move |_, _, _, bytes| {
        lost += u32::from(bytes[0] == PONG);
        if bytes[0] == PONG && lost <= 6 { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
    falls_back(&mut world, client, ticket, 5, "lost PONGs");
}

#[test]
fn a_forged_syn_ack_beside_a_good_ticket_does_not_stop_or_double_anything() {
    // Answers that anyone who sees the client's packets can make up: SYN-ACK with an invalid cookie.
    for (seed, flags, lost_pongs) in [(6, 2, 0), (7, 2, 3), (8, 0, 0), (9, 2, 1)] {
        let (mut world, client) = world(seed, "delay=25ms");
        let ticket = first_visit(&mut world, client, 1000);
        while world.accept().is_some() {}
        let forged: Rc<RefCell<Option<Vec<u8>>>> = Rc::default();
        let make = Rc::clone(&forged);
        let mut pongs = 0;
        world.set_tap(Box::new(move |_, _, _, bytes| {
            if bytes[0] == PING {
                let mut packet = vec![SYN_ACK];
                packet.extend_from_slice(&bytes[9..17]);
                packet.extend_from_slice(&0x5748_0001u32.to_be_bytes());
                // In one case with the id of the ticket.
                packet.extend_from_slice(if seed == 9 { &bytes[1..9] } else { &[9; 8] });
                packet.extend_from_slice(&[flags, 0x20]);
                packet.extend_from_slice(&[5; 32]);
                make.borrow_mut().get_or_insert(packet);
            }
            pongs += u32::from(bytes[0] == PONG);
            if bytes[0] == PONG && pongs <= lost_pongs { TapVerdict::Drop } else { TapVerdict::Pass }
        }));
        let handle = world.connect_by(client, ticket);
        for i in 0..COUNT as u32 {
            send(&mut world, client, handle, Bytes::copy_from_slice(&i.to_be_bytes().repeat(100)));
        }
        world.run(ms(5));
        let (server, here) = (world.address(SERVER), world.address(client));
        let forged = forged.borrow().clone().unwrap();
        world.inject(server, here, &forged);
        let got = deliveries(&mut world, COUNT, Duration::from_secs(10));
        assert_eq!(got.len(), 1, "seed {seed}");
        assert_eq!(got[0].1.len(), COUNT, "seed {seed}");
        assert!(world.peer(client, handle).connection.is_established());
    }
}

#[test]
fn a_silent_client_gets_three_times_what_it_sent() {
    let (mut world, client) = world(10, "delay=25ms");
    let ticket = first_visit(&mut world, client, 1000);
    while world.accept().is_some() {}
    let (up, down) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let server_address = world.address(SERVER);
    let (sent, answered) = (Rc::clone(&up), Rc::clone(&down));
    // The client's address is a victim's: it sends nothing more, and what it receives is counted and dropped.
    world.set_tap(Box::new(move |_, from, _, bytes| {
        if from == server_address {
            answered.set(answered.get() + bytes.len());
            return TapVerdict::Drop;
        }
        if sent.get() >= 600 {
            return TapVerdict::Drop;
        }
        sent.set(sent.get() + bytes.len());
        TapVerdict::Pass
    }));
    let handle = world.connect_by(client, ticket);
    send(&mut world, client, handle, &[3; 500][..]);
    let mut server = None;
    assert!(world.run_until(Duration::from_secs(1), |world| {
        server = world.accept();
        server.is_some()
    }));
    let server = server.unwrap();
    for _ in 0..100 {
        send(&mut world, SERVER, server, vec![8; 1000]);
    }
    world.run(Duration::from_secs(8));
    assert!(down.get() > up.get(), "something was answered: {} to {}", down.get(), up.get());
    assert!(down.get() <= 3 * up.get(), "{} bytes for {}", down.get(), up.get());
    // The limit also holds after the end.
    world.run(Duration::from_secs(60));
    assert!(down.get() <= 3 * up.get(), "{} bytes for {}", down.get(), up.get());
    assert!(world.try_peer(SERVER, server).is_none_or(|peer| peer.connection.is_closed()));
}

#[test]
fn the_remembered_rate_is_used_and_not_exceeded() {
    const LINK: &str = "rate=20mbit,delay=50ms,queue=100ms";
    let (mut world, client) = world(11, LINK);
    let ticket = first_visit(&mut world, client, 8_000_000);
    let memory = ticket.memory.unwrap();
    assert!((2_200_000..2_800_000).contains(&memory.rate), "{memory:?}");
    assert!((ms(100)..ms(115)).contains(&memory.rtt), "{memory:?}");
    let arrived_after = |world: &mut World, ticket: Option<Ticket>| {
        while world.accept().is_some() {}
        let start = world.now();
        let handle = match ticket {
            Some(ticket) => world.connect_by(client, ticket),
            None => world.connect(client),
        };
        for _ in 0..400 {
            send(world, client, handle, vec![1; 1000]);
        }
        let sent: Rc<RefCell<Vec<(Time, usize)>>> = Rc::default();
        let log = Rc::clone(&sent);
        let server = world.address(SERVER);
        world.set_tap(Box::new(move |now, _, to, bytes| {
            if to == server {
                log.borrow_mut().push((now, bytes.len() + 28));
            }
            TapVerdict::Pass
        }));
        let got = deliveries(world, 400, Duration::from_secs(10));
        assert_eq!(got.iter().map(|(_, got)| got.len()).sum::<usize>(), 400);
        let last = sent.borrow().iter().filter(|(_, size)| *size > 1000).map(|(at, _)| *at).max().unwrap();
        let early: usize =
            sent.borrow().iter().filter(|(at, _)| at.since(start) < ms(100)).map(|(_, size)| size).sum();
        close(world, client, handle);
        (last.since(start), early)
    };
    let (took, early) = arrived_after(&mut world, Some(ticket));
    let ideal = Duration::from_secs_f64(400.0 * 1100.0 / 2_500_000.0);
    assert!(took < ideal + ms(60), "{took:?} to send what the link carries in {ideal:?}");
    // No more than a burst allows in addition.
    assert!(early as f64 <= memory.rate as f64 * 0.1 + 12_000.0, "{early} bytes in the first round trip");
    let (cold, _) = arrived_after(&mut world, None);
    assert!(took + ms(60) < cold, "{took:?} with a ticket, {cold:?} without");
}

#[test]
fn a_client_that_only_listens_has_the_servers_memory() {
    let (mut world, client) = world(12, "rate=20mbit,delay=50ms,queue=100ms");
    let handle = world.connect(client);
    let mut server = None;
    world.run_until(Duration::from_secs(1), |world| {
        server = server.or_else(|| world.accept());
        server.is_some()
    });
    let server = server.unwrap();
    for _ in 0..6000 {
        send(&mut world, SERVER, server, vec![1; 1000]);
    }
    let mut got = 0;
    assert!(world.run_until(Duration::from_secs(20), |world| {
        got += received(world, client, handle).len();
        got == 6000
    }));
    close(&mut world, client, handle);
    let ticket = tickets(&mut world, client, handle).pop().unwrap();
    let _again = world.connect_by(client, ticket);
    assert!(world.run_until(Duration::from_secs(1), |world| {
        world.accept().is_some_and(|server| {
            let now = world.now();
            let stats = world.peer(SERVER, server).connection.stats(now);
            assert!((2_000_000..3_000_000).contains(&stats.paths[0].congestion.bandwidth), "{stats:?}");
            true
        })
    }));
}
