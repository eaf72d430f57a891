//! Tests of sessions that outlive a connection that nobody closed: all paths are dark for longer than the connection
//! waits, then they return.

mod answers;
mod ending;
mod figures;
mod going_on;
mod regressions;
mod several_paths;

use std::time::Duration;

use whimbrel_link::LinkConfig;
use whimbrel_proto::{Event, PathState, Service, Time, TransportConfig};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

const LINK: &str = "rate=10mbit, delay=20ms";
const DARK: &str = "rate=10mbit, delay=20ms, loss=100%";
const RTT: Duration = Duration::from_millis(40);
const SECOND: Duration = Duration::from_secs(1);
const RS: Service = Service::ReliableSequenced;

fn config() -> TransportConfig {
    let mut config = TransportConfig::default();
    config.idle_timeout = 10 * SECOND;
    config.keep_alive = Some(3 * SECOND);
    config.reattach = Some(600 * SECOND);
    config
}

fn link(text: &str) -> LinkConfig {
    text.parse().expect("a test's link is well written")
}

fn send(pair: &mut Pair, end: End, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let mut payload = number.to_be_bytes().to_vec();
        payload.resize(if number % 50 == 7 { 5000 } else { 40 }, number as u8);
        pair.send(end, RS, payload);
    }
}

fn received(pair: &mut Pair, end: End) -> Vec<u64> {
    let number = |payload: &[u8]| u64::from_be_bytes(payload[..8].try_into().expect("eight bytes"));
    pair.recv(end).iter().map(|message| number(&message.payload)).collect()
}

fn detached(pair: &mut Pair, end: End) -> bool {
    pair.connection(end).is_waiting()
}

fn reattached(pair: &mut Pair, end: End) -> Option<Time> {
    let is = |(_, event): &&(Time, Event)| matches!(event, Event::Reattached { .. });
    pair.timed_events(end).iter().rev().find(is).map(|(at, _)| *at)
}

/// Keeps the link dark until both ends have given the connection up.
fn darken(pair: &mut Pair) {
    pair.relink(DARK);
    let both = |pair: &mut Pair| End::BOTH.iter().all(|end| detached(pair, *end));
    assert!(pair.run_until(30 * SECOND, both), "{:?}", pair.events(End::Client));
}

/// The longest delay of a probe after the peer was away for this long.
fn probe(away: Duration) -> Duration {
    (away / 240).clamp(SECOND / 2, 5 * SECOND)
}

/// The number of the client's paths that work.
fn working(pair: &mut Pair) -> usize {
    pair.stats(End::Client).paths.iter().filter(|path| path.state == PathState::Active).count()
}

/// Two networks between the ends, both in use. Also returns the second one's number.
fn two(seed: u64) -> (Pair, usize) {
    let mut pair = Pair::connected(seed, config(), LINK);
    let client = pair.client;
    let other = pair.world.add_network(client, link(LINK), link(LINK));
    let handles = End::BOTH.map(|end| pair.handle(end));
    pair.world.announce(SERVER, handles[1]);
    pair.world.announce(client, handles[0]);
    assert!(pair.run_until(5 * SECOND, |pair| working(pair) == 2));
    (pair, other)
}
