//! Frames of a video that are worthless after 150 ms, where a retransmission would come too late.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use whimbrel_link::LinkConfig;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{ListenConfig, Service, StreamId, Time};
use whimbrel_sim::world::World;

use super::{arrived, secs, transport};

const LIFETIME: f64 = 0.15;
const RATE: f64 = 30.0;
/// The frames of ten seconds.
const SETTLED: usize = 300;

struct Frames {
    /// The share of frames that arrived whole within their lifetime.
    in_time: f64,
    /// The sender's IP bytes.
    bytes: u64,
    repairs: u64,
    recovered: u64,
    /// The least estimate of the link's rate in bits a second, once the first ten seconds were over.
    least_bandwidth: u64,
    retransmitted: u64,
}

/// The frames' sizes: 8 to 30 KB, with a median of 15 KB.
fn sizes(count: usize) -> Vec<usize> {
    let mut dice = ChaCha20Rng::seed_from_u64(30);
    let draw = |dice: &mut ChaCha20Rng| {
        // The sum of uniform numbers is near enough to a normal one.
        let normal: f64 = (0..12).map(|_| dice.random::<f64>()).sum::<f64>() - 6.0;
        (15_000.0 * (0.4 * normal).exp()).clamp(8_000.0, 30_000.0) as usize
    };
    (0..count).map(|_| draw(&mut dice)).collect()
}

/// The link's rate and round trip, and the frames' lifetime in seconds and priority.
struct Video {
    mbit: f64,
    rtt: f64,
    lifetime: f64,
    priority: u8,
    service: Service,
}

impl Default for Video {
    fn default() -> Self {
        Self {
            mbit: 10.0,
            rtt: 100.0,
            lifetime: LIFETIME,
            priority: 100,
            service: Service::UnreliableUnsequenced,
        }
    }
}

fn run(seed: u64, hazard: &str, repair_budget: u16, seconds: f64) -> Frames {
    run_on(&Video::default(), seed, hazard, repair_budget, seconds)
}

fn reliable() -> Video {
    Video { service: Service::ReliableUnsequenced, ..Video::default() }
}

fn run_on(video: &Video, seed: u64, hazard: &str, repair_budget: u16, seconds: f64) -> Frames {
    let config = transport().repair_budget(repair_budget);
    let mut world = World::new(seed, config.clone(), ListenConfig::default());
    let (mbit, delay) = (video.mbit, video.rtt / 2.0);
    let link: LinkConfig = format!("rate={mbit}mbit,delay={delay}ms,queue=200ms{hazard}").parse().unwrap();
    let client = world.add_client(config, link.clone(), link);
    let handle = world.connect(client);
    let scale = video.mbit / 10.0;
    let sizes: Vec<usize> =
        sizes((RATE * seconds) as usize).iter().map(|s| (*s as f64 * scale) as usize).collect();
    let mut server = None;
    let due = |frame: usize| Time::ZERO + secs(1.0 + frame as f64 / RATE);
    let (mut in_time, mut least_bandwidth) = (0, u64::MAX);
    let mut collect = |world: &mut World| {
        for message in arrived(world, &mut server) {
            let frame = u64::from_be_bytes(message.payload[..8].try_into().unwrap()) as usize;
            in_time += usize::from(world.now().since(due(frame)) <= secs(video.lifetime));
        }
        false
    };
    for (frame, size) in sizes.iter().enumerate() {
        let wait = due(frame).since(world.now());
        world.run_until(wait, &mut collect);
        let mut payload = (frame as u64).to_be_bytes().to_vec();
        payload.resize(*size, 7);
        let mut outgoing = Outgoing::new(StreamId(0), video.service, payload.into());
        outgoing.lifetime = Some(secs(video.lifetime));
        outgoing.priority = video.priority;
        let now = world.now();
        if frame >= SETTLED {
            let stats = world.peer(client, handle).connection.stats(now);
            least_bandwidth = least_bandwidth.min(stats.paths[0].congestion.bandwidth * 8);
        }
        world.peer(client, handle).connection.session().send(now, outgoing).unwrap();
    }
    world.run_until(secs(1.0), &mut collect);
    let now = world.now();
    let stats = world.peer(client, handle).connection.stats(now);
    let recovered = server.map_or(0, |server| {
        world.peer(whimbrel_sim::world::SERVER, server).connection.stats(now).coding.recovered
    });
    let retransmitted = world.peer(client, handle).connection.session_ref().stats().retransmitted;
    Frames {
        retransmitted,
        in_time: in_time as f64 / sizes.len() as f64,
        bytes: stats.total.sent_wire_bytes,
        repairs: stats.coding.repairs,
        recovered,
        least_bandwidth,
    }
}

/// The least share in time, and the most bytes beside those of the frames sent once.
#[test]
fn frames_are_repaired_in_time() {
    const SECONDS: f64 = 60.0;
    const SEEDS: u64 = 4;
    let once = run(1, "", 0, SECONDS);
    assert!(once.in_time > 0.9999 && once.repairs == 0);
    for (hazard, without, least, most) in [
        ("", 1.0, 1.0, 1.1),
        (",loss=2%", 0.85, 0.995, 1.25),
        (",loss=5%", 0.65, 0.995, 1.35),
        (",loss=10%", 0.4, 0.995, 1.7),
        (",outage=4994ms/20ms", 0.994, 0.995, 1.35),
    ] {
        let (mut in_time, mut bytes) = (0.0, 0);
        for seed in 1..=SEEDS {
            let bare = run(seed, hazard, 0, SECONDS);
            let frames = run(seed, hazard, 60, SECONDS);
            let cost = frames.bytes as f64 / once.bytes as f64;
            println!(
                "{hazard:20} seed {seed}: {:.4} in time at {cost:.3} times the bytes, {} repairs, {} recovered; \
                 without: {:.4}",
                frames.in_time, frames.repairs, frames.recovered, bare.in_time
            );
            assert!(bare.in_time <= without);
            in_time += frames.in_time / SEEDS as f64;
            bytes += frames.bytes;
        }
        let cost = bytes as f64 / (SEEDS * once.bytes) as f64;
        println!("{hazard:20}: {in_time:.4} in time at {cost:.3} times the bytes");
        assert!(
            in_time >= least && cost <= most,
            "{hazard}: {in_time:.4} in time at {cost:.3} times the bytes"
        );
    }
}

