//! The benefit of several paths, over many seeds.

use std::time::Duration;

use whimbrel_proto::{Event, Service};
use whimbrel_sim::pair::{End, Pair};
use whimbrel_sim::world::SERVER;

use super::numbered::Numbered;
use super::{ALIKE, DARK, MS, SECOND, active, announce, bulk, config, link, share, two};

const SEEDS: u64 = 6;

/// The lowest result of `run` over all seeds.
fn lowest(run: impl Fn(u64) -> f64) -> f64 {
    let shares: Vec<f64> = (0..SEEDS).map(run).collect();
    println!("{shares:.3?}");
    shares.into_iter().fold(f64::INFINITY, f64::min)
}

fn longest(run: impl Fn(u64) -> Duration) -> Duration {
    let times: Vec<Duration> = (0..SEEDS).map(run).collect();
    println!("{times:.1?}");
    times.into_iter().max().unwrap_or_default()
}

#[test]
fn two_links_add_up_to_what_they_leave() {
    let worst = lowest(|seed| {
        let mut pair =
            two(seed, config(), "rate=10mbit,delay=15ms,queue=100ms", "rate=5mbit,delay=30ms,queue=100ms");
        let (bytes, _) = bulk(&mut pair, 20 * SECOND);
        share(bytes, 20 * SECOND, 15.0)
    });
    assert!(worst >= 0.975, "{worst:.3} of both");
}

#[test]
fn a_slow_path_beside_is_never_a_loss() {
    let worst = lowest(|seed| {
        let fast = "rate=20mbit,delay=10ms,queue=100ms";
        let mut pair = two(seed, config(), fast, "rate=4mbit,delay=100ms,queue=100ms");
        let (both, _) = bulk(&mut pair, 20 * SECOND);
        let mut pair = Pair::connected(seed, config(), fast);
        let (alone, _) = bulk(&mut pair, 20 * SECOND);
        both as f64 / alone as f64
    });
    assert!(worst >= 1.0, "{worst:.3} of the better path alone");
}

#[test]
fn loss_on_both_paths_costs_what_is_lost() {
    let worst = lowest(|seed| {
        let mut pair = two(
            seed,
            config(),
            "rate=10mbit,delay=15ms,queue=100ms,loss=5%",
            "rate=5mbit,delay=30ms,queue=100ms,loss=5%",
        );
        let (bytes, _) = bulk(&mut pair, 20 * SECOND);
        share(bytes, 20 * SECOND, 15.0 * 0.95)
    });
    assert!(worst >= 0.97, "{worst:.3} of what is left of both");
}

fn darken(pair: &mut Pair, networks: &[usize], dark: bool) -> Vec<whimbrel_link::LinkConfig> {
    let client = pair.client;
    let mut before = Vec::new();
    for network in networks {
        for (from, to) in [(client, SERVER), (SERVER, client)] {
            let one = pair.world.link_over(*network, from, to);
            let config = one.config().clone();
            if dark {
                one.reconfigure(link(DARK));
            }
            before.push(config);
        }
    }
    before
}

fn restore(pair: &mut Pair, networks: &[usize], configs: Vec<whimbrel_link::LinkConfig>) {
    let client = pair.client;
    let ways = networks.iter().flat_map(|network| [(*network, client, SERVER), (*network, SERVER, client)]);
    for ((network, from, to), config) in ways.zip(configs) {
        pair.world.link_over(network, from, to).reconfigure(config);
    }
}

#[test]
fn one_dark_path_is_no_gap_and_is_used_again_within_a_second() {
    for network in 0..2 {
        let worst = longest(|seed| {
            let mut pair = two(
                seed,
                config(),
                "rate=10mbit,delay=10ms,queue=100ms",
                "rate=5mbit,delay=30ms,queue=100ms",
            );
            bulk(&mut pair, 2 * SECOND + 37 * MS * seed as u32);
            let good = darken(&mut pair, &[network], true);
            let (_, gap) = bulk(&mut pair, 5 * SECOND);
            restore(&mut pair, &[network], good);
            let before = pair.stats(End::Client);
            bulk(&mut pair, SECOND);
            let after = pair.stats(End::Client);
            for path in &before.paths {
                let now = after.paths.iter().find(|now| now.id == path.id).expect("nothing closed it");
                let acked = now.acked_packets - path.acked_packets;
                assert!(acked > 20, "seed {seed}: {acked} packets of {:?} in a second", path.id);
            }
            gap
        });
        assert!(worst <= 150 * MS, "network {network}: silent for {worst:?}");
    }
}

