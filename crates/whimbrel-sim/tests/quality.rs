//! Tests of quality thresholds on a link that gets worse and better again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use whimbrel_proto::{Event, PathId, Quality, Service, Threshold, TransportConfig};
use whimbrel_sim::pair::{End, Pair};

const GOOD: &str = "rate=4mbit,delay=20ms,queue=200ms";
const SECOND: Duration = Duration::from_secs(1);

fn watched(thresholds: &[Quality]) -> Pair {
    let mut pair = Pair::connected(9, TransportConfig::default(), GOOD);
    let now = pair.now();
    let thresholds = thresholds.iter().copied().map(Threshold::new);
    pair.connection(End::Client).set_thresholds(now, thresholds).unwrap();
    pair
}

/// Sends a message every 20 ms, and reads all of them.
fn talk(pair: &mut Pair, time: Duration) {
    let end = pair.now() + time;
    while pair.now() < end {
        pair.send(End::Client, Service::ReliableUnsequenced, vec![1; 400]);
        pair.run(Duration::from_millis(20));
        pair.recv(End::Server);
    }
}

/// The thresholds that were crossed, in order and with their directions.
fn crossings(pair: &mut Pair) -> Vec<(Quality, bool)> {
    let events = pair.events(End::Client);
    let change = |event: &Event| match event {
        Event::Quality(change) => {
            assert_eq!(change.path, PathId::FIRST);
            Some((change.threshold.quality, change.above))
        }
        _ => None,
    };
    events.iter().filter_map(change).collect()
}

#[test]
fn a_round_trip_that_grows_and_shrinks_is_told_once_each() {
    let limit = Quality::Rtt(Duration::from_millis(150));
    let mut pair = watched(&[limit]);
    talk(&mut pair, 2 * SECOND);
    assert_eq!(crossings(&mut pair), []);
    pair.relink("rate=4mbit,delay=120ms,queue=200ms");
    talk(&mut pair, 5 * SECOND);
    pair.relink(GOOD);
    talk(&mut pair, 5 * SECOND);
    assert_eq!(crossings(&mut pair), [(limit, true), (limit, false)]);
}

#[test]
fn loss_is_told() {
    let limit = Quality::Loss(80);
    let mut pair = watched(&[limit]);
    talk(&mut pair, 2 * SECOND);
    pair.relink("rate=4mbit,delay=20ms,queue=200ms,loss=30%");
    talk(&mut pair, 10 * SECOND);
    assert_eq!(crossings(&mut pair).first(), Some(&(limit, true)));
    pair.relink(GOOD);
    talk(&mut pair, 60 * SECOND);
    assert_eq!(crossings(&mut pair).last(), Some(&(limit, false)));
}

#[test]
fn a_queue_that_grows_through_an_outage_is_told_while_it_lasts() {
    let limit = Quality::Queue(50_000);
    let mut pair = watched(&[limit]);
    pair.relink("loss=100%");
    talk(&mut pair, 5 * SECOND);
    assert_eq!(crossings(&mut pair), [(limit, true)]);
    pair.relink(GOOD);
    talk(&mut pair, 5 * SECOND);
    assert_eq!(crossings(&mut pair), [(limit, true), (limit, false)]);
}

#[test]
fn what_is_watched_costs_an_idle_connection_nothing() {
    let mut pair = watched(&[Quality::Rate(1), Quality::Rtt(Duration::from_millis(1)), Quality::Queue(1)]);
    talk(&mut pair, 2 * SECOND);
    pair.run(10 * SECOND);
    let due = pair.connection(End::Client).poll_timeout().unwrap();
    assert!(due.since(pair.now()) > 5 * SECOND, "the next timer is the keep-alive");
}

#[test]
fn thresholds_are_bounded() {
    let mut pair = watched(&[]);
    let now = pair.now();
    let many = (0..33).map(|level| Threshold::new(Quality::Queue(level)));
    assert!(pair.connection(End::Client).set_thresholds(now, many).is_err());
}
