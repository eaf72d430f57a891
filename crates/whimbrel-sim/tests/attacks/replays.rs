//! An attacker without keys keeps packets that pass and sends them again, from anywhere and as often as it likes.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use whimbrel_link::LinkConfig;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{
    CloseReason, Event, PathStats, PrimaryRule, Scheduling, Service, StreamId, Time, TransportConfig,
};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::{SERVER, TapVerdict};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const RS: Service = Service::ReliableSequenced;
const CLEAR: u8 = 0x80;
const PING: u8 = 0x84;
const PONG: u8 = 0x85;

/// An address that nobody has.
fn nobody() -> SocketAddr {
    "203.0.113.9:1".parse().expect("it is one")
}

/// The packets that passed: from, to, bytes.
type Heard = Rc<RefCell<Vec<(SocketAddr, SocketAddr, Vec<u8>)>>>;

/// Counts of packets and bytes.
type Sum = Rc<Cell<(usize, usize)>>;

fn overhear(pair: &mut Pair, mut verdict: impl FnMut(SocketAddr, &[u8]) -> TapVerdict + 'static) -> Heard {
    let heard = Heard::default();
    let tape = Rc::clone(&heard);
    pair.world.set_tap(Box::new(move |_, from, to, bytes| {
        tape.borrow_mut().push((from, to, bytes.clone()));
        verdict(from, bytes)
    }));
    heard
}

/// The packets of `heard` that came from `node` and are sealed.
fn sealed_of(pair: &Pair, heard: &Heard, node: usize) -> Vec<Vec<u8>> {
    let own = pair.world.address(node);
    let heard = heard.borrow();
    let of = heard.iter().filter(|(from, _, bytes)| *from == own && bytes[0] & CLEAR == 0);
    of.map(|(_, _, bytes)| bytes.clone()).collect()
}

/// Counts what a node sends, and lets `verdict` decide about packets of others.
fn count(pair: &mut Pair, node: usize, mut verdict: impl FnMut(SocketAddr) -> TapVerdict + 'static) -> Sum {
    let (sum, own) = (Sum::default(), pair.world.address(node));
    let counted = Rc::clone(&sum);
    pair.world.set_tap(Box::new(move |_, from, _, bytes| {
        if from == own {
            let (packets, length) = counted.get();
            counted.set((packets + 1, length + bytes.len()));
        }
        verdict(from)
    }));
    sum
}

/// Sends `bytes` to the server a thousand times in a second.
fn replay(pair: &mut Pair, from: SocketAddr, bytes: &[u8]) {
    let server = pair.world.address(SERVER);
    for _ in 0..1000 {
        pair.world.inject(from, server, bytes);
        pair.run(MS);
    }
}

#[test]
fn a_thousand_copies_of_a_packet_get_a_handful_of_answers() {
    for spoofed in [false, true] {
        let mut pair = Pair::connected(5, TransportConfig::default(), "delay=10ms");
        let client = pair.world.address(pair.client);
        let heard = overhear(&mut pair, |_, _| TapVerdict::Pass);
        for _ in 0..5 {
            pair.send(End::Client, RS, "x");
            pair.run(500 * MS);
        }
        let smallest = sealed_of(&pair, &heard, pair.client).into_iter().min_by_key(Vec::len);
        let smallest = smallest.expect("the client said something");
        pair.run(2 * SECOND);
        let sent = count(&mut pair, SERVER, |_| TapVerdict::Pass);
        replay(&mut pair, if spoofed { client } else { nobody() }, &smallest);
        let (packets, bytes) = sent.get();
        assert!(packets <= 3, "{packets} packets to the client for copies of one");
        assert!(bytes <= 3 * smallest.len(), "{bytes} bytes for copies of one of {}", smallest.len());
        assert_eq!(pair.stats(End::Server).paths[0].duplicates, 1000, "they are counted");
    }
}

