//! Transfers of a number of bytes, reliable and in sequence, from the connect call to the last byte read.

use whimbrel_link::LinkConfig;
use whimbrel_proto::session::Outgoing;
use whimbrel_proto::{Event, Handle, ListenConfig, Service, StreamId, Ticket};
use whimbrel_sim::world::World;

use super::{Figures, arrived, secs, seeds, transport};

struct Visit {
    world: World,
    client: usize,
}

impl Visit {
    fn new(seed: u64, link: &str) -> Self {
        let listen = ListenConfig::default().early_from_tickets(true);
        let mut world = World::new(seed, transport(), listen);
        world.set_timer_grain(super::GRAIN);
        let link: LinkConfig = link.parse().unwrap();
        let client = world.add_client(transport(), link.clone(), link);
        Self { world, client }
    }

    /// Sends `bytes`. Returns the seconds until all were read.
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
            got += arrived(world, &mut server).iter().map(|message| message.payload.len()).sum::<usize>();
            got >= bytes
        });
        assert!(done, "{got} of {bytes} bytes");
        world.now().since(start).as_secs_f64()
    }

    /// Makes a first visit and returns the ticket that it brings.
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

/// A transfer without a ticket.
fn cold(seed: u64, link: &str, bytes: usize, size: usize) -> f64 {
    let mut visit = Visit::new(seed, link);
    let handle = visit.world.connect(visit.client);
    visit.transfer(handle, bytes, size)
}

/// A transfer with a ticket that remembers the path.
fn warm(seed: u64, link: &str, bytes: usize, size: usize) -> f64 {
    let mut visit = Visit::new(seed, link);
    let ticket = visit.ticket();
    let handle = visit.world.connect_by(visit.client, ticket);
    visit.transfer(handle, bytes, size)
}

/// The time of an ideal transfer: the round trips of setup, half of one to the receiver, and the bytes at the rate
/// that is left.
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
    for (mbit, rtt, loss) in [
        (4.0, 50.0, 0.0),
        (4.0, 50.0, 0.05),
        (4.0, 50.0, 0.1),
        (4.0, 50.0, 0.15),
        (20.0, 100.0, 0.0),
        (20.0, 100.0, 0.01),
        (20.0, 100.0, 0.05),
    ] {
        let link = link(mbit, rtt, loss);
        let times = Figures::of(seeds(200), |seed| cold(seed, &link, TWO_MB, 8192));
        let ideal = ideal(1.5, mbit * 1e6, rtt / 1e3, loss, TWO_MB);
        println!(
            "cold {mbit} Mbit/s {rtt} ms {loss}: {times}; ideal {ideal:.3}, median {:.3} x",
            times.at(0.5) / ideal
        );
    }
}

#[test]
#[ignore = "prints a table"]
fn two_megabytes_by_ticket() {
    for (mbit, rtt, loss) in [(20.0, 100.0, 0.0), (20.0, 100.0, 0.01), (20.0, 100.0, 0.05)] {
        let link = link(mbit, rtt, loss);
        let times = Figures::of(seeds(200), |seed| warm(seed, &link, TWO_MB, 8192));
        let ideal = ideal(1.5, mbit * 1e6, rtt / 1e3, loss, TWO_MB);
        println!(
            "ticket {mbit} Mbit/s {rtt} ms {loss}: {times}; ideal {ideal:.3}, median {:.3} x",
            times.at(0.5) / ideal
        );
    }
}

#[test]
#[ignore = "prints a table"]
fn ten_kilobytes() {
    let times = Figures::of(seeds(1000), |seed| cold(seed, &link(4.0, 50.0, 0.05), 10_000, 10_000));
    println!("10 KB: {times}");
}

#[test]
fn two_megabytes_do_not_wait_for_their_last_losses() {
    let times = Figures::of(40, |seed| cold(seed, &link(20.0, 100.0, 0.05), TWO_MB, 8192));
    assert!(times.at(0.5) < 1.24 && times.at(0.9) < 1.35, "{times}");
    let ideal = ideal(1.5, 4e6, 0.05, 0.05, TWO_MB);
    let slow = Figures::of(10, |seed| cold(seed, &link(4.0, 50.0, 0.05), TWO_MB, 8192));
    assert!(slow.at(0.5) < ideal * 1.035, "{slow}");
}

#[test]
fn a_ticket_that_remembers_the_path_saves_the_start() {
    for (loss, most) in [(0.0, 1.0), (0.05, 1.08)] {
        let ideal = ideal(1.5, 20e6, 0.1, loss, TWO_MB);
        let times = Figures::of(15, |seed| warm(seed, &link(20.0, 100.0, loss), TWO_MB, 8192));
        assert!(times.at(0.5) < ideal * most, "{times}; ideal {ideal:.3}");
    }
}

#[test]
fn ten_kilobytes_arrive_within_four_round_trips() {
    let serialisation = 10_000.0 * 8.0 / (4e6 * 1437.0 / 1500.0);
    let times = Figures::of(200, |seed| cold(seed, &link(4.0, 50.0, 0.05), 10_000, 10_000));
    assert!(times.at(0.5) < 0.1 + serialisation && times.at(0.95) < 0.2 + serialisation, "{times}");
}
