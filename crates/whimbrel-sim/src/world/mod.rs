//! Nodes on a virtual clock, joined by emulated links.
//!
//! A [`World`] has the nodes' addresses, the links between them, the packets in flight and the time. It knows nothing of
//! what its nodes do: they are whatever implements [`Node`], as [`Host`] does for the transport. The seed decides
//! everything that happens, so a run can be repeated to the byte.
//!
//! Nodes have numbers, from 0 in the order in which they were added. Networks have numbers, too. Each node has an address
//! on the first, which is network 0.

mod addresses;
mod air;
mod clock;
mod layout;
mod links;
mod node;
mod sleep;
mod tap;

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use whimbrel_proto::Time;

use crate::host::machine::Host;
use air::{Air, Flight};
use clock::Clock;
pub use node::{Arrival, Departure, Node, Outbox};
use sleep::Sleepers;
pub use tap::{Tap, TapVerdict};

/// The node number of the server in worlds of hosts.
pub const SERVER: usize = 0;

/// A simulated world of nodes of type `N`; see the module documentation.
///
/// Nodes of several types live in one world if `N` is an enum of them. Worlds of hosts have methods of their own, for a
/// server and its clients.
pub struct World<N = Host> {
    clock: Clock,
    rng: ChaCha20Rng,
    nodes: Vec<N>,
    sleepers: Sleepers,
    air: Air,
    /// Empty between calls; kept for its memory.
    outbox: Outbox,
}

impl<N> World<N> {
    /// Creates a world without nodes.
    pub fn empty(seed: u64) -> Self {
        Self {
            clock: Clock::new(),
            rng: ChaCha20Rng::seed_from_u64(seed),
            nodes: Vec::new(),
            sleepers: Sleepers::new(),
            air: Air::default(),
            outbox: Outbox::default(),
        }
    }
}

impl<N: Node> World<N> {
    /// The current time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The wall-clock time, which all nodes share.
    pub fn wall(&self) -> Duration {
        self.now().since(Time::ZERO)
    }

    /// Makes timers fire only at multiples of `grain`, as on a real host. Default: to the nanosecond.
    pub fn set_timer_grain(&mut self, grain: Duration) {
        self.clock.set_grain(grain);
    }

    /// Makes nodes wake up late, as on a busy machine: arriving packets and timers wait for it. `share` (0 to 1) is
    /// how often, and `late` the range of delays. Call it before anything happens. Default: never.
    pub fn set_lateness(&mut self, share: f64, late: RangeInclusive<Duration>) {
        self.sleepers.set_lateness(share, late);
    }

    /// Runs for this long.
    pub fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Runs until `done` holds or `limit` is over. Returns whether it held.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now() + limit;
        loop {
            self.flush();
            if done(self) {
                return true;
            }
            if !self.step(end) {
                return done(self);
            }
        }
    }

    /// Advances to the next event, at most to `end`, and lets nodes handle it; what they then send, [`World::flush`]
    /// takes. Returns false if nothing happens until then; the time is `end`
    /// then.
    pub fn step(&mut self, end: Time) -> bool {
        let next = self.next_event().filter(|next| *next <= end);
        self.clock.advance(next.unwrap_or(end));
        if next.is_some() {
            self.deliver();
            self.wake_up();
            self.fire_timers();
        } else {
            self.flush();
        }
        next.is_some()
    }

    /// Sends everything that any node has to send now.
    pub fn flush(&mut self) {
        let now = self.clock.now();
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if !self.sleepers.is_asleep(index) {
                node.poll_transmit(now, &mut self.outbox);
                self.air.take(now, index, &mut self.outbox);
            }
        }
    }

    /// Delivers a datagram to the owner of an address, as if it came from `from`.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.receive(Flight { to, from, ecn: None, bytes: bytes.to_vec() });
        self.flush();
    }

    fn next_event(&self) -> Option<Time> {
        let nodes = (0..self.nodes.len()).filter_map(|node| self.sleepers.wakes_at(node, self.timer(node)));
        self.air.next_arrival().into_iter().chain(nodes).min()
    }

    /// When a node's next timer fires, if the node is awake then.
    fn timer(&self, node: usize) -> Option<Time> {
        self.nodes[node].poll_timeout().map(|at| self.clock.fires_at(at))
    }

    fn deliver(&mut self) {
        while let Some((at, flight)) = self.air.land(self.clock.now()) {
            match self.air.addresses.owner(flight.to).filter(|_| self.sleepers.exist()) {
                Some((node, _)) => self.sleepers.keep(node, at, flight),
                None => self.receive(flight),
            }
        }
    }

    /// Wakes the nodes that are due, which then find what arrived. If nodes are late, the others keep sleeping.
    fn wake_up(&mut self) {
        if !self.sleepers.exist() {
            return;
        }
        for node in 0..self.nodes.len() {
            let (now, timer) = (self.clock.now(), self.timer(node));
            for flight in self.sleepers.wake(node, now, timer, &mut self.rng) {
                self.receive(flight);
            }
        }
    }

    fn fire_timers(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if !self.sleepers.is_asleep(index) {
                node.handle_timeout(self.clock.now());
            }
        }
    }

    fn receive(&mut self, flight: Flight) {
        let Some((node, to)) = self.air.addresses.reach(flight.to) else { return self.air.on_stray() };
        let Flight { from, ecn, bytes, .. } = flight;
        let now = self.clock.now();
        self.nodes[node].handle_datagram(now, Arrival { from, to, ecn, bytes }, &mut self.outbox);
        self.air.take(now, node, &mut self.outbox);
    }
}
