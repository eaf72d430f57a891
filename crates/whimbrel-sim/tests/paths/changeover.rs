//! One path at a time: what it loses goes over the next best, and data returns to it once it has recovered.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::{Event, PathId, Repeats, Scheduling, Service, TransportConfig};
use whimbrel_sim::pair::{End, Pair};

use super::primary::{over, primary};
use super::{ALIKE, DARK, MS, SECOND, announce, bulk, config, two};

fn one_at_a_time() -> TransportConfig {
    let mut transport = config();
    transport.scheduler = Scheduling::Primary;
    transport.repeats = Repeats::Fixed(0);
    transport
}

/// Both ends keep sending a little, so that each hears from its paths.
fn talk(pair: &mut Pair, time: Duration) {
    let end = pair.now() + time;
    while pair.now() < end {
        for end in End::BOTH {
            pair.send(end, Service::ReliableUnsequenced, Bytes::from_static(&[3; 500]));
            pair.recv(end);
        }
        pair.run(5 * MS);
    }
}

/// The paths to which data changed over, in order.
fn changes(pair: &mut Pair, end: End) -> Vec<PathId> {
    let path = |event| if let Event::PrimaryChanged(path) = event { Some(path) } else { None };
    pair.events(end).into_iter().filter_map(path).collect()
}

#[test]
fn what_the_primary_loses_goes_on_the_next_best_and_nothing_else_does() {
    let near = "rate=10mbit,delay=10ms,queue=100ms,loss=5%";
    let mut pair = two(1, one_at_a_time(), near, "rate=10mbit,delay=25ms,queue=100ms");
    bulk(&mut pair, SECOND);
    let before = pair.stats(End::Client);
    let retransmitted = pair.session(End::Client).stats().retransmitted;
    bulk(&mut pair, 10 * SECOND);
    let after = pair.stats(End::Client);
    let mended = pair.session(End::Client).stats().retransmitted - retransmitted;
    let [first, next] = [0, 1].map(|network| over(&mut pair, network));
    let of = |id, count: fn(&whimbrel_proto::PathStats) -> u64| {
        let [before, after] = [&before, &after].map(|stats| stats.paths.iter().find(|path| path.id == id));
        count(after.expect("it is there")) - count(before.expect("it is there"))
    };
    let (lost, sent) = (of(first, |path| path.lost_packets), of(next, |path| path.sent_packets));
    println!("{lost} lost, {mended} fragments sent again, {sent} packets on the next best");
    assert!(after.paths.iter().any(|path| path.id == first && path.primary));
    assert!(lost > 200, "{lost}");
    // Where the pacer holds the next best path back, the primary continues. Besides what was lost there are ten
    // probes.
    assert!(sent * 4 >= lost * 3 && sent <= lost * 13 / 10 + 40, "{sent} packets for {lost} lost");
}

/// The network of an end's primary path, that path, and the other one.
fn usual(pair: &mut Pair, end: End) -> (usize, PathId, PathId) {
    talk(pair, SECOND);
    let usual = primary(pair, end);
    let network = usize::from(over(pair, 1) == usual);
    (network, usual, over(pair, 1 - network))
}

#[test]
fn data_is_back_on_a_primary_that_has_worked_for_a_while() {
    for end in End::BOTH {
        let mut pair = two(2, one_at_a_time(), ALIKE, ALIKE);
        let (network, usual, other) = usual(&mut pair, end);
        let before = changes(&mut pair, end).len();
        pair.relink_over(network, DARK);
        talk(&mut pair, 3 * SECOND);
        assert_eq!(primary(&mut pair, end), other, "{end:?}");
        pair.relink_over(network, ALIKE);
        talk(&mut pair, 1900 * MS);
        assert_eq!(primary(&mut pair, end), other, "{end:?} waits");
        talk(&mut pair, 2 * SECOND);
        assert_eq!(primary(&mut pair, end), usual, "{end:?}: {:?}", pair.events(end));
        assert_eq!(changes(&mut pair, end)[before..], [other, usual], "{end:?}");
    }
}

