//! Probes of unused paths: frequent while other paths are in use, and ever rarer while none is.

use std::time::Duration;

use whimbrel_proto::{Event, PathState, Scheduling, TransportConfig};
use whimbrel_sim::pair::{End, Pair};

use super::{ALIKE, DARK, MS, SECOND, bulk, config, two};

fn with_interval(probe_interval: Duration) -> TransportConfig {
    let mut transport = config();
    transport.scheduler = Scheduling::Primary;
    transport.probe_interval = probe_interval;
    transport
}

/// The packets that the client sent on the path that is not the primary.
fn probes(pair: &mut Pair) -> u64 {
    let paths = pair.stats(End::Client).paths;
    paths.iter().filter(|path| !path.primary && path.state == PathState::Active).map(|p| p.sent_packets).sum()
}

#[test]
fn an_unused_path_that_fails_is_noticed_as_soon_as_was_asked_for() {
    for (interval, most) in [(200 * MS, 600 * MS), (SECOND, 1400 * MS), (5 * SECOND, 5400 * MS)] {
        let mut pair = two(1, with_interval(interval), ALIKE, ALIKE);
        bulk(&mut pair, 2 * SECOND);
        pair.relink_over(1, DARK);
        let (failed, mut noticed) = (pair.now(), None);
        while noticed.is_none() && pair.now().since(failed) < 20 * SECOND {
            bulk(&mut pair, 20 * MS);
            let suspected = |event: &Event| matches!(event, Event::PathSuspect(_));
            noticed = pair.events(End::Client).iter().any(suspected).then(|| pair.now().since(failed));
        }
        let after = noticed.expect("it is noticed");
        println!("{interval:?}: after {after:?}");
        assert!(after <= most, "interval {interval:?}: noticed after {after:?}");
    }
}

#[test]
fn the_longer_nothing_is_sent_the_more_rarely_paths_are_probed() {
    let mut pair = two(2, with_interval(SECOND), ALIKE, ALIKE);
    bulk(&mut pair, SECOND);
    let count = |pair: &mut Pair, time: Duration, busy: bool| {
        let before = probes(pair);
        if busy {
            bulk(pair, time);
        } else {
            pair.run(time);
        }
        probes(pair) - before
    };
    // Short enough that the idle path with its empty queue is not taken for the better one.
    let busy = count(&mut pair, 15 * SECOND, true);
    // What was queued is sent first.
    pair.run_until(300 * SECOND, |pair| {
        pair.recv(End::Server);
        pair.connection(End::Client).session_ref().stats().queue_messages == 0
    });
    pair.run(60 * SECOND);
    let idle = count(&mut pair, 600 * SECOND, false);
    println!("{busy} in 15 s of load, {idle} in 600 s without");
    assert!((11..=34).contains(&busy), "{busy} probes in 15 s beside a load");
    assert!(
        (10..=50).contains(&idle),
        "{idle} packets in ten idle minutes: a probe each 25 s, and its answer"
    );
    assert_eq!(pair.closed(End::Client), None);
}
