//! The hard cases: those of the QUIC interop runner, and the bad input that a transport on the open net must bear. Each asserts
//! what a user relies on. The clock is virtual, so times are exact.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::crypto::Identity;
use whimbrel_proto::handshake::ServerKey;
use whimbrel_proto::session::{Outcome, Outgoing, SessionEvent};
use whimbrel_proto::{
    Cause, CloseReason, Event, ListenConfig, Repeats, Service, StreamId, Tag, Time, TransportConfig,
};
use whimbrel_sim::link::{LinkConfig, Outage, Window};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict, World};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn config() -> TransportConfig {
    TransportConfig::default()
}

fn numbered(number: u32, length: usize) -> Bytes {
    let mut payload = vec![number as u8; length.max(4)];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    payload.into()
}

fn number_of(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[..4].try_into().unwrap())
}

/// Sends `count` messages of `length` from `from`, reads them at the other end, and checks that all arrive once and in order.
fn transfer(pair: &mut Pair, from: End, count: u32, length: usize, limit: Duration) -> Duration {
    let begin = pair.now();
    for number in 0..count {
        pair.send(from, Service::ReliableSequenced, numbered(number, length));
    }
    let mut got = 0;
    let done = pair.run_until(limit, |pair| {
        for message in pair.recv(from.other()) {
            assert_eq!(number_of(&message.payload), got, "in order and once");
            assert_eq!(message.payload, numbered(got, length), "intact");
            got += 1;
        }
        got == count
    });
    let why = (pair.closed(End::Client), pair.closed(End::Server));
    assert!(done, "{got} of {count} after {limit:?}; ends: {why:?}");
    pair.now().since(begin)
}

/// Every datagram that leaves a node: when, from, to, what.
type Trace = Rc<RefCell<Vec<(Time, SocketAddr, SocketAddr, Vec<u8>)>>>;

fn trace(world: &mut World) -> Trace {
    let trace = Trace::default();
    let out = trace.clone();
    world.set_tap(Box::new(move |now, from, to, bytes| {
        out.borrow_mut().push((now, from, to, bytes.clone()));
        TapVerdict::Pass
    }));
    trace
}

// --- Handshake ---

#[test]
fn forged_pings_are_at_nobodys_charge() {
    let listen = ListenConfig { pings_per_address: 2, ..ListenConfig::default() };
    let world = World::new(1, config(), listen);
    let link: LinkConfig = "delay=10ms,rate=10mbit".parse().unwrap();
    let mut pair = Pair::join(world, config(), link.clone(), link.clone());
    let trace = trace(&mut pair.world);
    assert!(pair.settle(SECOND));
    let (_, from, to, mut ping) =
        trace.borrow().iter().find(|(_, _, _, bytes)| bytes[0] == 0x84).cloned().unwrap();
    pair.run(2 * SECOND);
    // The same second, the same address, and a cookie that is none.
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
    let listen = ListenConfig { allow: Some(BTreeSet::new()), ..ListenConfig::default() };
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
        // Cookies grow old in the meantime.
        pair.run(SECOND * (1 + 6 * round));
    }
    got += pair.recv(End::Server).len();
    assert_eq!(got, 5);
    assert_eq!(pair.world.endpoint(SERVER).connections(), 1);
    assert_eq!((pair.closed(End::Client), pair.closed(End::Server)), (None, None));
    transfer(&mut pair, End::Client, 10, 100, SECOND);
}

#[test]
fn replayed_and_duplicated_sealed_packets_deliver_nothing_twice() {
    let mut pair = Pair::connected(5, config(), "delay=20ms,duplicate=100%,rate=10mbit");
    let sent = trace(&mut pair.world);
    for number in 0..200 {
        let service = Service::ALL[number as usize % 4];
        pair.send(End::Client, service, numbered(number, 700));
    }
    pair.run(2 * SECOND);
    let got: Vec<u32> = pair.recv(End::Server).iter().map(|message| number_of(&message.payload)).collect();
    assert_eq!(got.len(), 200);
    assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), 200);
    let packets = sent.borrow().clone();
    for (_, from, to, bytes) in &packets {
        pair.world.inject(*from, *to, bytes);
    }
    pair.run(SECOND);
    assert_eq!(pair.recv(End::Server).len(), 0);
    assert_eq!(pair.closed(End::Server), None);
}

