//! Several paths on a virtual clock: opened automatically, used together, lost and found again.

mod alarms;
mod changeover;
mod copies;
mod cost;
mod events;
mod figures;
mod handover;
mod hostile;
mod numbered;
mod one_way;
mod primary;
mod probes;
mod rebinds;
mod resent;
mod shared;
mod slower;

use std::time::Duration;

use bytes::Bytes;
use whimbrel_link::LinkConfig;
use whimbrel_proto::{Event, PathState, Scheduling, Service, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The link of most tests, and a link through which nothing gets.
const ALIKE: &str = "rate=10mbit,delay=10ms,queue=100ms";
const DARK: &str = "rate=10mbit,delay=10ms,loss=100%";

fn config() -> TransportConfig {
    TransportConfig::default()
}

fn link(text: &str) -> LinkConfig {
    text.parse().expect("a test's link is well written")
}

fn announce(pair: &mut Pair) {
    let (client, server) = (pair.handle(End::Client), pair.handle(End::Server));
    pair.world.announce(SERVER, server);
    pair.world.announce(pair.client, client);
}

/// Two networks between the ends, both in use.
fn two(seed: u64, transport: TransportConfig, first: &str, second: &str) -> Pair {
    let mut pair = Pair::connected(seed, transport, first);
    pair.world.add_network(pair.client, link(second), link(second));
    announce(&mut pair);
    let both = pair.run_until(5 * SECOND, |pair| End::BOTH.iter().all(|end| active(pair, *end) == 2));
    assert!(both, "{:?} {:?}", pair.events(End::Client), pair.events(End::Server));
    pair
}

fn active(pair: &mut Pair, end: End) -> usize {
    let stats = pair.stats(end);
    stats.paths.iter().filter(|path| path.state == PathState::Active).count()
}

/// Keeps the sender's queue full for `time`. Returns the payload bytes received, and the longest time without any.
fn bulk(pair: &mut Pair, time: Duration) -> (u64, Duration) {
    let end = pair.now() + time;
    let payload = Bytes::from(vec![7; 8192]);
    let (mut bytes, mut last, mut gap) = (0, pair.now(), Duration::ZERO);
    pair.run_until(time, |pair| {
        while pair.connection(End::Client).session_ref().queue_room().1 > 1_000_000 {
            pair.send(End::Client, Service::ReliableSequenced, payload.clone());
        }
        for message in pair.recv(End::Server) {
            bytes += message.payload.len() as u64;
            gap = gap.max(pair.now().since(last));
            last = pair.now();
        }
        pair.now() >= end
    });
    (bytes, gap)
}

fn share(bytes: u64, time: Duration, mbit: f64) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64() / (mbit * 1e6 * 1437.0 / 1500.0)
}

#[test]
fn bandwidth_of_two_networks_adds_up() {
    let mut pair =
        two(1, config(), "rate=10mbit,delay=15ms,queue=100ms", "rate=5mbit,delay=30ms,queue=100ms");
    let (bytes, _) = bulk(&mut pair, 20 * SECOND);
    let share = share(bytes, 20 * SECOND, 15.0);
    assert!(share > 0.95, "{share:.3} of both");
}

#[test]
fn a_slow_path_does_not_hold_a_fast_one_back() {
    let mut pair =
        two(2, config(), "rate=20mbit,delay=10ms,queue=100ms", "rate=4mbit,delay=100ms,queue=100ms");
    let (bytes, _) = bulk(&mut pair, 20 * SECOND);
    let share = share(bytes, 20 * SECOND, 20.0);
    assert!(share > 0.97, "{share:.3} of the better one");
}

/// Sends messages in bursts that keep the better path busy for a while. Returns when each arrived.
fn bursts(pair: &mut Pair, burst: usize, length: usize) -> Vec<Duration> {
    const BURSTS: usize = 50;
    let mut sent = Vec::new();
    let mut late = vec![None; BURSTS * burst];
    for _ in 0..BURSTS {
        for _ in 0..burst {
            let mut payload = (sent.len() as u64).to_be_bytes().to_vec();
            payload.resize(length, 0);
            sent.push(pair.now());
            pair.send(End::Client, Service::ReliableUnsequenced, payload);
        }
        let next = pair.now() + 200 * MS;
        pair.run_until(200 * MS, |pair| {
            for message in pair.recv(End::Server) {
                let number = u64::from_be_bytes(message.payload[..8].try_into().expect("a number")) as usize;
                assert!(late[number].replace(pair.now().since(sent[number])).is_none(), "{number} twice");
            }
            pair.now() >= next
        });
    }
    late.into_iter().map(|late| late.expect("each arrives before the next burst ends")).collect()
}

