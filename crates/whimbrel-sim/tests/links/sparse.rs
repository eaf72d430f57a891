//! Small messages at a rate over a path with spare capacity: the delay of the latest, and the cost.

use whimbrel_link::LinkConfig;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{ListenConfig, Repeats, Service, StreamId, Time};
use whimbrel_sim::world::World;

use super::{Figures, arrived, secs, seeds, transport};

struct Sparse {
    /// The one-way delay.
    p99_ms: f64,
    /// The client's packets, as a multiple of one per message.
    packets: f64,
    /// The client's wire bytes, as a multiple of what the messages take if sent once each.
    bytes: f64,
}

fn run(seed: u64, loss: f64, rate: f64, repeats: Repeats, seconds: f64) -> Sparse {
    let mut config = transport();
    config.repeats = repeats;
    let mut world = World::new(seed, config.clone(), ListenConfig::default());
    let link: LinkConfig =
        format!("rate=100mbit,delay=20ms,queue=100ms,loss={}%", loss * 100.0).parse().unwrap();
    let client = world.add_client(config, link.clone(), link);
    let handle = world.connect(client);
    let count = (rate * seconds) as u64;
    let mut server = None;
    let mut latencies = vec![f64::NAN; count as usize];
    let due = |i: u64| Time::ZERO + secs(i as f64 / rate);
    let mut received = 0;
    let mut collect = |world: &mut World, latencies: &mut Vec<f64>| {
        for message in arrived(world, &mut server) {
            let i = u64::from_be_bytes(message.payload[..8].try_into().unwrap());
            latencies[i as usize] = world.now().since(due(i)).as_secs_f64() * 1e3;
            received += 1;
        }
        received >= count
    };
    for i in 0..count {
        let wait = due(i).since(world.now());
        world.run_until(wait, |world| {
            collect(world, &mut latencies);
            false
        });
        let mut payload = i.to_be_bytes().to_vec();
        payload.resize(100, 7);
        let now = world.now();
        let outgoing = Outgoing::new(StreamId(0), Service::ReliableUnsequenced, payload.into());
        world.peer(client, handle).connection.session().send(now, outgoing).unwrap();
    }
    let now = world.now();
    let sent = world.peer(client, handle).connection.stats(now).paths[0];
    assert!(world.run_until(secs(30.0), |world| collect(world, &mut latencies)), "seed {seed}");
    latencies.sort_by(f64::total_cmp);
    // The bytes of one message in one packet: headers, tag and DATA block.
    let once = 28.0 + 9.0 + 2.0 + 16.0 + 5.0 + 100.0;
    Sparse {
        p99_ms: latencies[latencies.len() * 99 / 100],
        packets: sent.sent_packets as f64 / count as f64,
        bytes: (sent.sent_bytes + 28 * sent.sent_packets) as f64 / (once * count as f64),
    }
}

/// Runs several seeds of a minute. Returns the 99th percentiles, and the mean cost in packets and bytes.
fn minutes(loss: f64, rate: f64, repeats: Repeats, seeds: u64) -> (Figures, f64, f64) {
    let (mut packets, mut bytes) = (0.0, 0.0);
    let p99 = Figures::of(seeds, |seed| {
        let sparse = run(seed, loss, rate, repeats, 60.0);
        packets += sparse.packets / seeds as f64;
        bytes += sparse.bytes / seeds as f64;
        sparse.p99_ms
    });
    (p99, packets, bytes)
}

const NONE: Repeats = Repeats::Fixed(0);

#[test]
#[ignore = "prints a table"]
fn a_hundred_a_second() {
    for (loss, rate, repeats) in [
        (0.05, 100.0, Repeats::Adaptive),
        (0.2, 100.0, Repeats::Adaptive),
        (0.05, 100.0, NONE),
        (0.2, 100.0, NONE),
        (0.05, 10.0, NONE),
    ] {
        let (p99, packets, bytes) = minutes(loss, rate, repeats, seeds(60));
        println!(
            "{rate} a second, {loss}, {repeats:?}: p99 ms {p99}; packets {packets:.3}, bytes {bytes:.3}"
        );
    }
}

#[test]
fn repeats_take_the_round_trip_out_of_the_tail() {
    let (p99, _, bytes) = minutes(0.05, 100.0, Repeats::Adaptive, 5);
    assert!(p99.at(1.0) < 35.0 && bytes < 1.75, "{p99}, {bytes:.2} x the bytes");
    let (p99, _, bytes) = minutes(0.2, 100.0, Repeats::Adaptive, 9);
    assert!(p99.at(0.5) < 45.0 && bytes < 2.45, "{p99}, {bytes:.2} x the bytes");
}

#[test]
fn without_repeats_a_loss_costs_little_more_than_a_round_trip() {
    for (loss, rate, most, cost) in
        [(0.05, 100.0, 75.0, 1.1), (0.2, 100.0, 135.0, 1.45), (0.05, 10.0, 85.0, 1.3)]
    {
        let (p99, packets, _) = minutes(loss, rate, NONE, 7);
        assert!(
            p99.at(0.5) < most && packets < cost,
            "loss {loss}, {rate} a second: {p99}, {packets:.2} x the packets"
        );
    }
}

/// A program that connects and sends a second later should find a fresh connection, even if every packet of that second
/// (the handshake and the search for the packet size) was alone and some were lost. They say nothing about the rate.
#[test]
fn a_second_with_nothing_to_send_ends_no_startup() {
    for seed in 1..=100 {
        let mut world = World::new(seed, transport(), ListenConfig::default());
        let link: LinkConfig = "rate=10mbit,delay=30ms,queue=200ms,loss=10%".parse().unwrap();
        let client = world.add_client(transport(), link.clone(), link);
        let handle = world.connect(client);
        world.run(secs(1.0));
        let now = world.now();
        let stats = world.peer(client, handle).connection.stats(now);
        // Where the handshake itself takes longer there is no path yet.
        let Some(path) = stats.paths.first() else { continue };
        assert_eq!(path.congestion.phase, "startup", "seed {seed}: {:?}", path.congestion);
    }
}