// --- Movement ---

#[test]
fn a_transfer_survives_a_nat_that_rebinds_the_port_every_five_seconds() {
    survives_rebinding(World::rebind);
}

#[test]
fn a_transfer_survives_a_nat_that_rebinds_address_and_port_every_five_seconds() {
    survives_rebinding(World::rebind_address);
}

fn survives_rebinding(rebind: fn(&mut World, usize)) {
    let mut pair = Pair::connected(6, config(), "delay=25ms,rate=2mbit,queue=100ms");
    let client = pair.client;
    let mut next = pair.now() + 5 * SECOND;
    let (mut sent, mut got) = (0u32, 0u32);
    let done = pair.run_until(30 * SECOND, |pair| {
        if pair.now() >= next {
            rebind(&mut pair.world, client);
            next = pair.now() + 5 * SECOND;
        }
        while sent < 4000 && sent < got + 300 {
            pair.send(End::Client, Service::ReliableSequenced, numbered(sent, 1000));
            sent += 1;
        }
        for message in pair.recv(End::Server) {
            assert_eq!(number_of(&message.payload), got);
            got += 1;
        }
        got == 4000
    });
    assert!(done, "{got} of 4000");
    let moves = |events: Vec<Event>| {
        events.iter().filter(|event| matches!(event, Event::PeerAddressChanged { .. })).count()
    };
    assert!(moves(pair.events(End::Server)) >= 3, "{:?}", pair.events(End::Server));
    assert_eq!(moves(pair.events(End::Client)), 0);
}

#[test]
fn a_download_goes_on_after_the_clients_nat_rebinds() {
    // The client only acknowledges: its acknowledgements show the server where it is now.
    let mut pair = Pair::connected(7, config(), "delay=25ms,rate=2mbit,queue=100ms");
    for number in 0..2000 {
        pair.send(End::Server, Service::ReliableSequenced, numbered(number, 1000));
    }
    let (mut got, mut rebound) = (0, None);
    let done = pair.run_until(20 * SECOND, |pair| {
        got += pair.recv(End::Client).len();
        if got > 500 && rebound.is_none() {
            rebound = Some(pair.now());
            pair.world.rebind(pair.client);
        }
        got == 2000
    });
    assert!(done, "{got} of 2000");
    let took = pair.now().since(rebound.unwrap());
    assert!(took < 8 * SECOND, "2 Mbit/s carries the rest in 6.2 s; it took {took:?}");
}

#[test]
fn a_copied_packet_with_a_forged_source_redirects_nothing() {
    let mut pair = Pair::connected(8, config(), "delay=25ms,rate=2mbit,queue=100ms");
    let sent = trace(&mut pair.world);
    let server = pair.world.address(SERVER);
    let forged: SocketAddr = "192.0.2.66:666".parse().unwrap();
    for number in 0..400 {
        pair.send(End::Server, Service::ReliableSequenced, numbered(number, 1000));
        pair.send(End::Client, Service::ReliableSequenced, numbered(number, 100));
    }
    let (mut seen, mut got, mut fed) = (0, 0, 0);
    let done = pair.run_until(10 * SECOND, |pair| {
        // The attacker is nearer: its copy of each of the client's packets arrives first.
        let news: Vec<_> = sent.borrow()[seen..].to_vec();
        seen += news.len();
        for (_, from, to, bytes) in news {
            if to == server && from != forged {
                fed += bytes.len();
                pair.world.inject(forged, to, &bytes);
            }
        }
        got += pair.recv(End::Client).len();
        got == 400
    });
    assert!(done, "{got} of 400");
    assert!(!pair.events(End::Server).iter().any(|event| matches!(event, Event::PeerAddressChanged { .. })));
    let leaked: usize =
        sent.borrow().iter().filter(|(_, _, to, _)| *to == forged).map(|(.., b)| b.len()).sum();
    assert!(leaked <= 3 * fed, "three times what came from there at the most: {leaked} for {fed}");
    assert!(leaked < 10_000, "challenges only: {leaked}");
}

