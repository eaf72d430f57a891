//! Links that are down for a while.

use std::time::Duration;

use whimbrel_link::{LinkConfig, Outage, Window};
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Service, StreamId, Tag, Time};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::{MS, SECOND, config, number_of, numbered, transfer};

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

/// Sends 10 updates a second through an outage. Returns the numbers that arrive after it, the time from its end to
/// the first of them, and the newest number by then.
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
                        // The newest that can have reached the other side by now.
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
        // One more may have been sent while it was in flight.
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
