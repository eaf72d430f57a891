//! Prints the figures: `cargo test -p whimbrel-proto --lib -- --ignored --nocapture tables`.

use std::time::Duration;

use super::link::{Dice, Link};
use super::world::{Flow, World, jain};
use crate::congestion::Congestion;

const SEEDS: [u64; 3] = [1, 2, 3];

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn jitter(seed: u64) -> Duration {
    Duration::from_micros(Dice(seed).next() % 300_000)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn bulk_table(kind: Congestion) -> Vec<(String, f64, f64, f64, f64)> {
    let mut rows = Vec::new();
    for (bits, rtt, queue, losses) in [
        (4_000_000, 50, 100, &[0, 10, 50, 100, 150][..]),
        (20_000_000, 100, 100, &[0, 10, 50][..]),
        (100_000_000, 20, 100, &[0, 50][..]),
    ] {
        for &loss in losses {
            let link = Link::new(bits, rtt, queue, loss);
            let worlds: Vec<_> =
                SEEDS.iter().map(|&s| World::run(&link, &[Flow::bulk(kind)], secs(20), s)).collect();
            let of = |f: &dyn Fn(&World) -> f64| median(worlds.iter().map(f).collect());
            rows.push((
                format!("{} Mbit/s {rtt} ms {}%", bits / 1_000_000, loss / 10),
                of(&|w| w.goodput(secs(20))),
                of(&|w| w.queue_p95()),
                of(&|w| w.drop_share()),
                of(&|w| w.flows[0].0.spurious as f64),
            ));
        }
    }
    rows
}

#[test]
#[ignore = "prints the tables"]
fn tables() {
    for (name, goodput, queue, drops, spurious) in bulk_table(Congestion::Gauge) {
        println!("{name:24} goodput {goodput:.4} p95 {queue:.2} RTT drops {drops:.4} spurious {spurious}");
    }
}

#[test]
#[ignore = "prints the tables"]
fn transfers() {
    for loss in [0, 10, 50, 100, 150] {
        for (bits, rtt) in [(20_000_000, 100), (4_000_000, 50)] {
            let link = Link::new(bits, rtt, 100, loss);
            let flow = Flow { units: Some(2_000_000u64.div_ceil(1437)), ..Flow::bulk(Congestion::Gauge) };
            let worlds: Vec<_> = (1..=9).map(|s| World::run(&link, &[flow], secs(60), s)).collect();
            let times = worlds
                .iter()
                .map(|w| w.flows[0].1.arrivals.last().unwrap().as_nanos() as f64 / 1e9)
                .collect();
            let ideal =
                rtt as f64 * 1.5e-3 + 2e6 * 8.0 * 1500.0 / 1437.0 / bits as f64 / (1.0 - loss as f64 / 1e3);
            let time = median(times);
            println!(
                "2 MB at {} Mbit/s loss {}%: {time:.3} s, {:.3} x ideal",
                bits / 1_000_000,
                loss / 10,
                time / ideal
            );
        }
    }
}

#[test]
#[ignore = "prints the tables"]
fn changes() {
    for seed in SEEDS {
        for stagger in [0, 2] {
            let link = Link::new(10_000_000, 40, 40, 0);
            let flows: Vec<_> = (0..4)
                .map(|i| Flow {
                    start: secs(stagger * i) + jitter(seed * 4 + i),
                    ..Flow::bulk(Congestion::Gauge)
                })
                .collect();
            let world = World::run(&link, &flows, secs(60), seed);
            let shares = world.delivered(secs(10), secs(60));
            println!(
                "4 own, stagger {stagger}: jain {:.3} goodput {:.3} p95 {:.2} drops {:.4} {shares:?}",
                jain(&shares),
                world.goodput(secs(60)),
                world.queue_p95(),
                world.drop_share()
            );
        }
    }
}

#[test]
#[ignore = "prints the tables"]
fn company() {
    for seed in 1..=8 {
        for (own, other) in [(0, 0), (0, 5), (5, 0)] {
            let link = Link::new(10_000_000, 40, 40, 0);
            let flows = [
                Flow { start: secs(own) + jitter(seed), ..Flow::bulk(Congestion::Gauge) },
                Flow { start: secs(other) + jitter(seed + 9), ..Flow::bulk(Congestion::Cubic) },
            ];
            let world = World::run(&link, &flows, secs(60), seed);
            let shares = world.delivered(secs(own.max(other)), secs(60));
            println!(
                "own from {own} cubic from {other}: own share {:.3} goodput {:.3} drops {:.4}",
                shares[0] / (shares[0] + shares[1]),
                world.goodput(secs(60)),
                world.drop_share()
            );
        }
    }
}

#[test]
#[ignore = "prints the tables"]
fn moves() {
    for seed in SEEDS {
        for outage in [1, 5, 10] {
            let mut link = Link::new(4_000_000, 50, 100, 50);
            link.outages.push((secs(5), secs(5 + outage)));
            let world = World::run(&link, &[Flow::bulk(Congestion::Gauge)], secs(20), seed);
            let silent = world.flows[0].1.arrivals.windows(2).map(|w| w[1].since(w[0])).max().unwrap();
            let after = world.delivered(secs(5 + outage), secs(6 + outage))[0] * 1500.0 / 500e3 / 0.95;
            println!("outage {outage} s: silent {silent:?}, first second after {after:.3}");
        }
        let mut link = Link::new(4_000_000, 50, 100, 50);
        link.rates = vec![(secs(0), 4_000_000), (secs(5), 1_000_000), (secs(10), 4_000_000)];
        let world = World::run(&link, &[Flow::bulk(Congestion::Gauge)], secs(15), seed);
        let second = |s: u64, rate: f64| world.delivered(secs(s), secs(s + 1))[0] * 1500.0 / rate / 0.95;
        let queue = world
            .bottleneck
            .delays
            .iter()
            .filter(|(at, _)| at.as_nanos() > 6_000_000_000 && at.as_nanos() < 10_000_000_000);
        println!(
            "4-1-4: goodput {:.3} after drop {:.3} {:.3} after raise {:.3} {:.3} drops {:.4} queue max 6..10 s {:?}",
            world.goodput(secs(15)),
            second(5, 125e3),
            second(6, 125e3),
            second(10, 500e3),
            second(11, 500e3),
            world.drop_share(),
            queue.map(|(_, d)| *d).max()
        );
    }
}

#[test]
#[ignore = "prints the tables"]
fn variety() {
    let jittery = |mut link: Link, ms| {
        link.jitter = Duration::from_millis(ms);
        link
    };
    let acked = |mut link: Link, every| {
        link.ack_every = every;
        link
    };
    let (m, k) = (1_000_000, 1000);
    for (name, link, span) in [
        ("4/50 queue 5 ms", Link::new(4 * m, 50, 5, 0), 20),
        ("4/50 queue 20 ms", Link::new(4 * m, 50, 20, 0), 20),
        ("4/50 queue 20 ms 5 %", Link::new(4 * m, 50, 20, 50), 20),
        ("4/50 queue 50 ms", Link::new(4 * m, 50, 50, 0), 20),
        ("4/50 queue 500 ms 5 %", Link::new(4 * m, 50, 500, 50), 20),
        ("20/100 queue 5 ms", Link::new(20 * m, 100, 5, 0), 20),
        ("20/100 queue 10 ms 5 %", Link::new(20 * m, 100, 10, 50), 20),
        ("1/50 queue 200 ms", Link::new(m, 50, 200, 0), 20),
        ("1/50 queue 200 ms 5 %", Link::new(m, 50, 200, 50), 20),
        ("256k/300 queue 300", Link::new(256 * k, 300, 300, 50), 30),
        ("40k/256 queue 2000", Link::new(40 * k, 256, 2000, 0), 60),
        ("10/600 queue 300 1 %", Link::new(10 * m, 600, 300, 10), 30),
        ("500/5 queue 10", Link::new(500 * m, 5, 10, 0), 3),
        ("500/1 queue 10 1 %", Link::new(500 * m, 1, 10, 10), 3),
        ("4/50 jitter 5", jittery(Link::new(4 * m, 50, 100, 10), 5), 20),
        ("4/50 jitter 10", jittery(Link::new(4 * m, 50, 100, 10), 10), 20),
        ("4/50 jitter 20", jittery(Link::new(4 * m, 50, 100, 10), 20), 20),
        ("20/100 jitter 20", jittery(Link::new(20 * m, 100, 100, 10), 20), 20),
        ("4/50 ack every 10", acked(Link::new(4 * m, 50, 100, 50), 10), 20),
        ("20/100 ack every 16", acked(Link::new(20 * m, 100, 100, 50), 16), 20),
        ("4/50 30 %", Link::new(4 * m, 50, 100, 300), 20),
    ] {
        let world = World::run(&link, &[Flow::bulk(Congestion::Gauge)], secs(span), 1);
        println!(
            "{name:24} goodput {:.4} p95 {:.2} RTT drops {:.4} spurious {}",
            world.goodput(secs(span)),
            world.queue_p95(),
            world.drop_share(),
            world.flows[0].0.spurious
        );
    }
}

#[test]
#[ignore = "prints the tables"]
fn conditions() {
    let mut wide = Link::new(20_000_000, 100, 100, 10);
    wide.jitter = Duration::from_millis(50);
    for (name, link) in [
        ("crowded-hall", Link::crowded_hall()),
        ("its jitter alone", Link::jittery_hall()),
        ("train", Link::train()),
        ("20/100 jitter 50", wide),
    ] {
        let worlds: Vec<_> =
            (1..=10).map(|s| World::run(&link, &[Flow::bulk(Congestion::Gauge)], secs(20), s)).collect();
        let of = |f: &dyn Fn(&World) -> f64| worlds.iter().map(f).collect::<Vec<_>>();
        let goodput = of(&|w| w.delivered(secs(0), secs(20))[0] * 1437.0 * 8.0 / 20e6);
        println!(
            "{name:16} goodput {:.2} Mbit/s of {:.2}, p95 {:.2} RTT, drops {:.4}; {goodput:.2?}",
            median(goodput.clone()),
            median(of(&|w| w.capacity(secs(20)))) * 1437.0 / 1500.0 * 8.0 / 20e6,
            median(of(&|w| w.queue_p95())),
            median(of(&|w| w.drop_share())),
        );
    }
}

#[test]
#[ignore = "prints a log"]
fn log() {
    let var = |name: &str, or: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(or);
    let link = Link::new(var("BITS", 4_000_000), var("RTT", 50), var("QUEUE", 100), var("LOSS", 0));
    let mut link = link;
    link.jitter = Duration::from_millis(var("JITTER", 0));
    link.ack_every = var("ACKS", 2) as u32;
    if let Some(ms) = std::env::var("OUT").ok().and_then(|v| v.parse::<u64>().ok()) {
        link.outages.push((secs(2), secs(2) + Duration::from_millis(ms)));
    }
    if let Some(bits) = std::env::var("STEP").ok().and_then(|v| v.parse::<u64>().ok()) {
        link.rates.push((secs(2), bits));
        link.rates.push((secs(5), var("BITS", 4_000_000)));
    }
    match std::env::var("CONDITION").as_deref() {
        Ok("crowded-hall") => link = Link::crowded_hall(),
        Ok("train") => link = Link::train(),
        _ => {}
    }
    let span = Duration::from_millis(var("MS", 2000));
    let own = Flow { start: Duration::from_micros(var("OWN_AT", 0)), ..Flow::bulk(Congestion::Gauge) };
    let mut flows = vec![own; var("OWN", 1) as usize];
    let cubic = Flow { start: Duration::from_micros(var("AT", 0)), ..Flow::bulk(Congestion::Cubic) };
    flows.extend(vec![cubic; var("CUBIC", 0) as usize]);
    for line in World::run_logged(&link, &flows, span, var("SEED", 1), true).log {
        println!("{line}");
    }
}
