//! An outage: how much longer than the link the messages are silent.

use std::time::Duration;

use whimbrel_link::LinkConfig;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Handle, ListenConfig, Service, StreamId, Tag, Time};
use whimbrel_sim::world::World;

use super::{GRAIN, arrived, secs, transport};

const LINK: &str = "rate=4mbit,delay=25ms,queue=100ms";
const RTT: Duration = Duration::from_millis(50);
const BEGINS: f64 = 5.0;

/// The messages that are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    /// As many as fit, of 1,200 bytes each.
    Bulk,
    /// Ten a second, each replacing the previous one.
    Newest,
    /// Ten a second.
    All,
}

struct Outage {
    world: World,
    client: usize,
    handle: Handle,
    server: Option<Handle>,
    load: Load,
    sent: u64,
    /// The arrival times and numbers.
    received: Vec<(Time, u64)>,
}

impl Outage {
    fn new(seed: u64, length: f64, load: Load) -> Self {
        let mut world = World::new(seed, transport(), ListenConfig::default());
        world.set_timer_grain(GRAIN);
        // It begins at a different phase each time.
        let begins = BEGINS + seed as f64 * 0.0037;
        let link: LinkConfig =
            format!("{LINK},outage=at {}ms for {}ms", (begins * 1e3).round(), length * 1e3).parse().unwrap();
        let client = world.add_client(transport(), link.clone(), link);
        let handle = world.connect(client);
        let mut outage = Self { world, client, handle, server: None, load, sent: 0, received: Vec::new() };
        outage.run(begins + length + 5.0);
        outage
    }

    fn run(&mut self, seconds: f64) {
        let end = Time::ZERO + secs(seconds);
        while self.world.now() < end {
            self.send();
            let step = if self.load == Load::Bulk { secs(0.05) } else { secs(0.1) };
            let Self { world, server, received, .. } = self;
            world.run_until(step, |world| {
                for message in arrived(world, server) {
                    let number = u64::from_be_bytes(message.payload[..8].try_into().unwrap());
                    received.push((world.now(), number));
                }
                false
            });
        }
    }

    fn send(&mut self) {
        let now = self.world.now();
        let session = self.world.peer(self.client, self.handle).connection.session();
        let count = if self.load == Load::Bulk { 50 } else { 1 };
        for _ in 0..count {
            let mut payload = self.sent.to_be_bytes().to_vec();
            payload.resize(if self.load == Load::Bulk { 1200 } else { 100 }, 7);
            let message = Outgoing::new(StreamId(0), Service::ReliableSequenced, payload.into());
            let taken = match self.load {
                Load::Newest => session.replace(now, StreamId(0), Tag(1), message),
                _ => session.send(now, message),
            };
            if taken.is_err() {
                break;
            }
            self.sent += 1;
        }
    }

    /// The longest silence, and the first message after it.
    fn silence(&self) -> (Duration, Time, u64) {
        let gaps = self.received.windows(2).map(|pair| (pair[1].0.since(pair[0].0), pair[1].0, pair[1].1));
        gaps.max_by_key(|(gap, _, _)| *gap).unwrap()
    }
}

const LENGTHS: [f64; 5] = [1.0, 2.0, 3.5, 5.0, 10.0];

/// The longest silence beyond the outage.
fn excess(load: Load, interval: Duration) -> Duration {
    let mut longest = Duration::ZERO;
    for length in LENGTHS {
        for seed in 1..=super::seeds(4) {
            let outage = Outage::new(seed, length, load);
            let (silence, at, first) = outage.silence();
            let over = silence.saturating_sub(secs(length)).saturating_sub(interval);
            longest = longest.max(over);
            if load == Load::Newest {
                // Messages are sent every 100 ms and take at least half a round trip.
                let newest = (at.since(Time::ZERO).saturating_sub(RTT / 2).as_millis() / 100) as u64;
                assert!(first + 2 >= newest, "seed {seed}: {first} arrived, {newest} was the newest");
            }
            if load == Load::All {
                let all: Vec<u64> = outage.received.iter().map(|(_, number)| *number).collect();
                assert!(all.iter().copied().eq(0..all.len() as u64) && all.len() as u64 + 2 >= outage.sent);
            }
        }
    }
    println!("silent for {longest:?} beyond the outage");
    longest
}

#[test]
fn bulk_is_back_within_a_round_trip_and_a_quarter_second() {
    assert!(excess(Load::Bulk, Duration::ZERO) <= RTT + Duration::from_millis(250));
}

#[test]
fn the_first_update_after_an_outage_is_the_newest_and_soon() {
    assert!(excess(Load::Newest, Duration::from_millis(100)) <= RTT + Duration::from_millis(250));
}

#[test]
fn updates_that_replace_nothing_all_arrive_in_order() {
    assert!(excess(Load::All, Duration::from_millis(100)) <= RTT + Duration::from_millis(250));
}