#[test]
fn a_path_that_comes_and_goes_is_left_alone() {
    for end in End::BOTH {
        let mut pair = two(3, one_at_a_time(), ALIKE, ALIKE);
        let (network, usual, other) = usual(&mut pair, end);
        let before = changes(&mut pair, end).len();
        let blink = |pair: &mut Pair, works: Duration| {
            pair.relink_over(network, DARK);
            talk(pair, SECOND);
            pair.relink_over(network, ALIKE);
            talk(pair, works);
        };
        for _ in 0..10 {
            blink(&mut pair, SECOND);
        }
        assert_eq!(changes(&mut pair, end)[before..], [other], "{end:?}");
        talk(&mut pair, 5 * SECOND);
        // Each time it fails again, it must work twice as long before it is used.
        for _ in 0..4 {
            blink(&mut pair, 7 * SECOND);
        }
        let changes = changes(&mut pair, end);
        assert_eq!(
            changes[before..],
            [other, usual, other, usual, other],
            "{end:?}: back after 2 s and after 4"
        );
        talk(&mut pair, 8 * SECOND);
        assert_eq!(primary(&mut pair, end), usual, "{end:?}: in the end");
    }
}

#[test]
fn data_does_not_return_to_a_path_that_is_now_slower() {
    let mut pair = two(2, one_at_a_time(), ALIKE, ALIKE);
    let (network, _, other) = usual(&mut pair, End::Client);
    let before = changes(&mut pair, End::Client).len();
    pair.relink_over(network, DARK);
    talk(&mut pair, 3 * SECOND);
    pair.relink_over(network, "rate=10mbit,delay=150ms,queue=100ms");
    talk(&mut pair, 8 * SECOND);
    assert_eq!(changes(&mut pair, End::Client)[before..], [other]);
}

/// It is silent for less than a path that has failed, but most of the time.
#[test]
fn a_path_that_is_held_most_of_the_time_is_left() {
    for end in End::BOTH {
        let mut pair = two(5, one_at_a_time(), ALIKE, ALIKE);
        let (network, _, other) = usual(&mut pair, end);
        let before = changes(&mut pair, end).len();
        for _ in 0..20 {
            pair.relink_over(network, DARK);
            talk(&mut pair, 300 * MS);
            pair.relink_over(network, ALIKE);
            talk(&mut pair, 100 * MS);
        }
        assert_eq!(changes(&mut pair, end)[before..], [other], "{end:?}");
        assert_eq!(primary(&mut pair, end), other, "{end:?}");
    }
}

#[test]
fn a_wish_for_a_path_that_is_held_waits_for_it() {
    let mut pair = two(6, one_at_a_time(), ALIKE, ALIKE);
    let (network, usual, _) = usual(&mut pair, End::Client);
    let before = changes(&mut pair, End::Client).len();
    pair.relink_over(network, DARK);
    talk(&mut pair, 150 * MS);
    let now = pair.now();
    pair.connection(End::Client).set_primary(now, usual).expect("it is there");
    talk(&mut pair, 50 * MS);
    pair.relink_over(network, ALIKE);
    talk(&mut pair, 3 * SECOND);
    assert_eq!(changes(&mut pair, End::Client)[before..], []);
}

#[test]
fn a_network_that_returns_with_another_path_is_known_again() {
    let mut pair = two(4, one_at_a_time(), ALIKE, ALIKE);
    let usual = primary(&mut pair, End::Client);
    let network = usize::from(over(&mut pair, 1) == usual);
    let (client, other) = (pair.client, over(&mut pair, 1 - network));
    pair.world.take_down(client, network);
    announce(&mut pair);
    talk(&mut pair, SECOND);
    for end in End::BOTH {
        assert_eq!(primary(&mut pair, end), other, "{end:?}");
    }
    pair.world.set_up(client, network);
    announce(&mut pair);
    talk(&mut pair, 4 * SECOND);
    let again = over(&mut pair, network);
    assert_ne!(again, usual, "paths are not opened twice");
    for end in End::BOTH {
        assert_eq!(primary(&mut pair, end), again, "{end:?}");
    }
}
