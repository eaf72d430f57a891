//! One drawn link: bulk, a transfer from cold, and small messages over it.

use std::time::Duration;

use whimbrel_link::{Class, Drawn};
use whimbrel_proto::session::{Message, Outgoing, SessionConfig};
use whimbrel_proto::{Handle, ListenConfig, Service, StreamId, Time, TransportConfig};
use whimbrel_sim::world::{SERVER, World};

/// The resolution of timers, as in tokio.
const GRAIN: Duration = Duration::from_millis(1);
/// Seconds of bulk, and those in which it may fill the queue.
const BULK: u64 = 30;
const FIRST: u64 = 2;
/// Bytes of a message of bulk, and of the transfer.
const MESSAGE: usize = 1_200;
const TRANSFER: usize = 100_000;
/// A transfer that takes longer has failed, in seconds.
const PATIENCE: u64 = 600;
/// Messages a second, their bytes, seconds, and the bytes of each with all headers.
const RATE: u64 = 50;
const SMALL: usize = 100;
const SPAN: u64 = 20;
const SMALL_PACKET: u64 = 160;

/// The result of a draw.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) seed: u64,
    pub(crate) drawn: Drawn,
    /// The bytes of bulk that arrived, as a share of what the link leaves.
    pub(crate) share: f64,
    /// The share of packets dropped at the queue or by the policer, from the third second on.
    pub(crate) dropped: f64,
    /// The queueing delay of bulk, at the 95th percentile.
    pub(crate) queued: Duration,
    /// How long the transfer took, as a multiple of one that doubles from ten packets until the link is full.
    pub(crate) transfer: f64,
    /// The delay of messages at the 99th percentile, as a multiple of the way there. None where the link is too slow.
    pub(crate) late: Option<f64>,
}

impl Trial {
    pub(crate) fn run(seed: u64, most: u64) -> Self {
        let drawn = Drawn::new(seed, most);
        let (got, dropped, queued) = bulk(seed, &drawn);
        let share = got / drawn.leaves(Duration::from_secs(BULK));
        let transfer = transfer(seed, &drawn) / drawn.first_left(TRANSFER as f64).as_secs_f64();
        let late = (drawn.lowest() > 2 * RATE * SMALL_PACKET * 8).then(|| messages(seed, &drawn));
        Self { seed, share, dropped, queued, transfer, late, drawn }
    }

    pub(crate) fn has(&self, class: Class) -> bool {
        self.drawn.classes().contains(&class)
    }
}

/// A client that has begun to connect over the link, and the server.
struct Ends {
    world: World,
    client: usize,
    handle: Handle,
    server: Option<Handle>,
}

impl Ends {
    fn new(seed: u64, drawn: &Drawn) -> Self {
        let mut transport = TransportConfig::default();
        transport.session = SessionConfig::default().send_queue_bytes(4 << 20);
        let mut world = World::new(seed, transport.clone(), ListenConfig::default());
        world.set_timer_grain(GRAIN);
        let client = world.add_client(transport, drawn.up.clone(), drawn.down.clone());
        let handle = world.connect(client);
        Self { world, client, handle, server: None }
    }

    /// Runs until `at`, or until `each` says so after each step.
    fn run_until(&mut self, at: Time, mut each: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            self.world.flush();
            if each(self) {
                self.world.flush();
                return true;
            }
            self.world.flush();
            if !self.world.step(at) {
                return false;
            }
        }
    }

    /// Sends a message. Returns false if there is no room, or the connection is over.
    fn send(&mut self, service: Service, payload: Vec<u8>) -> bool {
        let now = self.world.now();
        let Some(peer) = self.world.try_peer(self.client, self.handle) else { return false };
        peer.connection.session().send(now, Outgoing::new(StreamId(0), service, payload.into())).is_ok()
    }

    fn arrived(&mut self) -> Vec<Message> {
        while let Some(accepted) = self.world.accept() {
            self.server = Some(accepted);
        }
        let now = self.world.now();
        let Some(peer) = self.server.and_then(|server| self.world.try_peer(SERVER, server)) else {
            return Vec::new();
        };
        std::iter::from_fn(|| peer.connection.session().recv(now)).collect()
    }

    fn bytes(&mut self) -> usize {
        self.arrived().iter().map(|message| message.payload.len()).sum()
    }
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// Returns the bytes that arrived, the share of packets dropped, and the queueing delay.
fn bulk(seed: u64, drawn: &Drawn) -> (f64, f64, Duration) {
    let (mut ends, mut got) = (Ends::new(seed, drawn), 0);
    let mut go = |ends: &mut Ends| {
        while ends.send(Service::ReliableUnsequenced, vec![7; MESSAGE]) {}
        got += ends.bytes();
        false
    };
    ends.run_until(at(FIRST), &mut go);
    let client = ends.client;
    let before = ends.world.link(client, SERVER).stats().clone();
    ends.run_until(at(BULK), &mut go);
    let after = ends.world.link(client, SERVER).stats();
    let offered = (after.offered - before.offered).max(1);
    let dropped = after.queue_drops + after.policed - before.queue_drops - before.policed;
    (got as f64, dropped as f64 / offered as f64, after.queue_delay.quantile(0.95))
}