// --- Bad links ---

#[test]
fn a_transfer_gets_through_a_link_that_is_down_two_seconds_of_seven() {
    let mut pair = Pair::connected(9, config(), "delay=20ms,rate=2mbit,queue=100ms,outage=5s/2s");
    let took = transfer(&mut pair, End::Client, 3000, 1000, 60 * SECOND);
    // 12.4 s of transmission and two outages.
    assert!(took < 19 * SECOND, "{took:?}");
}

fn outage(pair: &mut Pair, at: Time, length: Duration, base: &str) {
    let mut link: LinkConfig = base.parse().unwrap();
    link.outage = Outage::Scheduled(vec![Window { at: at.since(Time::ZERO), length }]);
    let client = pair.client;
    pair.world.link(client, SERVER).reconfigure(link.clone());
    pair.world.link(SERVER, client).reconfigure(link);
}

#[test]
fn bulk_is_silent_no_longer_than_the_outage_and_a_round_trip_and_a_quarter_second() {
    const LINK: &str = "delay=25ms,rate=4mbit,queue=100ms";
    for seconds in 1..=10 {
        let mut pair = Pair::connected(10 + seconds, config(), LINK);
        for number in 0..8000 {
            pair.send(End::Client, Service::ReliableSequenced, numbered(number, 1000));
        }
        pair.run(2 * SECOND);
        let (at, length) = (pair.now(), SECOND * seconds as u32);
        outage(&mut pair, at, length, LINK);
        pair.run(200 * MS);
        pair.recv(End::Server);
        let end = at + length;
        let back = pair.run_until(length + 5 * SECOND, |pair| {
            let received = pair.recv(End::Server).len();
            received > 0 && pair.now() >= end
        });
        assert!(back);
        let late = pair.now().since(end);
        assert!(late <= 50 * MS + 250 * MS, "{seconds} s of outage: silent for {late:?} more");
    }
}

/// 10 updates a second through an outage; the numbers that arrive after it, and when the first does after its end.
fn updates(seed: u64, length: Duration, replace: bool) -> (Vec<u32>, Duration, u32) {
    const LINK: &str = "delay=25ms,rate=1mbit,queue=100ms";
    let mut pair = Pair::connected(seed, config(), LINK);
    let at = pair.now() + 2 * SECOND;
    let end = at + length;
    outage(&mut pair, at, length, LINK);
    let (mut number, mut next) = (0, pair.now());
    let mut after = Vec::new();
    let (mut first, mut newest) = (None, 0);
    while pair.now() < end + 3 * SECOND {
        if pair.now() >= next {
            next = pair.now() + 100 * MS;
            let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, numbered(number, 60));
            let now = pair.now();
            let session = pair.session(End::Client);
            match replace {
                true => drop(session.replace(now, StreamId(0), Tag(1), message).unwrap()),
                false => drop(session.send(now, message).unwrap()),
            }
            number += 1;
        }
        let step = next;
        pair.run_until(step.since(pair.now()), |pair| {
            for message in pair.recv(End::Server) {
                if pair.now() >= end {
                    if first.is_none() {
                        // The newest whose word can have reached the other side by now.
                        newest = number - 1;
                        first = Some(pair.now().since(end));
                    }
                    after.push(number_of(&message.payload));
                }
            }
            false
        });
    }
    (after, first.expect("something arrives after the outage"), newest)
}

#[test]
fn with_replace_the_first_update_after_an_outage_is_fresh_and_the_newest() {
    for seconds in [1, 2, 3, 5, 7, 10] {
        let (after, silence, newest) = updates(seconds, SECOND * seconds as u32, true);
        assert!(silence <= 50 * MS + 250 * MS, "{seconds} s: {silence:?}");
        // One may have been sent while it was on its way.
        assert!(newest - after[0] <= 1, "{seconds} s: {} when {newest} was the newest", after[0]);
        assert!(after.is_sorted(), "{after:?}");
    }
}

