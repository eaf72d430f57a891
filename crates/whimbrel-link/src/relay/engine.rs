//! The relay's thread: it receives, pushes packets through the link, and sends them when due.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use whimbrel_net::{BareSocket, Datagram, EcnCodepoint, RecvBatch, SocketOptions, Transmit};
use whimbrel_proto::Time;

use super::clients::{ClientId, Clients};
use super::packet::{Buffers, Packet};
use super::report::{Lane, RelayReport};
use super::wait::{self, Waiter};
use super::{Direction, Order, Orders, RelayConfig};
use crate::{Calendar, Delivery, Histogram, Link};

/// Shorter waits are not slept: going to sleep and waking up takes as long.
const NO_SLEEP: Duration = Duration::from_micros(5);
/// The number of buffers of one receive call.
const BUFFERS: usize = 8;
/// The most bytes and segments of one send call.
const CALL_BYTES: usize = 60_000;
const CALL_SEGMENTS: usize = 60;
/// Positions in the waiter; the clients follow.
const ORDERS: usize = 0;
const LISTEN: usize = 1;
const CLIENTS: usize = 2;

#[derive(Debug)]
pub(super) struct Engine {
    listen: BareSocket,
    local: SocketAddr,
    to: SocketAddr,
    seed: u64,
    orders: Orders,
    clients: Clients,
    calendar: Calendar<Packet>,
    buffers: Buffers,
    up: Link,
    down: Link,
    rebind_every: Option<Duration>,
    rebind_at: Option<Time>,
    rebinds: u64,
    /// The clock's zero, which is the first packet.
    start: Option<Instant>,
    lateness: Histogram,
    unsent: u64,
    waiter: Waiter,
    /// The client behind each position of the waiter from `CLIENTS` on.
    waiting: Vec<ClientId>,
    segments: Vec<u8>,
}

impl Engine {
    pub(super) fn new(listen: BareSocket, local: SocketAddr, config: &RelayConfig, orders: Orders) -> Self {
        let [up, down] = Link::pair(config.up.clone(), config.down.clone(), config.seed);
        Self {
            listen,
            local,
            to: config.to,
            seed: config.seed,
            orders,
            clients: Clients::new(config.clients_max, config.to, SocketOptions::default()),
            calendar: Calendar::default(),
            buffers: Buffers::default(),
            up,
            down,
            rebind_every: config.rebind_every,
            rebind_at: None,
            rebinds: 0,
            start: None,
            lateness: Histogram::default(),
            unsent: 0,
            waiter: Waiter::default(),
            waiting: Vec::new(),
            segments: Vec::with_capacity(CALL_BYTES + 1500),
        }
    }

    /// Relays until it is told to stop.
    pub(super) fn run(mut self) -> io::Result<RelayReport> {
        wait::punctual();
        let mut batch = RecvBatch::new(BUFFERS);
        self.watch();
        loop {
            let timeout = self.timeout();
            self.waiter.wait(timeout)?;
            if self.waiter.is_readable(ORDERS) && self.follow_orders()? {
                return Ok(self.report());
            }
            self.rebind_if_time()?;
            self.receive(&mut batch)?;
            self.send_due();
        }
    }

    fn now(&self) -> Time {
        self.start.map_or(Time::ZERO, |start| Time::ZERO + start.elapsed())
    }

    fn timeout(&self) -> Option<Duration> {
        let next = self.calendar.next_due().into_iter().chain(self.rebind_at).min()?;
        let wait = next.since(self.now());
        Some(if wait < NO_SLEEP { Duration::ZERO } else { wait })
    }

    fn watch(&mut self) {
        self.waiter.clear();
        self.waiter.add(&self.orders.wake);
        self.waiter.add(&self.listen);
        self.waiting.clear();
        for (id, client) in self.clients.iter() {
            self.waiter.add(&client.upstream);
            self.waiting.push(id);
        }
    }

    /// Carries out the orders. Returns true if one was to stop.
    fn follow_orders(&mut self) -> io::Result<bool> {
        match self.orders.wake.read(&mut [0; 64]) {
            // All controls were dropped, so nobody needs this relay any more.
            Ok(0) => return Ok(true),
            Err(error) if !is_temporary(&error) => return Err(error),
            _ => {}
        }
        while let Ok(order) = self.orders.orders.try_recv() {
            match order {
                Order::Reconfigure(Direction::Up, config) => self.up.reconfigure(*config),
                Order::Reconfigure(Direction::Down, config) => self.down.reconfigure(*config),
                Order::Rebind => self.rebind()?,
                // The requester may be gone.
                Order::Report(answer) => drop(answer.send(self.report())),
                Order::Stop => return Ok(true),
            }
        }
        Ok(false)
    }

    fn rebind_if_time(&mut self) -> io::Result<()> {
        let (Some(at), Some(every)) = (self.rebind_at, self.rebind_every) else { return Ok(()) };
        if self.now() < at {
            return Ok(());
        }
        self.rebind_at = Some(at + every);
        self.rebind()
    }

    fn rebind(&mut self) -> io::Result<()> {
        self.clients.rebind()?;
        self.rebinds += 1;
        self.watch();
        Ok(())
    }