#[test]
fn all_paths_dark_and_the_first_that_returns_is_used_at_once() {
    for seconds in [5, 30, 60] {
        for returns in 0..2 {
            let late = longest(|seed| {
                let mut pair = two(
                    seed,
                    config(),
                    "rate=10mbit,delay=10ms,queue=100ms",
                    "rate=5mbit,delay=30ms,queue=100ms",
                );
                bulk(&mut pair, SECOND);
                let good = darken(&mut pair, &[0, 1], true);
                bulk(&mut pair, Duration::from_secs(seconds) + 13 * MS * seed as u32);
                let events = pair.events(End::Client);
                assert!(events.contains(&Event::AllPathsDown), "{events:?}");
                restore(&mut pair, &[returns], good[returns * 2..].to_vec());
                let back = pair.now();
                let heard = pair.run_until(5 * SECOND, |pair| !pair.recv(End::Server).is_empty());
                assert!(heard, "seed {seed}: nothing 5 s after an outage of {seconds} s");
                pair.now().since(back)
            });
            let rtt = [20 * MS, 60 * MS][returns];
            assert!(late <= rtt + 250 * MS, "{seconds} s dark, network {returns} back: first after {late:?}");
        }
    }
}

#[test]
fn an_outage_longer_than_the_service_time_ends_it_and_says_so() {
    let mut transport = config();
    transport.idle_timeout = 5 * SECOND;
    transport.reattach = None;
    let mut pair = Pair::connected(1, transport, "rate=10mbit,delay=10ms");
    pair.relink(DARK);
    pair.send(End::Client, Service::ReliableSequenced, vec![1; 10]);
    assert!(pair.run_until(6 * SECOND, |pair| pair.both_closed()));
    for end in End::BOTH {
        let events = pair.events(end);
        let [.., Event::OutOfService, Event::Closed(_)] = events[..] else { panic!("{events:?}") };
    }
    let mut pair = Pair::connected(1, config(), "rate=10mbit,delay=10ms");
    pair.relink(DARK);
    pair.run(290 * SECOND);
    assert_eq!(pair.closed(End::Client), None, "a tunnel or a lift is no end");
}

/// Numbered messages through a hundred handovers: each arrives once, in order.
#[test]
fn a_hundred_handovers_lose_and_double_nothing() {
    let alike = "rate=10mbit,delay=20ms,queue=100ms";
    let mut pair = two(5, config(), alike, alike);
    let (client, handle) = (pair.client, pair.handle(End::Client));
    let mut messages = Numbered::default();
    for round in 0..100 {
        messages.carry(&mut pair, 300 * MS);
        pair.world.take_down(client, round % 2);
        pair.world.announce(client, handle);
        messages.carry(&mut pair, 300 * MS);
        pair.world.set_up(client, round % 2);
        pair.world.announce(client, handle);
        let both = pair.run_until(5 * SECOND, |pair| active(pair, End::Client) == 2);
        assert!(both, "round {round}: {:?}", pair.events(End::Client));
    }
    messages.drain(&mut pair, 2 * SECOND);
    println!("{} messages, {:?}", messages.sent, messages.worst);
    assert!(messages.sent > 50_000, "{}", messages.sent);
    assert!(messages.worst <= 120 * MS, "silent for {:?}", messages.worst);
}

/// On suspicion, everything in flight is sent over another path at once. Packets that arrive after all, or had
/// arrived already, are not delivered again.
#[test]
fn what_comes_back_from_the_dark_is_delivered_once() {
    for network in 0..2 {
        // Both directions, then only that of messages, then only that of SACKs.
        for (up, down) in [(true, true), (true, false), (false, true)] {
            for seed in 0..SEEDS {
                let likes = [ALIKE, "rate=5mbit,delay=30ms,queue=100ms"];
                let mut pair = two(seed, config(), likes[0], likes[1]);
                let (client, mut messages) = (pair.client, Numbered::default());
                messages.carry(&mut pair, SECOND + 37 * MS * seed as u32);
                for dark in [true, false, true, false] {
                    let like = link(if dark { DARK } else { likes[network] });
                    if up {
                        pair.world.link_over(network, client, SERVER).reconfigure(like.clone());
                    }
                    if down {
                        pair.world.link_over(network, SERVER, client).reconfigure(like);
                    }
                    // Sometimes shorter than detection takes.
                    messages.carry(&mut pair, if seed % 2 == 0 { SECOND } else { 60 * MS });
                }
                messages.drain(&mut pair, 2 * SECOND);
            }
        }
    }
}

/// The delay of a SACK that took another, shorter way is no round trip of the long path. Its controller would see a
/// queue that does not exist and slow down to nothing. This holds from the first packets on, before any SACK came its
/// own way.
#[test]
fn a_long_path_beside_a_short_one_keeps_its_rate() {
    let worst = lowest(|seed| {
        let (fast, slow) =
            ("rate=20mbit,delay=10ms,queue=100ms,loss=5%", "rate=4mbit,delay=100ms,queue=100ms,loss=5%");
        let mut pair = Pair::connected(seed, config(), fast);
        pair.world.add_network(pair.client, link(slow), link(slow));
        announce(&mut pair);
        let (bytes, _) = bulk(&mut pair, 15 * SECOND);
        share(bytes, 15 * SECOND, 24.0 * 0.95)
    });
    assert!(worst >= 0.94, "{worst:.3} of what is left of both, in order, from the first packet on");
}