#[test]
fn without_replace_all_updates_arrive_in_order_after_an_outage() {
    for seconds in [1, 2, 3, 5, 7, 10] {
        let (after, silence, _) = updates(seconds, SECOND * seconds as u32, false);
        assert!(silence <= 50 * MS + 250 * MS, "{seconds} s: {silence:?}");
        let expected: Vec<u32> = (after[0]..after[0] + after.len() as u32).collect();
        assert_eq!(after, expected);
        assert!(after[0] <= 21, "those of the outage are among them: first {}", after[0]);
    }
}

#[test]
fn discovery_finds_the_largest_packet_a_smaller_link_takes() {
    for mtu in [1228usize, 1280, 1350, 1400, 1492, 1500, 9000] {
        let mut pair = Pair::connected(20, config(), &format!("delay=10ms,rate=50mbit,mtu={mtu}"));
        transfer(&mut pair, End::Client, 3000, 1000, 10 * SECOND);
        let found = usize::from(pair.stats(End::Client).paths[0].mtu);
        let right = (mtu - 28).min(1472);
        assert!(found <= right && found + 20 >= right.min(1472), "link {mtu}: found {found}");
        let named = pair.events(End::Client).iter().rev().find_map(|event| match event {
            Event::MaxUnfragmented(size) => Some(*size),
            _ => None,
        });
        assert!(found == 1200 || named.is_some(), "the application is told");
    }
}

#[test]
fn a_path_whose_mtu_drops_under_way_is_a_black_hole_for_a_moment_only() {
    let mut pair = Pair::connected(21, config(), "delay=10ms,rate=20mbit,mtu=1500");
    transfer(&mut pair, End::Client, 100, 10_000, 5 * SECOND);
    assert_eq!(pair.stats(End::Client).paths[0].mtu, 1472);
    pair.relink("delay=10ms,rate=20mbit,mtu=1300");
    let took = transfer(&mut pair, End::Client, 100, 10_000, 10 * SECOND);
    assert!(took < 2 * SECOND, "{took:?}");
    assert!(pair.stats(End::Client).paths[0].mtu <= 1272);
}

#[test]
fn ecn_marks_reach_the_controller() {
    let run = |mark: &str| {
        let mut config = config();
        config.congestion = whimbrel_proto::congestion::Congestion::Cubic;
        let mut pair = Pair::connected(22, config, &format!("delay=20ms,rate=4mbit,queue=400ms{mark}"));
        let took = transfer(&mut pair, End::Client, 3000, 1000, 20 * SECOND);
        let client = pair.client;
        let link = pair.world.link(client, SERVER).stats().clone();
        (took, link.ce_marked, link.queue_drops, link.queue_delay.quantile(0.95))
    };
    let (plain, none, _, unmarked_delay) = run("");
    let (marked_took, marks, drops, delay) = run(",ecn_mark=20ms");
    assert_eq!(none, 0);
    assert!(marks > 0);
    assert_eq!(drops, 0, "marks come before drops");
    assert!(delay < unmarked_delay, "marks shorten the queue: {delay:?} and {unmarked_delay:?} without");
    assert!(marked_took < plain * 2);
}

// --- Ends ---

#[test]
fn a_polite_close_delivers_what_both_sides_have_queued() {
    for seed in 0..20 {
        let mut pair = Pair::connected(seed, config(), "delay=20ms,rate=2mbit,queue=100ms,loss=10%");
        for number in 0..200 {
            pair.send(End::Client, Service::ReliableSequenced, numbered(number, 1000));
            pair.send(End::Server, Service::ReliableUnsequenced, numbered(number, 1000));
        }
        pair.close(End::Client, 9, "that was all");
        let mut got = [0, 0];
        let closed = pair.run_until(12 * SECOND, |pair| {
            got[0] += pair.recv(End::Client).len();
            got[1] += pair.recv(End::Server).len();
            pair.both_closed()
        });
        assert!(closed, "seed {seed}");
        assert_eq!(
            got,
            [200, 200],
            "seed {seed}: {:?}",
            (pair.closed(End::Client), pair.closed(End::Server))
        );
        assert_eq!(pair.closed(End::Client), Some(CloseReason::Local));
        let Some(CloseReason::Peer(reason)) = pair.closed(End::Server) else { panic!("seed {seed}") };
        assert_eq!((reason.code, reason.text.as_str()), (9, "that was all"));
    }
}

