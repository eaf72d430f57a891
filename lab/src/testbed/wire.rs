//! The thread of a link. It reads both devices, puts every packet through the model, and writes it when it is due.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use whimbrel_link::relay::{Waiter, punctual};
use whimbrel_link::{Calendar, Link, LinkConfig};
use whimbrel_proto::Time;

use super::lateness::{self, Lateness};
use super::{LinkPlan, LinkReport, ip};

/// Largest packet of a device, in bytes.
const MTU: usize = 1500;
/// Most packets taken from one direction before the other has its turn and due packets leave.
const TURN: usize = 32;
/// Shortest wait worth a sleep. Going to sleep and waking up takes about as long.
const NO_SLEEP: Duration = Duration::from_micros(5);
/// Position of the orders in the waiter. The two ends are 0 and 1.
const ORDERS: usize = 2;

/// A running link. Dropping it ends it.
pub(super) struct Wire {
    orders: Sender<Order>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    Reconfigure(Box<LinkPlan>),
    Report(Sender<LinkReport>),
    Stop,
}

impl Wire {
    /// Joins two devices, the caller's first. The clock of the model starts with the first packet.
    pub(super) fn new(ends: [File; 2], plan: &LinkPlan, seed: u64) -> anyhow::Result<Self> {
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let (orders, received) = mpsc::channel();
        let engine = Engine::new(ends, plan, seed, received, woken);
        let thread = thread::Builder::new().name("lab-link".into()).spawn(move || engine.run())?;
        Ok(Self { orders, wake, thread: Some(thread) })
    }

    pub(super) fn reconfigure(&self, plan: LinkPlan) {
        self.order(Order::Reconfigure(plan.into()));
    }

    pub(super) fn report(&self) -> LinkReport {
        self.last_report().expect("the link's thread runs as long as the link")
    }

    /// Like [`Wire::report`], but `None` if the link has failed.
    pub(super) fn last_report(&self) -> Option<LinkReport> {
        let (answer, answered) = mpsc::channel();
        self.order(Order::Report(answer));
        answered.recv().ok()
    }

    fn order(&self, order: Order) {
        // Both fail if the thread has ended. The write also fails while many earlier orders wait to be read, which does
        // no harm.
        if self.orders.send(order).is_ok() {
            drop((&self.wake).write(&[0]));
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic was printed where it happened.
            drop(thread.join());
        }
    }
}

struct Engine {
    ends: [File; 2],
    /// The model of each direction, by the end that a packet comes from.
    links: [Link; 2],
    calendar: Calendar<Packet>,
    spare: Vec<Vec<u8>>,
    /// Start of the clock: the first packet.
    start: Option<Instant>,
    late: Lateness,
    orders: Receiver<Order>,
    wake: UnixStream,
    waiter: Waiter,
}

/// A packet that will arrive.
struct Packet {
    /// The end that it goes to.
    to: usize,
    bytes: Vec<u8>,
}

impl Engine {
    fn new(ends: [File; 2], plan: &LinkPlan, seed: u64, orders: Receiver<Order>, wake: UnixStream) -> Self {
        let mut waiter = Waiter::default();
        waiter.add(&ends[0]);
        waiter.add(&ends[1]);
        waiter.add(&wake);
        let [up, down] = configs(plan);
        Self {
            ends,
            links: Link::pair(up, down, seed),
            calendar: Calendar::default(),
            spare: Vec::new(),
            start: None,
            late: Lateness::default(),
            orders,
            wake,
            waiter,
        }
    }

    fn run(mut self) {
        punctual();
        loop {
            let timeout = self.timeout();
            // Waiting fails only for lack of memory. The devices are then tried without a wait.
            let waited = self.waiter.wait(timeout);
            if (waited.is_err() || self.waiter.is_readable(ORDERS)) && self.follow_orders() {
                return;
            }
            for end in 0..2 {
                if self.waiter.is_readable(end) {
                    self.take(end);
                }
            }
            self.send_due();
        }
    }

    fn now(&self) -> Time {
        self.start.map_or(Time::ZERO, |start| Time::ZERO + start.elapsed())
    }

    fn timeout(&self) -> Option<Duration> {
        let wait = self.calendar.next_due()?.since(self.now());
        Some(if wait < NO_SLEEP { Duration::ZERO } else { wait })
    }

    /// Carries out the orders that have arrived. Returns true if one of them was to stop.
    fn follow_orders(&mut self) -> bool {
        if let Ok(0) = self.wake.read(&mut [0; 64]) {
            return true;
        }
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Reconfigure(plan) => {
                    self.links
                        .iter_mut()
                        .zip(configs(&plan))
                        .for_each(|(link, config)| link.reconfigure(config));
                }
                // The side that asked may have gone.
                Order::Report(answer) => drop(answer.send(self.report())),
                Order::Stop => return true,
            }
        }
        false
    }

    fn take(&mut self, from: usize) {
        for _ in 0..TURN {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.resize(MTU, 0);
            match (&self.ends[from]).read(&mut bytes) {
                Ok(length) => {
                    bytes.truncate(length);
                    self.push(from, bytes);
                }
                // Nothing left, or the interface is down.
                Err(_) => return self.spare.push(bytes),
            }
        }
    }

    fn push(&mut self, from: usize, bytes: Vec<u8>) {
        self.start.get_or_insert_with(Instant::now);
        let now = self.now();
        let verdict = self.links[from].push(now, bytes.len(), ip::is_ecn_capable(&bytes));
        for delivery in verdict.deliveries() {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(&bytes);
            if delivery.ce {
                ip::mark_ce(&mut copy);
            }
            if let Some(flip) = delivery.flip {
                let header = ip::payload(&copy);
                flip.apply(&mut copy[header..]);
            }
            self.calendar.push(delivery.at, Packet { to: 1 - from, bytes: copy });
        }
        self.spare.push(bytes);
    }

    fn send_due(&mut self) {
        let now = self.now();
        while let Some((due, packet)) = self.calendar.pop_due(now) {
            let from = &self.links[1 - packet.to];
            self.late.record(now.since(due), lateness::allowed(from.config()));
            // An interface that is down takes nothing, and the packet is lost.
            drop((&self.ends[packet.to]).write(&packet.bytes));
            self.spare.push(packet.bytes);
        }
    }

    fn report(&self) -> LinkReport {
        LinkReport {
            up: self.links[0].stats().clone(),
            down: self.links[1].stats().clone(),
            late: self.late.clone(),
        }
    }
}

/// Returns the model's settings for whole IP packets, with no overhead around them.
fn configs(plan: &LinkPlan) -> [LinkConfig; 2] {
    [&plan.up, &plan.down].map(|config| config.clone().overhead(0))
}