/// Prints how bulk goes: how fast messages arrive, what the link drops, and what the controller believes.
pub(crate) fn show_bulk(seed: u64, drawn: &Drawn) {
    let (mut ends, mut got, mut dropped) = (Ends::new(seed, drawn), 0, 0);
    let step = Duration::from_millis(500);
    println!("   time   arrives  estimate    paced  window  in flight    rtt   queue dropped  phase");
    for i in 1..=BULK * 2 {
        let before = got;
        ends.run_until(Time::ZERO + step * i as u32, |ends| {
            while ends.send(Service::ReliableUnsequenced, vec![7; MESSAGE]) {}
            got += ends.bytes();
            false
        });
        let (client, now) = (ends.client, ends.world.now());
        let drops = ends.world.link(client, SERVER).stats().drops();
        let peer = ends.world.peer(client, ends.handle);
        let Some(path) = peer.connection.stats(now).paths.first().copied() else { continue };
        let kbit = |bytes: u64| bytes as f64 * 8e-3;
        println!(
            "{:>7.1} {:>9.0} {:>9.0} {:>8.0} {:>7} {:>10} {:>6} {:>7} {:>7}  {} {}",
            now.since(Time::ZERO).as_secs_f64(),
            kbit((got - before) as u64) / step.as_secs_f64(),
            kbit(path.congestion.bandwidth),
            kbit(path.congestion.pacing_rate),
            path.congestion.window,
            path.in_flight,
            path.rtt.as_millis(),
            path.congestion.queue.as_millis(),
            drops - dropped,
            path.congestion.phase,
            path.congestion.baseline_loss_ppm,
        );
        dropped = drops;
    }
}

/// Returns the seconds that a transfer from cold takes.
fn transfer(seed: u64, drawn: &Drawn) -> f64 {
    let (mut ends, mut got, mut left) = (Ends::new(seed, drawn), 0, TRANSFER);
    while left > 0 {
        let payload = vec![7; left.min(MESSAGE)];
        left -= payload.len();
        assert!(ends.send(Service::ReliableSequenced, payload));
    }
    let done = ends.run_until(at(PATIENCE), |ends| {
        got += ends.bytes();
        got >= TRANSFER
    });
    if done { ends.world.now().since(Time::ZERO).as_secs_f64() } else { f64::INFINITY }
}

/// Returns the delay of messages at the 99th percentile, as a multiple of the way there.
fn messages(seed: u64, drawn: &Drawn) -> f64 {
    let mut ends = Ends::new(seed, drawn);
    // Connected first: the setup is in the figure of the transfer.
    let start = 10;
    ends.run_until(at(start), |_| false);
    let due = |i: u64| at(start) + Duration::from_secs(1) * i as u32 / RATE as u32;
    let count = RATE * SPAN;
    let mut delays = vec![f64::INFINITY; count as usize];
    let mut received = 0;
    let mut collect = |ends: &mut Ends| {
        for message in ends.arrived() {
            let i = u64::from_be_bytes(message.payload[..8].try_into().unwrap());
            delays[i as usize] = ends.world.now().since(due(i)).as_secs_f64();
            received += 1;
        }
        received >= count
    };
    for i in 0..count {
        ends.run_until(due(i), |ends| {
            collect(ends);
            false
        });
        let mut payload = i.to_be_bytes().to_vec();
        payload.resize(SMALL, 7);
        assert!(ends.send(Service::ReliableUnsequenced, payload), "seed {seed}");
    }
    ends.run_until(at(PATIENCE), collect);
    delays.sort_by(f64::total_cmp);
    delays[delays.len() * 99 / 100] / drawn.up.delay.as_secs_f64()
}
