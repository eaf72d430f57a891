//! So many bytes, reliable and in sequence, from the connect call to the last byte read.

use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Event, Handle, ListenConfig, Service, StreamId, Ticket};
use whimbrel_sim::link::LinkConfig;
use whimbrel_sim::world::{SERVER, World};

use super::{Figures, secs, seeds, transport};

struct Visit {
    world: World,
    client: usize,
}

impl Visit {
    fn new(seed: u64, link: &str) -> Self {
        let listen = ListenConfig { early_from_tickets: true, ..ListenConfig::default() };
        let mut world = World::new(seed, transport(), listen);
        world.set_timer_grain(super::GRAIN);
        let link: LinkConfig = link.parse().unwrap();
        let client = world.add_client(transport(), link.clone(), link);
        Self { world, client }
    }

    /// Sends `bytes`; seconds until all were read.
    fn transfer(&mut self, handle: Handle, bytes: usize, size: usize) -> f64 {
        let Self { world, client } = self;
        let start = world.now();
        let mut left = bytes;
        while left > 0 {
            let payload = vec![7; left.min(size)];
            left -= payload.len();
            let outgoing = Outgoing::new(StreamId(0), Service::ReliableSequenced, payload.into());
            world.peer(*client, handle).connection.session().send(start, outgoing).unwrap();
        }
        let (mut server, mut got) = (None, 0);
        let done = world.run_until(secs(120.0), |world| {
            while let Some(accepted) = world.accept() {
                server = Some(accepted);
            }
            let now = world.now();
            if let Some(peer) = server.and_then(|server| world.try_peer(SERVER, server)) {
                while let Some(message) = peer.connection.session().recv(now) {
                    got += message.payload.len();
                }
            }
            got >= bytes
        });
        assert!(done, "{got} of {bytes} bytes");
        world.now().since(start).as_secs_f64()
    }

    /// A first visit, and the ticket it brings.
    fn ticket(&mut self) -> Ticket {
        let handle = self.world.connect(self.client);
        self.transfer(handle, 4_000_000, 8192);
        let now = self.world.now();
        self.world.peer(self.client, handle).connection.close(now, 0, "");
        self.world.run(secs(3.0));
        let events = &self.world.peer(self.client, handle).events;
        let mut tickets = events.iter().filter_map(|(_, event)| match event {
            Event::Ticket(ticket) => Some(ticket.clone()),
            _ => None,
        });
        tickets.next_back().unwrap()
    }
}

/// From cold.
fn cold(seed: u64, link: &str, bytes: usize, size: usize) -> f64 {
    let mut visit = Visit::new(seed, link);
    let handle = visit.world.connect(visit.client);
    visit.transfer(handle, bytes, size)
}

/// By a ticket that remembers the path.
fn warm(seed: u64, link: &str, bytes: usize, size: usize) -> f64 {
    let mut visit = Visit::new(seed, link);
    let ticket = visit.ticket();
    let handle = visit.world.connect_by(visit.client, ticket);
    visit.transfer(handle, bytes, size)
}

/// The time that an ideal transfer takes: round trips of set-up, half of one to the receiver, bytes at the share that is left.
fn ideal(round_trips: f64, bits: f64, rtt: f64, loss: f64, bytes: usize) -> f64 {
    rtt * round_trips + bytes as f64 * 8.0 / (bits * (1.0 - loss) * 1437.0 / 1500.0)
}

fn link(mbit: f64, rtt_ms: f64, loss: f64) -> String {
    format!("rate={mbit}mbit,delay={}ms,queue=100ms,loss={}%", rtt_ms / 2.0, loss * 100.0)
}

const TWO_MB: usize = 2_000_000;

