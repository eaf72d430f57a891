//! Links that hold packets back or deliver them late are not links that fail.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::{Event, PrimaryRule, Scheduling, Service};
use whimbrel_sim::pair::{End, Pair};

use super::{MS, bulk, config, two};

const TIME: Duration = Duration::from_secs(600);
/// Two links that are suspended now and then, not at the same time.
const HELD: [&str; 2] = [
    "rate=10mbit,delay=10ms,queue=100ms,hold=150ms every 1.2s",
    "rate=5mbit,delay=30ms,queue=100ms,hold=150ms every 1.7s",
];
const JITTERY: [&str; 2] =
    ["rate=10mbit,delay=10ms,queue=100ms,jitter=40ms", "rate=5mbit,delay=30ms,queue=100ms,jitter=60ms"];

/// Changes of the primary, and suspicions, at both ends.
fn alarms(pair: &mut Pair) -> [usize; 2] {
    let events: Vec<Event> = End::BOTH.into_iter().flat_map(|end| pair.events(end)).collect();
    let count = |is: fn(&Event) -> bool| events.iter().filter(|event| is(event)).count();
    [
        count(|event| matches!(event, Event::PrimaryChanged(_))),
        count(|event| matches!(event, Event::PathSuspect(_) | Event::PathDown(_))),
    ]
}

/// Both ends send a message now and then.
fn talk(pair: &mut Pair, time: Duration) {
    let end = pair.now() + time;
    while pair.now() < end {
        for end in End::BOTH {
            pair.send(end, Service::ReliableUnsequenced, Bytes::from_static(&[3; 500]));
            pair.recv(end);
        }
        pair.run(20 * MS);
    }
}

fn bulk_only(pair: &mut Pair, time: Duration) {
    bulk(pair, time);
}

/// Data that goes another way for a moment is no change of the primary. Before, each hold was one, and back.
#[test]
fn links_that_hold_or_delay_are_not_left() {
    let cases = [("held", HELD, [0, 0]), ("jittery", JITTERY, [100, 30])];
    for (name, links, most) in cases {
        for scheduler in [Scheduling::Primary, Scheduling::Aggregate] {
            for (load, most) in [bulk_only, talk].into_iter().zip(most) {
                let mut transport = config();
                transport.scheduler = scheduler;
                let mut pair = two(1, transport, links[0], links[1]);
                let before = alarms(&mut pair);
                load(&mut pair, TIME);
                let after = alarms(&mut pair);
                let [changes, suspicions] = [0, 1].map(|kind| after[kind] - before[kind]);
                println!("{name}, {scheduler:?}: {changes} changes of the primary, {suspicions} suspicions");
                assert!(suspicions > 50, "nothing was held");
                assert!(changes <= most, "{changes} changes on links that are {name}, {scheduler:?}");
            }
        }
    }
}

/// Most of what a receiver gets while a path is held comes by the other. That is no reason to ask for it.
#[test]
fn the_path_on_which_most_arrives_is_not_another_for_a_hold() {
    let mut transport = config();
    (transport.scheduler, transport.primary_rule) = (Scheduling::Primary, PrimaryRule::MostReceived);
    let held = "rate=10mbit,delay=10ms,queue=100ms,hold=350ms every 2s";
    let mut pair = two(1, transport, held, "rate=10mbit,delay=15ms,queue=100ms");
    talk(&mut pair, TIME / 60);
    let before = alarms(&mut pair);
    talk(&mut pair, TIME / 10);
    let after = alarms(&mut pair);
    assert!(after[1] - before[1] > 10, "nothing was held");
    assert_eq!(after[0] - before[0], 0);
}