    fn receive(&mut self, batch: &mut RecvBatch) -> io::Result<()> {
        if self.waiter.is_readable(LISTEN) && fill(batch, &self.listen)? {
            let known = self.clients.accepted();
            self.take_up(batch);
            if self.clients.accepted() != known {
                // Positions have changed: ask again which sockets are readable.
                self.watch();
                return Ok(());
            }
        }
        for position in 0..self.waiting.len() {
            if self.waiter.is_readable(CLIENTS + position) {
                self.take_down(batch, self.waiting[position])?;
            }
        }
        Ok(())
    }

    fn take_up(&mut self, batch: &mut RecvBatch) {
        if self.start.is_none() {
            self.start = Some(Instant::now());
            self.rebind_at = self.rebind_every.map(|every| Time::ZERO + every);
        }
        let now = self.now();
        for datagram in batch.datagrams() {
            match self.client(datagram.from, datagram.to, now) {
                Ok(client) => self.push(Direction::Up, client, datagram, now),
                // There is no descriptor for one more client, so it is not served.
                Err(_) => self.unsent += 1,
            }
        }
    }

    fn client(&mut self, addr: SocketAddr, local: Option<IpAddr>, now: Time) -> io::Result<ClientId> {
        match self.clients.heard(addr, local, now) {
            Some(id) => Ok(id),
            None => self.clients.accept(addr, local, now),
        }
    }

    fn take_down(&mut self, batch: &mut RecvBatch, id: ClientId) -> io::Result<()> {
        let Some(client) = self.clients.client(id) else { return Ok(()) };
        if !fill(batch, &client.upstream)? {
            return Ok(());
        }
        let (now, server) = (self.now(), self.to);
        for datagram in batch.datagrams().filter(|datagram| datagram.from == server) {
            self.push(Direction::Down, id, datagram, now);
        }
        Ok(())
    }

    fn push(&mut self, direction: Direction, client: ClientId, datagram: Datagram<'_>, now: Time) {
        let link = match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        };
        for delivery in link.push(now, datagram.payload.len(), datagram.ecn.is_some()).deliveries() {
            let payload = copy(self.buffers.take(), datagram.payload, delivery);
            let ecn = if delivery.ce { Some(EcnCodepoint::Ce) } else { datagram.ecn };
            self.calendar.push(delivery.at, Packet { direction, client, ecn, payload });
        }
    }

    /// Sends everything that is due. Packets of one size to one destination go in one call.
    fn send_due(&mut self) {
        let now = self.now();
        let mut next = self.calendar.pop_due(now);
        while let Some((due, first)) = next {
            let segment = first.payload.len();
            self.lateness.record(now.since(due));
            self.segments.clear();
            self.segments.extend_from_slice(&first.payload);
            let mut count = 1;
            loop {
                next = self.calendar.pop_due(now);
                let Some((due, packet)) = next.take_if(|(_, packet)| {
                    segment > 0
                        && count < CALL_SEGMENTS
                        && self.segments.len() < CALL_BYTES
                        && packet.payload.len() == segment
                        && first.is_like(packet)
                }) else {
                    break;
                };
                self.lateness.record(now.since(due));
                self.segments.extend_from_slice(&packet.payload);
                self.buffers.give_back(packet.payload);
                count += 1;
            }
            self.send(&first, segment, count);
            self.buffers.give_back(first.payload);
        }
    }

    fn send(&mut self, packet: &Packet, segment: usize, count: usize) {
        let Some(client) = self.clients.client(packet.client) else {
            self.unsent += count as u64;
            return;
        };
        let (socket, destination, src_ip) = match packet.direction {
            Direction::Up => (&client.upstream, self.to, None),
            Direction::Down => (&self.listen, client.addr, client.local),
        };
        let segment_size = (count > 1).then_some(segment);
        let transmit =
            Transmit { destination, ecn: packet.ecn, contents: &self.segments, segment_size, src_ip };
        // A packet that the system refuses is lost, as in a router, and the report counts it.
        let sent = socket.try_send(&transmit).unwrap_or(0);
        self.unsent += ((self.segments.len() - sent) / segment.max(1)) as u64;
    }

    fn report(&self) -> RelayReport {
        let lane = |link: &Link| Lane { config: link.config().clone(), stats: link.stats().clone() };
        RelayReport {
            listen: self.local,
            to: self.to,
            seed: self.seed,
            elapsed: self.now().since(Time::ZERO),
            clients: self.clients.accepted(),
            rebinds: self.rebinds,
            unsent: self.unsent,
            lateness: self.lateness.clone(),
            up: lane(&self.up),
            down: lane(&self.down),
        }
    }
}

fn copy(mut buffer: Vec<u8>, payload: &[u8], delivery: Delivery) -> Vec<u8> {
    buffer.extend_from_slice(payload);
    if let Some(flip) = delivery.flip {
        flip.apply(&mut buffer);
    }
    buffer
}

/// Receives what has arrived. Returns false if there was nothing.
fn fill(batch: &mut RecvBatch, socket: &BareSocket) -> io::Result<bool> {
    match batch.try_fill_bare(socket) {
        Ok(_) => Ok(true),
        Err(error) if is_temporary(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_temporary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