/// SACKs are longest if every second packet was lost and no SACK arrived.
#[test]
fn copies_buy_no_long_answers() {
    let mut pair = Pair::connected(5, TransportConfig::default(), "delay=10ms");
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    let mut nth = 0;
    let heard = overhear(&mut pair, move |from, _| {
        nth += 1;
        let lost = from == server || nth % 2 == 0;
        if lost { TapVerdict::Drop } else { TapVerdict::Pass }
    });
    for _ in 0..400 {
        let payload = vec![7; 1100].into();
        let message = Outgoing::new(StreamId(0), Service::UnreliableUnsequenced, payload);
        // A full queue accepts no more; enough is in flight.
        pair.try_send(End::Client, message).ok();
        pair.run(5 * MS);
    }
    let smallest = sealed_of(&pair, &heard, pair.client).into_iter().min_by_key(Vec::len);
    let smallest = smallest.expect("the client said something");
    let verdict = move |from| if from == client { TapVerdict::Drop } else { TapVerdict::Pass };
    let sent = count(&mut pair, SERVER, verdict);
    replay(&mut pair, nobody(), &smallest);
    let (packets, bytes) = sent.get();
    assert!(packets <= 20 && bytes <= 1000 * smallest.len() / 4, "{packets} packets, {bytes} bytes");
}

/// Two networks, the second with the longer delay; the primary is chosen by what arrives.
fn by_arrivals() -> Pair {
    let mut transport = TransportConfig::default();
    transport.primary_rule = PrimaryRule::MostReceived;
    transport.scheduler = Scheduling::Primary;
    two(9, transport)
}

fn two(seed: u64, transport: TransportConfig) -> Pair {
    let mut pair = Pair::connected(seed, transport, "delay=10ms");
    let slow: LinkConfig = "delay=30ms".parse().expect("it is well written");
    pair.world.add_network(pair.client, slow.clone(), slow);
    for end in [End::Server, End::Client] {
        let (node, handle) = pair.place(end).expect("it is there");
        pair.world.announce(node, handle);
    }
    pair.run(3 * SECOND);
    pair
}

#[test]
fn copies_choose_no_primary() {
    let mut pair = by_arrivals();
    let seconds = [pair.client, SERVER].map(|node| pair.world.addresses(node)[1]);
    let heard = overhear(&mut pair, |_, _| TapVerdict::Pass);
    let before = End::BOTH.map(|end| pair.events(end).len());
    for round in 0..400 {
        pair.send(End::Client, RS, vec![1; 200]);
        pair.run(10 * MS);
        let copies: Vec<_> = {
            let heard = heard.borrow();
            let last = |second| heard.iter().rev().find(|(from, ..)| *from == second).cloned();
            seconds.into_iter().filter_map(last).collect()
        };
        for (_, to, bytes) in copies.iter().filter(|_| round > 200) {
            for _ in 0..20 {
                pair.world.inject(nobody(), *to, bytes);
            }
        }
    }
    let copied = pair.stats(End::Server).paths.iter().map(|path| path.duplicates).sum::<u64>();
    assert!(copied > 1000, "otherwise nothing is shown: {copied}");
    for (end, before) in End::BOTH.into_iter().zip(before) {
        let events = pair.events(end).split_off(before);
        let moved = events.iter().any(|event| matches!(event, Event::PrimaryChanged(_)));
        assert!(!moved, "{end:?}: {events:?}");
    }
}

/// The figures of a path that must not depend on copies.
fn figures(path: &PathStats) -> String {
    // Without bytes: a SACK that reports copies is longer.
    let PathStats { id, state, primary, local, remote, received_packets, .. } = path;
    let sent = (path.sent_packets, path.acked_packets, path.lost_packets, path.rtt);
    format!("{id:?} {state:?} {primary} {local:?} {remote} {received_packets} {sent:?}")
}

type Record = Vec<(Vec<(Time, Event)>, Vec<String>)>;