#[test]
#[ignore = "prints a table"]
fn two_megabytes() {
    for (mbit, rtt, loss) in
        [(4.0, 50.0, 0.0), (4.0, 50.0, 0.05), (4.0, 50.0, 0.1), (4.0, 50.0, 0.15), (20.0, 100.0, 0.0), (20.0, 100.0, 0.01), (20.0, 100.0, 0.05)]
    {
        let link = link(mbit, rtt, loss);
        let times = Figures::of(seeds(200), |seed| cold(seed, &link, TWO_MB, 8192));
        let ideal = ideal(1.5, mbit * 1e6, rtt / 1e3, loss, TWO_MB);
        println!("\ncold {mbit} Mbit/s {rtt} ms {loss}: {times}; ideal {ideal:.3}, median {:.3} x", times.at(0.5) / ideal);
    }
}

#[test]
#[ignore = "prints a table"]
fn two_megabytes_by_ticket() {
    for (mbit, rtt, loss) in [(20.0, 100.0, 0.0), (20.0, 100.0, 0.01), (20.0, 100.0, 0.05)] {
        let link = link(mbit, rtt, loss);
        let times = Figures::of(seeds(200), |seed| warm(seed, &link, TWO_MB, 8192));
        let ideal = ideal(1.5, mbit * 1e6, rtt / 1e3, loss, TWO_MB);
        println!("\nticket {mbit} Mbit/s {rtt} ms {loss}: {times}; ideal {ideal:.3}, median {:.3} x", times.at(0.5) / ideal);
    }
}

#[test]
#[ignore = "prints a table"]
fn ten_kilobytes() {
    let times = Figures::of(seeds(1000), |seed| cold(seed, &link(4.0, 50.0, 0.05), 10_000, 10_000));
    println!("\n10 KB: {times}");
}

#[test]
#[ignore = "prints a table"]
fn zz_detail() {
    for seed in 1..=100 {
        let mut visit = Visit::new(seed, &link(20.0, 100.0, 0.05));
        let handle = visit.world.connect(visit.client);
        let time = visit.transfer(handle, TWO_MB, 8192);
        if time < 1.3 { continue; }
        let now = visit.world.now();
        let path = visit.world.peer(visit.client, handle).connection.stats(now).paths[0].clone();
        let link = visit.world.link(visit.client, SERVER).stats();
        println!("\nseed {seed}: {time:.3} sent {} lost {} spurious {} qdrops {} lossdrops {} p95 {:?} max {:?}", path.sent_packets, path.lost_packets, path.spurious_packets, link.queue_drops, link.loss_drops, link.queue_delay.quantile(0.95), link.queue_delay.max());
    }
}

#[test]
#[ignore = "prints a table"]
fn zz_log() {
    let seed = std::env::var("SEED").unwrap().parse().unwrap();
    let mut visit = Visit::new(seed, &link(20.0, 100.0, 0.05));
    let handle = visit.world.connect(visit.client);
    let Visit { world, client } = &mut visit;
    for _ in 0..TWO_MB / 8000 {
        let now = world.now();
        let outgoing = Outgoing::new(StreamId(0), Service::ReliableSequenced, vec![7; 8000].into());
        world.peer(*client, handle).connection.session().send(now, outgoing).unwrap();
    }
    let mut server = None;
    for _ in 0..64 {
        world.run_until(secs(0.025), |world| {
            while let Some(accepted) = world.accept() {
                server = Some(accepted);
            }
            let now = world.now();
            if let Some(peer) = server.and_then(|server| world.try_peer(SERVER, server)) {
                while peer.connection.session().recv(now).is_some() {}
            }
            false
        });
        let now = world.now();
        let path = world.peer(*client, handle).connection.stats(now).paths[0].clone();
        let c = path.congestion;
        println!("\n{now:?}: sent {} lost {} spur {} flight {} window {} {} bw {:.2} pace {:.2} queue {:?} base {:?} rtt {:?} bl {}",
            path.sent_packets, path.lost_packets, path.spurious_packets, path.in_flight, c.window, c.phase, c.bandwidth as f64 * 8e-6, c.pacing_rate as f64 * 8e-6, c.queue, c.min_rtt, path.rtt_latest, c.baseline_loss_ppm);
    }
}