#[test]
fn a_slow_path_makes_no_message_later_than_the_fast_one_alone() {
    let fast = "rate=20mbit,delay=10ms,queue=100ms";
    for (burst, length) in [(1, 200), (20, 1000), (100, 1000), (20, 10_000)] {
        let mut pair = Pair::connected(3, config(), fast);
        pair.run(SECOND);
        let alone = bursts(&mut pair, burst, length);
        let mut pair = two(3, config(), fast, "rate=4mbit,delay=100ms,queue=100ms");
        pair.run(SECOND);
        let both = bursts(&mut pair, burst, length);
        let later = |(both, alone): (&Duration, &Duration)| both.saturating_sub(*alone);
        let worst = both.iter().zip(&alone).map(later).max().unwrap_or_default();
        let [mean_both, mean_alone] =
            [&both, &alone].map(|all| all.iter().sum::<Duration>() / all.len() as u32);
        println!(
            "{burst} of {length}: {worst:?} later at most, {mean_both:?} on average, {mean_alone:?} alone"
        );
        assert!(worst <= 5 * MS, "{burst} of {length} bytes: {worst:?} later than alone");
    }
}

#[test]
fn primary_uses_one_and_moves_to_the_other_when_it_fails() {
    let mut transport = config();
    transport.scheduler = Scheduling::Primary;
    let mut pair = two(3, transport, ALIKE, ALIKE);
    let (bytes, _) = bulk(&mut pair, 3 * SECOND);
    let alone = share(bytes, 3 * SECOND, 10.0);
    assert!((0.85..1.01).contains(&alone), "{alone:.3} of one");
    pair.relink_over(0, DARK);
    let (bytes, gap) = bulk(&mut pair, 3 * SECOND);
    assert!(gap < 150 * MS, "silent for {gap:?}");
    let other = share(bytes, 3 * SECOND, 10.0);
    assert!(other > 0.8, "{other:.3} of the other");
    let events = pair.events(End::Client);
    assert!(events.iter().any(|event| matches!(event, Event::PrimaryChanged(_))), "{events:?}");
}

#[test]
fn a_path_that_goes_dark_is_not_felt_and_is_used_again_when_it_returns() {
    let mut pair = two(4, config(), ALIKE, "rate=5mbit,delay=30ms,queue=100ms");
    bulk(&mut pair, 3 * SECOND);
    pair.relink_over(0, DARK);
    let (_, gap) = bulk(&mut pair, 5 * SECOND);
    assert!(gap <= 150 * MS, "silent for {gap:?}");
    pair.relink_over(0, ALIKE);
    let up = pair.run_until(SECOND, |pair| active(pair, End::Client) == 2);
    assert!(up, "{:?}", pair.events(End::Client));
    bulk(&mut pair, SECOND);
    let (bytes, _) = bulk(&mut pair, 5 * SECOND);
    let share = share(bytes, 5 * SECOND, 15.0);
    assert!(share > 0.9, "{share:.3} of both");
}

#[test]
fn a_handover_make_before_break_loses_nothing_and_shows_no_gap() {
    let alike = "rate=10mbit,delay=20ms,queue=100ms";
    let mut pair = two(5, config(), alike, alike);
    let (client, handle) = (pair.client, pair.handle(End::Client));
    for round in 0..20 {
        let (old, new) = (round % 2, 1 - round % 2);
        bulk(&mut pair, SECOND);
        pair.world.take_down(client, old);
        pair.world.announce(client, handle);
        let (_, gap) = bulk(&mut pair, SECOND);
        assert!(gap <= 120 * MS, "silent for {gap:?} in handover {round} to {new}");
        pair.world.set_up(client, old);
        pair.world.announce(client, handle);
        let both = pair.run_until(5 * SECOND, |pair| active(pair, End::Client) == 2);
        assert!(both, "round {round}: {:?}", pair.events(End::Client));
    }
}

#[test]
fn break_before_make_is_followed_by_new_ids() {
    let alike = "rate=10mbit,delay=20ms,queue=100ms";
    let mut pair = two(6, config(), alike, alike);
    let (client, handle) = (pair.client, pair.handle(End::Client));
    // Both networks go away, then one returns.
    pair.world.take_down(client, 0);
    pair.world.take_down(client, 1);
    pair.world.announce(client, handle);
    bulk(&mut pair, 3 * SECOND);
    pair.world.set_up(client, 1);
    pair.world.announce(client, handle);
    let (bytes, _) = bulk(&mut pair, SECOND);
    assert!(bytes > 500_000, "{bytes} bytes in the second after the network's return");
}
