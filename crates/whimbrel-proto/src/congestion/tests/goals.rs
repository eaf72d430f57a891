//! Goals of the default controller, over several seeds. Each figure is stricter than the one demanded of the whole
//! transport, because handshakes and headers take their share of that.

use std::time::Duration;

use super::link::Link;
use super::world::{Flow, World, jain};
use crate::congestion::Congestion;

const GAUGE: Congestion = Congestion::Gauge;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Runs 20 s of bulk and checks goodput from the connect call on, queueing delay and drops.
fn bulk(link: &Link, seeds: &[u64], goodput: f64) {
    for &seed in seeds {
        let world = World::run(link, &[Flow::bulk(GAUGE)], secs(20), seed);
        let reached = world.goodput(secs(20));
        assert!(reached >= goodput, "seed {seed}: goodput {reached:.4} below {goodput}, {link:?}");
        let queue = world.queue_p95();
        assert!(queue < 1.0, "seed {seed}: 95th percentile of the queue is {queue:.2} round trips, {link:?}");
        let dropped = world.drop_share();
        assert!(dropped <= 0.02, "seed {seed}: {dropped:.4} dropped at the queue, {link:?}");
    }
}

#[test]
fn slow_link_is_filled_at_any_loss() {
    for loss in [0, 10, 50, 100] {
        bulk(&Link::new(4_000_000, 50, 100, loss), &[1, 2, 3, 4], 0.98);
    }
    bulk(&Link::new(4_000_000, 50, 100, 150), &[1, 2, 3, 4], 0.975);
}

#[test]
fn middling_link_is_filled() {
    for loss in [0, 10, 50] {
        bulk(&Link::new(20_000_000, 100, 100, loss), &[1, 2], 0.972);
    }
}

#[test]
fn fast_link_is_filled() {
    bulk(&Link::new(100_000_000, 20, 100, 50), &[1], 0.97);
}

#[test]
fn deep_queue_stays_short() {
    bulk(&Link::new(4_000_000, 50, 500, 50), &[1, 2], 0.975);
}

#[test]
fn two_megabytes_arrive_soon() {
    for (loss, longest) in [(0, 1.2), (10, 1.26), (50, 1.4)] {
        let link = Link::new(20_000_000, 100, 100, loss);
        let flow = Flow { units: Some(2_000_000u64.div_ceil(1437)), ..Flow::bulk(GAUGE) };
        let mut times: Vec<_> = (1..=5)
            .map(|seed| World::run(&link, &[flow], secs(60), seed))
            .map(|world| world.flows[0].1.arrivals.last().unwrap().since(crate::Time::ZERO).as_secs_f64())
            .collect();
        times.sort_by(f64::total_cmp);
        assert!(times[2] <= longest, "loss {loss}: {times:?}");
    }
}

#[test]
fn ticket_starts_at_the_remembered_rate() {
    let ideal = 0.15 + 2e6 * 8.0 * 1500.0 / 1437.0 / 20e6;
    for (remembered, factor) in [(2_500_000, 1.06), (1_250_000, 1.25), (7_500_000, 1.25)] {
        let flow = Flow {
            units: Some(2_000_000u64.div_ceil(1437)),
            remembered: Some(remembered),
            ..Flow::bulk(GAUGE)
        };
        let world = World::run(&Link::new(20_000_000, 100, 100, 0), &[flow], secs(60), 1);
        let time = world.flows[0].1.arrivals.last().unwrap().since(crate::Time::ZERO).as_secs_f64();
        assert!(time < ideal * factor, "{remembered} B/s remembered: {:.3} times the ideal", time / ideal);
        println!(
            "{remembered} B/s remembered: {:.3} times the ideal, {:.3} dropped",
            time / ideal,
            world.drop_share()
        );
    }
}

#[test]
fn own_flows_share_alike() {
    for (seed, stagger) in [(1, 0u64), (2, 2)] {
        let link = Link::new(10_000_000, 40, 40, 0);
        let flow =
            |i: u64| Flow { start: secs(stagger * i) + Duration::from_millis(37 * i), ..Flow::bulk(GAUGE) };
        let flows: Vec<_> = (0..4).map(flow).collect();
        let world = World::run(&link, &flows, secs(40), seed);
        let shares = world.delivered(secs(10), secs(40));
        assert!(jain(&shares) >= 0.95, "stagger {stagger}: {shares:?}");
        assert!(world.queue_p95() < 1.0 && world.drop_share() <= 0.02);
    }
}

