//! Full load, sparse traffic, and idle connections.

use std::time::Duration;

use whimbrel_proto::{Repeats, Service};
use whimbrel_sim::pair::{End, Pair};

use super::{MS, SECOND, config, number_of, numbered, trace};

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
fn an_idle_connection_sends_only_keep_alives() {
    let mut pair = Pair::connected(27, config(), "delay=20ms");
    pair.run(5 * SECOND);
    let sent = trace(&mut pair.world);
    pair.run(600 * SECOND);
    // At most one packet from each side every 25 s, and its answer.
    let packets = sent.borrow().len();
    assert!(packets <= 4 * 600 / 25, "{packets} packets in ten minutes");
    assert!(packets >= 24, "NAT bindings are kept: {packets}");
    assert_eq!((pair.closed(End::Client), pair.closed(End::Server)), (None, None));
    let total: usize = sent.borrow().iter().map(|(.., bytes)| bytes.len()).sum();
    assert!(total < packets * 100, "and small ones: {total} bytes");
}

/// The 99th percentile of delay at 100 messages a second, with 5 % loss in each direction and a round trip of 40 ms.
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