#[test]
fn closes_that_cross_end_both_sides_with_everything_delivered() {
    for seed in 0..20 {
        let mut pair = Pair::connected(seed, config(), "delay=20ms,rate=2mbit,queue=100ms,loss=10%");
        for number in 0..50 {
            pair.send(End::Client, Service::ReliableSequenced, numbered(number, 1000));
            pair.send(End::Server, Service::ReliableSequenced, numbered(number, 1000));
        }
        pair.close(End::Client, 1, "here");
        pair.close(End::Server, 2, "there");
        let mut got = [0, 0];
        let begin = pair.now();
        let closed = pair.run_until(12 * SECOND, |pair| {
            got[0] += pair.recv(End::Client).len();
            got[1] += pair.recv(End::Server).len();
            pair.both_closed()
        });
        assert!(closed, "seed {seed}");
        assert_eq!(got, [50, 50], "seed {seed}");
        let took = pair.now().since(begin);
        assert!(took < 5 * SECOND, "seed {seed}: not by patience running out: {took:?}");
    }
}

#[test]
fn an_abort_ends_both_sides_at_once_and_says_why() {
    let mut pair = Pair::connected(23, config(), "delay=20ms,rate=2mbit");
    for number in 0..500 {
        let message = Outgoing {
            tracked: true,
            ..Outgoing::new(StreamId(0), Service::ReliableSequenced, numbered(number, 1000))
        };
        pair.try_send(End::Client, message).unwrap();
    }
    pair.run(100 * MS);
    let now = pair.now();
    pair.connection(End::Client).abort(now, 77, "enough");
    assert!(pair.run_until(SECOND, Pair::both_closed));
    // The queue of the link is before the last packet.
    assert!(pair.now().since(now) <= 130 * MS, "{:?}", pair.now().since(now));
    let Some(CloseReason::Aborted(Cause::Application, reason)) = pair.closed(End::Server) else {
        panic!("{:?}", pair.closed(End::Server))
    };
    assert_eq!((reason.code, reason.text.as_str()), (77, "enough"));
    let outcomes =
        pair.news(End::Client).into_iter().filter(|news| matches!(news, SessionEvent::Outcome(..)));
    assert_eq!(outcomes.count(), 500, "every tracked message has an outcome");
}

