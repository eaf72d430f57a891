//! Hosts too busy to wake up in time, on paths whose round trip is no longer than that delay.

use std::ops::RangeInclusive;
use std::time::Duration;

use whimbrel_link::LinkConfig;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Handle, ListenConfig, Service, StreamId};
use whimbrel_sim::world::{SERVER, World};

use super::{Figures, GRAIN, arrived, secs, seeds, transport};

/// The figures of bulk between hosts that are late.
struct Busy {
    /// The payload that arrived, as a share of what the link could carry.
    share: f64,
    /// The queueing delay of packets at the bottleneck.
    queue_p95: Duration,
    dropped: f64,
}

/// The share of wake-ups that are late, and by how much.
type Late = (f64, RangeInclusive<Duration>);

const MESSAGE: usize = 1200;

fn run(seed: u64, mbit: f64, link: &str, loss: f64, late: Late) -> Busy {
    const SECONDS: f64 = 10.0;
    let mut world = World::new(seed, transport(), ListenConfig::default());
    world.set_timer_grain(GRAIN);
    world.set_lateness(late.0, late.1);
    let link: LinkConfig = format!("rate={mbit}mbit,{link},loss={}%", loss * 100.0).parse().unwrap();
    let client = world.add_client(transport(), link.clone(), link);
    let handle = world.connect(client);
    let (mut server, mut got) = (None, 0);
    world.run_until(secs(SECONDS), |world| {
        fill(world, client, handle);
        got += arrived(world, &mut server).iter().map(|message| message.payload.len()).sum::<usize>();
        false
    });
    let up = world.link(client, SERVER).stats();
    Busy {
        share: got as f64 * 8.0 / (mbit * 1e6 * SECONDS * (1.0 - loss) * 1437.0 / 1500.0),
        queue_p95: up.queue_delay.quantile(0.95),
        dropped: up.queue_drops as f64 / up.offered as f64,
    }
}

fn fill(world: &mut World, client: usize, handle: Handle) {
    let now = world.now();
    let session = world.peer(client, handle).connection.session();
    let message = || Outgoing::new(StreamId(0), Service::ReliableUnsequenced, vec![7; MESSAGE].into());
    while session.send(now, message()).is_ok() {}
}

#[test]
fn a_busy_host_sends_on_over_short_paths() {
    let ms = Duration::from_millis;
    for (mbit, link, late, least) in [
        (9.6, "delay=1ms,queue=100ms", (0.1, ms(3)..=ms(5)), 0.87),
        (9.6, "delay=1ms,queue=100ms", (1.0, ms(0)..=ms(5)), 0.75),
        (100.0, "delay=1ms,queue=20ms", (1.0, ms(0)..=ms(5)), 0.85),
    ] {
        for seed in 1..=2 {
            let busy = run(seed, mbit, link, 0.0, late.clone());
            assert!(busy.share > least, "seed {seed}: {mbit} Mbit/s, late {late:?}: {:.3}", busy.share);
            assert!(
                busy.queue_p95 < ms(8),
                "seed {seed}: {mbit} Mbit/s, late {late:?}: {:?}",
                busy.queue_p95
            );
        }
    }
}

#[test]
fn a_busy_host_changes_nothing_over_longer_ones() {
    let late = (1.0, Duration::from_millis(3)..=Duration::from_millis(5));
    let busy = run(1, 4.0, "delay=25ms,queue=100ms", 0.1, late);
    assert!(busy.share > 0.96 && busy.queue_p95 < Duration::from_millis(50), "{:.3}", busy.share);
}

#[test]
#[ignore = "prints a table"]
fn busy_hosts() {
    let ms = Duration::from_millis;
    for (mbit, link, loss) in [
        (9.6, "delay=1ms,queue=100ms", 0.0),
        (9.6, "delay=1ms,queue=10ms", 0.0),
        (100.0, "delay=1ms,queue=20ms", 0.0),
        (20.0, "delay=5ms,queue=100ms", 0.0),
        (4.0, "delay=25ms,queue=100ms", 0.1),
    ] {
        for late in [
            (0.0, ms(0)..=ms(0)),
            (0.1, ms(3)..=ms(5)),
            (0.3, ms(3)..=ms(5)),
            (1.0, ms(0)..=ms(5)),
            (1.0, ms(3)..=ms(5)),
        ] {
            let of = |figure: fn(Busy) -> f64| {
                Figures::of(seeds(4), |seed| figure(run(seed, mbit, link, loss, late.clone())))
            };
            println!(
                "{mbit} Mbit/s, {link}, loss {loss}, late {late:?}: share {:.3} ({:.3}), queue {:.1} ms, dropped {:.4}",
                of(|busy| busy.share).at(0.5),
                of(|busy| busy.share).at(0.0),
                of(|busy| busy.queue_p95.as_secs_f64() * 1e3).at(0.5),
                of(|busy| busy.dropped).at(0.5),
            );
        }
    }
}