/// Runs a session on two paths. With `copies`, everything that passes is repeated, from an address that nobody has
/// and from its sender's.
fn session(copies: bool) -> Record {
    let mut pair = two(11, TransportConfig::default());
    let heard = overhear(&mut pair, |_, _| TapVerdict::Pass);
    for round in 0..300 {
        pair.send(End::Client, RS, vec![round as u8; 300]);
        pair.send(End::Server, RS, vec![round as u8; 100]);
        pair.run(20 * MS);
        let old: Vec<_> = heard.borrow().iter().rev().skip(30).step_by(7).take(9).cloned().collect();
        for (from, to, bytes) in old.into_iter().filter(|_| copies) {
            for source in [nobody(), from, from] {
                pair.world.inject(source, to, &bytes);
            }
        }
    }
    assert_eq!(pair.stats(End::Server).total.duplicates > 1000, copies);
    assert!(!pair.world.to_nobody().contains_key(&nobody()), "not even a challenge");
    let of = |end| {
        let paths = pair.stats(end).paths.iter().map(figures).collect();
        (pair.timed_events(end), paths)
    };
    End::BOTH.map(of).into()
}

#[test]
fn copies_of_everything_from_anywhere_change_nothing() {
    assert_eq!(session(true), session(false));
}

#[test]
fn copies_keep_nobody_alive() {
    let mut config = TransportConfig::default();
    (config.idle_timeout, config.reattach) = (20 * SECOND, None);
    let mut pair = Pair::connected(6, config, "delay=10ms");
    let heard = overhear(&mut pair, |_, _| TapVerdict::Pass);
    for _ in 0..20 {
        pair.send(End::Client, RS, "x");
        pair.run(50 * MS);
    }
    let (client, own) = (pair.client, pair.world.address(pair.client));
    let packets = sealed_of(&pair, &heard, client);
    let server = pair.world.address(SERVER);
    let dead = pair.now();
    pair.world.kill(client);
    while pair.now() < dead + 21 * SECOND {
        for packet in &packets {
            pair.world.inject(own, server, packet);
        }
        pair.run(100 * MS);
    }
    assert_eq!(pair.closed(End::Server), Some(CloseReason::TimedOut));
}

/// A copy of PING is answered by PONG while the client is not proven, and PONG may be longer.
#[test]
fn copies_of_ping_buy_few_pongs() {
    let mut pair = Pair::new(7, TransportConfig::default(), "delay=10ms");
    let (client, server) = (pair.world.address(pair.client), pair.world.address(SERVER));
    pair.send(End::Client, RS, vec![1; 20]);
    let pongs = Sum::default();
    let (heard, counted) = (Heard::default(), Rc::clone(&pongs));
    let tape = Rc::clone(&heard);
    pair.world.set_tap(Box::new(move |_, from, to, bytes| {
        if from == server && bytes[0] == PONG {
            let (packets, length) = counted.get();
            counted.set((packets + 1, length + bytes.len()));
            return TapVerdict::Drop;
        }
        let first = tape.borrow().is_empty();
        if bytes[0] == PING && first {
            tape.borrow_mut().push((from, to, bytes.clone()));
            return TapVerdict::Pass;
        }
        // Everything else from the client is lost, so that it stays unproven.
        if from == client && !first { TapVerdict::Drop } else { TapVerdict::Pass }
    }));
    assert!(pair.run_until(SECOND, |_| pongs.get().0 > 0));
    let ping = heard.borrow()[0].2.clone();
    pongs.set((0, 0));
    for from in [client, nobody()] {
        replay(&mut pair, from, &ping);
    }
    let (packets, bytes) = pongs.get();
    assert!(packets <= 24, "{packets} PONGs in two seconds for 2,000 copies of a PING");
    assert!(bytes <= 2000 * ping.len() / 10, "{bytes} bytes");
    // The client is accepted once its own PINGs get through.
    pair.world.set_tap(Box::new(|_, _, _, _| TapVerdict::Pass));
    assert!(pair.settle(2 * SECOND), "{:?}", pair.events(End::Client));
}