/// Neither flow may hold the queue for ever, whichever was first.
#[test]
fn cubic_and_own_leave_each_other_room() {
    let link = Link::new(10_000_000, 40, 40, 0);
    for (own_at, cubic_at) in [(0, 110), (0, 310), (5013, 150), (5210, 70), (97, 5013), (171, 5093)] {
        let at = |ms| Flow { start: Duration::from_millis(ms), ..Flow::bulk(GAUGE) };
        let cubic = Flow { kind: Congestion::Cubic, ..at(cubic_at) };
        let world = World::run(&link, &[at(own_at), cubic], secs(60), 1);
        let shares = world.delivered(Duration::from_millis(own_at.max(cubic_at)), secs(60));
        let own = shares[0] / (shares[0] + shares[1]);
        println!("own from {own_at} ms, CUBIC from {cubic_at} ms: own share {own:.3}");
        assert!(
            (0.3..=0.6).contains(&own),
            "own from {own_at} ms, CUBIC from {cubic_at} ms: own share {own:.3}"
        );
    }
}

#[test]
fn blackout_leaves_the_model_alone() {
    for outage in [1, 5, 10] {
        let mut link = Link::new(4_000_000, 50, 100, 0);
        link.outages.push((secs(5), secs(5 + outage)));
        let world = World::run(&link, &[Flow::bulk(GAUGE)], secs(7 + outage), 1);
        let arrivals = &world.flows[0].1.arrivals;
        let silence = arrivals.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
        assert!(silence < secs(outage) + Duration::from_millis(300), "outage {outage} s: silent {silence:?}");
        let full = world.delivered(secs(5 + outage) + Duration::from_millis(500), secs(7 + outage))[0]
            * 1500.0
            / 750e3;
        assert!(full > 0.97, "outage {outage} s: {full:.3} of the rate from half a second on");
    }
}

#[test]
fn rate_steps_are_followed() {
    for seed in [1, 2] {
        let mut link = Link::new(4_000_000, 50, 100, 50);
        link.rates.extend([(secs(5), 1_000_000), (secs(10), 4_000_000)]);
        let world = World::run(&link, &[Flow::bulk(GAUGE)], secs(15), seed);
        let long = world.bottleneck.delays.iter().filter(|(at, _)| at.since(crate::Time::ZERO) > secs(6));
        let longest = long.map(|(_, delay)| *delay).max().unwrap();
        assert!(
            longest < Duration::from_millis(150),
            "seed {seed}: a second after the drop the queue is {longest:?}"
        );
        let raised = world.delivered(secs(11), secs(15))[0] * 1500.0 / 2e6 / 0.95;
        assert!(raised > 0.97, "seed {seed}: {raised:.3} a second after the raise");
    }
}

#[test]
fn shallow_queue_is_not_flooded_for_ever() {
    for (bits, rtt, queue) in [(4_000_000, 50, 20), (20_000_000, 100, 10)] {
        let world = World::run(&Link::new(bits, rtt, queue, 0), &[Flow::bulk(GAUGE)], secs(20), 1);
        assert!(world.goodput(secs(20)) > 0.95 && world.drop_share() < 0.1, "{:.3}", world.drop_share());
    }
}

/// A rate that falls repeatedly is soon reached again after it has returned. `least` is in Mbit/s of payload; goodput
/// and drops are means of ten seeds. Each fall meets a flight of the former rate, for which the queue has no room.
#[test]
fn fallen_rate_is_found_again() {
    for (name, link, least) in [("crowded-hall", Link::crowded_hall(), 1.5), ("train", Link::train(), 5.5)] {
        let worlds = (1..=10).map(|seed| World::run(&link, &[Flow::bulk(GAUGE)], secs(20), seed));
        let figures: Vec<_> = worlds
            .map(|world| (world.delivered(secs(0), secs(20))[0] * 1437.0 * 8.0 / 20e6, world.drop_share()))
            .collect();
        let goodput = figures.iter().map(|(goodput, _)| goodput).sum::<f64>() / 10.0;
        let dropped = figures.iter().map(|(_, dropped)| dropped).sum::<f64>() / 10.0;
        assert!(goodput > least, "{name}: {goodput:.2} Mbit/s, below {least}");
        assert!(dropped < 0.02, "{name}: {dropped:.4} dropped at the queue");
    }
}

/// Jitter as large as the shortest round trip or larger must not be taken for a queue. The goodput is the mean of six
/// seeds.
#[test]
fn jitter_is_no_queue() {
    let mut wide = Link::new(4_000_000, 50, 100, 10);
    wide.jitter = Duration::from_millis(20);
    for (link, least) in [(Link::jittery_hall(), 0.8), (wide, 0.95)] {
        let worlds: Vec<_> =
            (1..=6).map(|seed| World::run(&link, &[Flow::bulk(GAUGE)], secs(20), seed)).collect();
        let goodput = worlds.iter().map(|world| world.goodput(secs(20))).sum::<f64>() / 6.0;
        assert!(goodput > least, "{goodput:.3}, below {least}, {link:?}");
        for world in &worlds {
            assert!(world.queue_p95() < 2.0 && world.drop_share() < 0.001, "{:.2}", world.queue_p95());
        }
    }
}
