//! Small messages at a rate over a path with room to spare: how late the latest are, and what that costs.

use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{ListenConfig, Repeats, Service, StreamId, Time};
use whimbrel_sim::link::LinkConfig;
use whimbrel_sim::world::{SERVER, World};

use super::{Figures, secs, seeds, transport};

struct Sparse {
    /// One way.
    p99_ms: f64,
    /// Of the client, beside one a message.
    packets: f64,
    /// Of the client on the wire, beside what the messages take sent once each.
    bytes: f64,
    late_head: f64,
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
        while let Some(accepted) = world.accept() {
            server = Some(accepted);
        }
        let now = world.now();
        if let Some(peer) = server.and_then(|server| world.try_peer(SERVER, server)) {
            while let Some(message) = peer.connection.session().recv(now) {
                let i = u64::from_be_bytes(message.payload[..8].try_into().unwrap());
                latencies[i as usize] = now.since(due(i)).as_secs_f64() * 1e3;
                received += 1;
            }
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
    let sent = world.peer(client, handle).connection.stats(now).paths[0].clone();
    assert!(world.run_until(secs(30.0), |world| collect(world, &mut latencies)), "seed {seed}");
    let head = latencies[..(rate as usize)].iter().copied().fold(0.0, f64::max);
    latencies.sort_by(f64::total_cmp);
    // Header, tag, DATA block: what one message in one packet takes.
    let once = 28.0 + 9.0 + 2.0 + 16.0 + 5.0 + 100.0;
    Sparse {
        p99_ms: latencies[latencies.len() * 99 / 100],
        packets: sent.sent_packets as f64 / count as f64,
        bytes: (sent.sent_bytes + 28 * sent.sent_packets) as f64 / (once * count as f64),
        late_head: head,
    }
}

fn row(name: &str, loss: f64, rate: f64, repeats: Repeats, default_seeds: u64) {
    let (mut packets, mut bytes, mut heads) = (Vec::new(), Vec::new(), Vec::new());
    let p99 = Figures::of(seeds(default_seeds), |seed| {
        let sparse = run(seed, loss, rate, repeats, 60.0);
        packets.push(sparse.packets);
        bytes.push(sparse.bytes);
        heads.push(sparse.late_head);
        sparse.p99_ms
    });
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let over = heads.iter().filter(|head| **head > 600.0).count();
    println!("\n{name}: p99 ms {p99}; packets {:.3}, bytes {:.3}; first second's worst {:.0}, {over} above 600 ms", mean(&packets), mean(&bytes), mean(&heads));
}

#[test]
#[ignore = "prints a table"]
fn a_hundred_a_second() {
    row("5 % adaptive", 0.05, 100.0, Repeats::Adaptive, 30);
    row("20 % adaptive", 0.2, 100.0, Repeats::Adaptive, 60);
    row("5 % none", 0.05, 100.0, Repeats::Fixed(0), 30);
    row("20 % none", 0.2, 100.0, Repeats::Fixed(0), 60);
    row("10/s 5 % none", 0.05, 10.0, Repeats::Fixed(0), 60);
}