#[test]
fn a_peer_that_is_killed_is_unreachable_soon_and_given_up_in_the_end() {
    let mut config = config();
    config.idle_timeout = 20 * SECOND;
    config.reattach = None;
    let mut pair = Pair::connected(24, config, "delay=20ms,rate=2mbit,queue=100ms");
    for number in 0..2000 {
        let message = Outgoing {
            tracked: true,
            ..Outgoing::new(StreamId(0), Service::ReliableSequenced, numbered(number, 1000))
        };
        pair.try_send(End::Client, message).unwrap();
    }
    pair.run(2 * SECOND);
    pair.world.kill(SERVER);
    let killed = pair.now();
    assert!(pair.run_until(SECOND, |pair| pair.events(End::Client).contains(&Event::PeerUnreachable)));
    assert!(pair.run_until(25 * SECOND, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::TimedOut));
    let took = pair.now().since(killed);
    assert!(took <= 20 * SECOND + 40 * MS && took >= 19 * SECOND, "{took:?}");
    let outcomes: Vec<Outcome> = pair
        .news(End::Client)
        .into_iter()
        .filter_map(|news| match news {
            SessionEvent::Outcome(_, outcome) => Some(outcome),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes.len(), 2000, "nothing is left without an outcome");
    assert!(outcomes.contains(&Outcome::Unknown));
    pair.run(60 * SECOND);
    let client = pair.client;
    assert_eq!(pair.world.endpoint(client).connections(), 0, "its ids are free");
}

#[test]
fn a_peer_is_unreachable_when_three_probes_went_unanswered_and_not_before() {
    for seed in 40..50 {
        let mut pair = Pair::connected(seed, config(), "delay=20ms");
        pair.run(5 * SECOND);
        pair.world.kill(SERVER);
        let sent = |pair: &mut Pair| {
            let now = pair.now();
            pair.connection(End::Client).stats(now).total.sent_packets
        };
        let before = sent(&mut pair);
        pair.send(End::Client, Service::ReliableSequenced, numbered(1, 100));
        let unreachable = |pair: &mut Pair| pair.events(End::Client).contains(&Event::PeerUnreachable);
        assert!(pair.run_until(2 * SECOND, unreachable));
        // The message, its repetition since it is small, and the probes.
        let packets = sent(&mut pair) - before;
        assert!((4..=5).contains(&packets), "seed {seed}: {packets} packets");
    }
}

#[test]
fn a_restarted_server_is_noticed_at_once() {
    let mut pair = Pair::connected(25, config(), "delay=20ms,rate=2mbit");
    pair.run(SECOND);
    pair.world.restart_server();
    pair.send(End::Client, Service::ReliableSequenced, numbered(1, 100));
    let begin = pair.now();
    assert!(pair.run_until(SECOND, |pair| pair.events(End::Client).contains(&Event::Detached)));
    assert!(pair.now().since(begin) <= 50 * MS, "one round trip: {:?}", pair.now().since(begin));
    // Then it is asked whether it has the session: a handshake.
    assert!(pair.run_until(SECOND, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::PeerRestarted));
    assert!(pair.now().since(begin) <= 130 * MS, "and two more: {:?}", pair.now().since(begin));
}

#[test]
fn a_restarted_server_ends_the_session_at_once_where_it_does_not_outlive_its_connection() {
    let mut config = config();
    config.reattach = None;
    let mut pair = Pair::connected(25, config, "delay=20ms,rate=2mbit");
    pair.run(SECOND);
    pair.world.restart_server();
    pair.send(End::Client, Service::ReliableSequenced, numbered(1, 100));
    let begin = pair.now();
    assert!(pair.run_until(SECOND, |pair| pair.closed(End::Client).is_some()));
    assert_eq!(pair.closed(End::Client), Some(CloseReason::PeerRestarted));
    assert!(pair.now().since(begin) <= 50 * MS, "one round trip: {:?}", pair.now().since(begin));
}

// --- Load and rest ---

#[test]
fn keys_rotate_under_load_in_both_directions() {
    for seed in 0..5 {
        let mut config = config();
        config.key_update_packets = 50;
        let link = "delay=20ms,rate=10mbit,queue=100ms,loss=5%,reorder=5%,duplicate=5%";
        let mut pair = Pair::connected(seed, config, link);
        for number in 0..2000 {
            pair.send(End::Client, Service::ReliableSequenced, numbered(number, 1000));
            pair.send(End::Server, Service::ReliableSequenced, numbered(number, 1000));
        }
        let mut got = [0, 0];
        let done = pair.run_until(20 * SECOND, |pair| {
            got[0] += pair.recv(End::Client).len();
            got[1] += pair.recv(End::Server).len();
            got == [2000, 2000]
        });
        assert!(done, "seed {seed}: {got:?}; {:?}", (pair.closed(End::Client), pair.closed(End::Server)));
        for end in End::BOTH {
            let stats = pair.stats(end);
            assert!(stats.key_updates > 10, "seed {seed}: {}", stats.key_updates);
            let forged = stats.dropped.forged;
            assert!(forged * 20 < stats.paths[0].received_packets, "seed {seed}: {forged} did not open");
        }
    }
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

#[test]
fn an_idle_connection_sends_only_keep_alives() {
    let mut pair = Pair::connected(27, config(), "delay=20ms");
    pair.run(5 * SECOND);
    let sent = trace(&mut pair.world);
    pair.run(600 * SECOND);
    // Every 25 s one from each side at the most, and its answer.
    let packets = sent.borrow().len();
    assert!(packets <= 4 * 600 / 25, "{packets} packets in ten minutes");
    assert!(packets >= 24, "NAT bindings are kept: {packets}");
    assert_eq!((pair.closed(End::Client), pair.closed(End::Server)), (None, None));
    let total: usize = sent.borrow().iter().map(|(.., bytes)| bytes.len()).sum();
    assert!(total < packets * 100, "and small ones: {total} bytes");
}

#[test]
fn garbage_disturbs_nothing_and_is_counted() {
    let mut pair = Pair::connected(28, config(), "delay=20ms,rate=4mbit");
    let sent = trace(&mut pair.world);
    for number in 0..200 {
        pair.send(End::Client, Service::ReliableSequenced, numbered(number, 1000));
    }
    let (mut seen, mut got, mut dice) = (0, 0, 1u32);
    let done = pair.run_until(5 * SECOND, |pair| {
        let news: Vec<_> = sent.borrow()[seen..].to_vec();
        seen += news.len();
        for (_, from, to, bytes) in news {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Truncated, damaged, and grown.
            let mut short = bytes.clone();
            short.truncate(dice as usize % bytes.len());
            let mut damaged = bytes.clone();
            damaged[dice as usize % bytes.len()] ^= 1 | (dice >> 24) as u8;
            let mut long = bytes.clone();
            long.extend_from_slice(&dice.to_be_bytes());
            for packet in [short, damaged, long] {
                pair.world.inject(from, to, &packet);
            }
        }
        got += pair.recv(End::Server).len();
        got == 200
    });
    assert!(done, "{got}: {:?}", (pair.closed(End::Client), pair.closed(End::Server)));
    assert!(pair.stats(End::Server).dropped.forged > 100);
}

/// The delay that 99 % of 100 messages a second stay below, at 5 % loss both ways and 40 ms of round trip.
fn tail(repeats: Repeats) -> Duration {
    let mut config = config();
    config.repeats = repeats;
    let mut pair = Pair::connected(29, config, "delay=20ms,loss=5%");
    let mut delays = Vec::new();
    let mut sent_at = Vec::new();
    for number in 0..2000 {
        sent_at.push(pair.now());
        pair.send(End::Client, Service::ReliableUnsequenced, numbered(number, 100));
        let next = pair.now() + 10 * MS;
        pair.run_until(10 * MS, |pair| {
            for message in pair.recv(End::Server) {
                delays.push(pair.now().since(sent_at[number_of(&message.payload) as usize]));
            }
            pair.now() >= next
        });
    }
    delays.sort();
    delays[delays.len() * 99 / 100]
}

#[test]
fn repeats_make_the_tail_of_sparse_traffic_short() {
    let tail = tail(Repeats::Adaptive);
    assert!(tail <= 35 * MS, "{tail:?}");
}

#[test]
fn without_repeats_the_tail_is_a_round_trip_more() {
    let tail = tail(Repeats::Fixed(0));
    assert!(tail <= 75 * MS, "{tail:?}");
}

/// SACK of every packet up to `largest` on the first path.
fn sack_of_all(largest: u64) -> Bytes {
    let varint = (0x8000_0000 | u32::try_from(largest).unwrap()).to_be_bytes();
    [&[1, 0, 0][..], &varint, &[0, 0], &varint].concat().into()
}

#[test]
fn who_acknowledges_what_it_did_not_get_is_found_out() {
    let mut pair = Pair::connected(5, config(), "rate=20mbit, delay=20ms, loss=2%, reorder=5%");
    transfer(&mut pair, End::Server, 2_000, 1_000, 60 * SECOND);
    let stats = pair.stats(End::Server);
    let path = &stats.paths[0];
    assert!(path.left_out >= 3, "{path:?}");
    assert_eq!((pair.closed(End::Server), stats.dropped.made_up), (None, 0), "an honest peer");
    // PONG is number 0.
    let largest = path.sent_packets + path.left_out;
    let now = pair.now();
    pair.connection(End::Server).handle_blocks(now, sack_of_all(largest));
    pair.run(SECOND);
    let why = pair.closed(End::Server);
    let Some(CloseReason::PeerMisbehaved(why)) = why else { panic!("{why:?}") };
    assert_eq!(
        (why.cause, why.what),
        (Cause::AckOfUnsent, "a packet was acknowledged whose number was left out")
    );
    assert_eq!(pair.stats(End::Server).dropped.made_up, 1);
    let told = pair.closed(End::Client);
    assert!(matches!(told, Some(CloseReason::Aborted(Cause::AckOfUnsent, _))), "{told:?}");
}