/// Reliable frames are sent again only if that can be in time, and where repair symbols stand in for what is lost it
/// goes only once. Before, 5 % loss had 1.38 times the bytes.
#[test]
fn reliable_frames_are_not_sent_again_in_vain() {
    const SECONDS: f64 = 60.0;
    let once = run(1, "", 0, SECONDS);
    for (hazard, most) in
        [("", 1.07), (",loss=2%", 1.2), (",loss=5%", 1.3), (",loss=10%", 1.5), (",outage=4994ms/20ms", 1.35)]
    {
        for seed in 1..=2 {
            let frames = run_on(&reliable(), seed, hazard, 60, SECONDS);
            let cost = frames.bytes as f64 / once.bytes as f64;
            println!("{hazard:20} seed {seed}: {:.4} in time at {cost:.3} times the bytes", frames.in_time);
            assert!(frames.in_time >= 0.995 && cost <= most, "{hazard}: {:.4}, {cost:.3}", frames.in_time);
            assert_eq!(frames.retransmitted, 0);
        }
    }
    let bare = run_on(&reliable(), 1, ",loss=5%", 0, SECONDS);
    assert!(bare.retransmitted > 1_000, "without repair symbols, all that is lost is sent again");
}

/// The frames take 4 of 10 Mbit/s, so there is often nothing to send. As much arrives then when the controller sends
/// less, which once looked like an overflowing queue: the estimate fell to the application's own rate.
#[test]
fn loss_does_not_slow_down_a_sender_that_has_little_to_send() {
    for seed in 1..=4 {
        let Frames { least_bandwidth, .. } = run(seed, ",loss=5%", 0, 60.0);
        println!("seed {seed}: the estimate is never below {:.2} Mbit/s", least_bandwidth as f64 / 1e6);
        assert!(least_bandwidth > 6_000_000, "seed {seed}: {least_bandwidth} bit/s");
    }
}

/// Other rates, round trips, losses and seeds than those the constants were chosen with: a table on request. Lifetimes
/// are one and a half round trips, so that no retransmission comes in time, and the frames take 40 % of the rate.
#[test]
#[ignore = "takes minutes, and is for reading"]
fn frames_on_other_links() {
    const SECONDS: f64 = 60.0;
    const SEEDS: std::ops::RangeInclusive<u64> = 101..=106;
    println!("Mbit/s, round trip in ms, losses: in time (worst seed) at times the bytes");
    for (mbit, rtt) in [(10.0, 100.0), (3.0, 100.0), (30.0, 100.0), (10.0, 60.0), (10.0, 200.0), (5.0, 400.0)]
    {
        let link = Video { mbit, rtt, lifetime: rtt * 1.5 / 1e3, ..Video::default() };
        let once = run_on(&link, 1, "", 0, SECONDS);
        for hazard in [
            ",loss=1%",
            ",loss=2%",
            ",loss=5%",
            ",loss=10%",
            ",loss=15%",
            ",outage=4994ms/20ms",
            ",outage=4980ms/40ms",
        ] {
            let (mut in_time, mut worst, mut bytes, mut bare) = (0.0, 1.0f64, 0, 0.0);
            for seed in SEEDS {
                bare += run_on(&link, seed, hazard, 0, SECONDS).in_time;
                let frames = run_on(&link, seed, hazard, 60, SECONDS);
                in_time += frames.in_time;
                worst = worst.min(frames.in_time);
                bytes += frames.bytes;
            }
            let count = SEEDS.count() as f64;
            println!(
                "{mbit:5} {rtt:5} {hazard:22}: {:.4} ({worst:.4}) at {:.3}; without {:.4}",
                in_time / count,
                bytes as f64 / count / once.bytes as f64,
                bare / count
            );
            assert!(in_time > bare, "repair symbols do not help");
        }
    }
}

/// A longer burst takes more of the window with it, so more is sent against the next one.
#[test]
fn repair_symbols_follow_the_length_of_bursts() {
    let video = Video::default();
    let run = |hazard, budget| run_on(&video, 7, hazard, budget, 60.0);
    let short = run(",outage=4990ms/10ms", 60);
    let long = run(",outage=4960ms/40ms", 60);
    let bare = run(",outage=4960ms/40ms", 0);
    println!(
        "{} and {} repair symbols; {:.4} and {:.4} in time",
        short.repairs, long.repairs, long.in_time, bare.in_time
    );
    assert!(long.repairs > short.repairs * 3 / 2);
    assert!(1.0 - long.in_time < (1.0 - bare.in_time) * 3.0 / 4.0);
}

/// The budget bounds what is sent for ordinary messages only.
#[test]
fn urgent_frames_are_repaired_beyond_the_budget() {
    let run = |priority| run_on(&Video { priority, ..Video::default() }, 7, ",loss=10%", 10, 20.0);
    let [ordinary, urgent] = [100, 200].map(run);
    println!("{:.4} and {:.4} in time", ordinary.in_time, urgent.in_time);
    assert!(ordinary.in_time < 0.9 && urgent.in_time > 0.99);
}
