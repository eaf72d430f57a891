//! A run of a simulated cluster.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_broker::buffer::Published;
use whimbrel_broker::roaming::{Read, Recover, Slow};
use whimbrel_pubsub::coverage::Told;
use whimbrel_pubsub::message::{Message, Stamp, WINDOW};

use super::bus::{Bus, Frame};
use super::checker::{self, View};
use super::node::Node;
use super::publisher::Publisher;
use super::scenario::{self, Scenario};
use super::subscriber::Subscriber;
use super::tally::Tally;
use super::taste::Taste;
use super::truth::Truths;

const TICK: Duration = Duration::from_millis(50);
const ACTIVE_TICKS: u32 = 300;
/// Longer than gaps take to be filled or given up.
const QUIET_TICKS: u32 = 400;

struct World {
    scenario: Scenario,
    rng: ChaCha8Rng,
    now: Duration,
    nodes: Vec<Node>,
    bus: Bus,
    truths: Truths,
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    tally: Tally,
}

/// Runs the cluster of a seed.
pub(crate) fn run_seed(seed: u64) -> Result<Tally, String> {
    let mut world = World::new(seed);
    match world.run() {
        Ok(()) => Ok(world.tally),
        Err(why) => Err(format!("seed {seed} at {:?}: {why}\n  {:?}", world.now, world.scenario)),
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let scenario = Scenario::random(&mut rng);
        let nodes = (0..scenario.brokers)
            .map(|id| Node::start(id, &scenario, rng.random(), Duration::ZERO))
            .collect();
        let publishers = (0..scenario.publishers).map(|id| Publisher::new(id as u128)).collect();
        let subscribers = (0..scenario.subscribers)
            .map(|_| Subscriber::new(Taste::random(&mut rng, &scenario.partitions)))
            .collect();
        let mut bus = Bus::default();
        bus.loss = scenario.loss;
        let (now, truths, tally) = (Duration::ZERO, Truths::default(), Tally::default());
        Self { scenario, rng, now, nodes, bus, truths, publishers, subscribers, tally }
    }

    fn run(&mut self) -> Result<(), String> {
        for tick in 0..ACTIVE_TICKS {
            self.disturb();
            self.publish()?;
            self.roam()?;
            self.step(tick)?;
        }
        self.heal()?;
        for tick in 0..QUIET_TICKS {
            self.step(tick)?;
        }
        self.judge()
    }

    fn step(&mut self, tick: u32) -> Result<(), String> {
        self.now += TICK;
        self.exchange(tick)?;
        // A broker that gets nothing empties slots now and then only.
        if tick.is_multiple_of(40) {
            for node in self.nodes.iter_mut().filter(|node| node.alive) {
                let time = node.time(self.now);
                node.channel.expire(time);
            }
        }
        (0..self.subscribers.len()).try_for_each(|subscriber| self.serve(subscriber))
    }

    /// Brokers crash and come back, clocks jump, and the bus is cut and joined.
    fn disturb(&mut self) {
        let Scenario { crashes, cuts, clock_jumps, .. } = self.scenario;
        for id in 0..self.nodes.len() {
            if self.rng.random_bool(crashes) {
                self.nodes[id].alive = false;
                self.subscribers.iter_mut().for_each(|subscriber| {
                    if subscriber.attached.as_ref().is_some_and(|attached| attached.node == id) {
                        subscriber.attached = None;
                    }
                });
            } else if !self.nodes[id].alive && self.rng.random_bool(0.05) {
                self.restart(id);
            }
            if self.rng.random_bool(clock_jumps) {
                self.nodes[id].off_ms = self.rng.random_range(-3_600_000..3_600_000);
            }
        }
        if self.rng.random_bool(cuts) {
            self.bus.side = self.rng.random_range(0..1 << self.nodes.len());
        }
    }

    fn restart(&mut self, id: usize) {
        let off_ms = self.nodes[id].off_ms;
        self.nodes[id] = Node::start(id, &self.scenario, self.rng.random(), self.now);
        self.nodes[id].off_ms = off_ms;
        self.tally.restarts += 1;
    }

    fn publish(&mut self) -> Result<(), String> {
        for publisher in 0..self.publishers.len() {
            let at = self.publishers[publisher].at;
            if !self.nodes[at].alive {
                self.publishers[publisher].at = self.rng.random_range(0..self.nodes.len());
                continue;
            }
            for message in self.publishers[publisher].messages(&self.scenario, self.now, &mut self.rng) {
                let clocks = self.nodes[at].now(self.now);
                self.nodes[at].channel.follow(self.publishers[publisher].last, clocks);
                let stamp = self.publish_one(at, message)?;
                let last = &mut self.publishers[publisher].last;
                *last = stamp.published.max(*last);
            }
        }
        Ok(())
    }

    fn publish_one(&mut self, at: usize, message: Message) -> Result<Stamp, String> {
        let publication = message.publication().unwrap();
        let former = self.truths.names.get(&publication).cloned().unwrap_or_default();
        let mut highest = self
            .truths
            .names
            .range(publication..)
            .filter(|(other, _)| other.publisher == publication.publisher);
        let in_window =
            highest.next_back().is_none_or(|(other, _)| other.number < publication.number + WINDOW);
        let known = former.iter().any(|name| self.nodes[at].came.contains_key(name));
        match self.nodes[at].publish(&message, self.now) {
            Published::Repeated(stamp) => {
                self.tally.repeated += 1;
                let is_same = self
                    .truths
                    .by_name
                    .get(&(stamp.origin, stamp.sequence))
                    .is_some_and(|truth| truth.message == message);
                if is_same { Ok(stamp) } else { Err(format!("{stamp:?} is another message")) }
            }
            Published::Taken(_) if known && in_window => {
                Err(format!("{publication:?} was taken twice at broker {at}"))
            }
            Published::Taken(stamp) => {
                self.tally.published += 1;
                self.truths.take(stamp, message.clone(), self.now)?;
                for to in (0..self.nodes.len()).filter(|to| *to != at) {
                    let frame = Frame::Message(stamp, message.clone(), Duration::ZERO);
                    self.bus.send(self.now, at, to, frame, &mut self.rng);
                }
                Ok(stamp)
            }
        }
    }

    fn exchange(&mut self, tick: u32) -> Result<(), String> {
        while let Some((from, to, frame)) = self.bus.land(self.now) {
            if self.nodes[to].alive
                && let Some(answer) = self.nodes[to].handle(frame, self.now)?
            {
                self.bus.send(self.now, to, from, answer, &mut self.rng);
            }
        }
        for id in 0..self.nodes.len() {
            if !self.nodes[id].alive {
                continue;
            }
            let time = self.nodes[id].time(self.now);
            for request in self.nodes[id].channel.poll_requests(time) {
                let to = request.to.0 as usize;
                self.bus.send(self.now, id, to, Frame::Request(request), &mut self.rng);
            }
            if tick % 10 == id as u32 {
                let (own, heads) = (self.nodes[id].channel.own(), self.nodes[id].channel.heads());
                for to in (0..self.nodes.len()).filter(|to| *to != id) {
                    self.bus.send(self.now, id, to, Frame::Heads(own, heads.clone()), &mut self.rng);
                }
            }
        }
        Ok(())
    }

    fn roam(&mut self) -> Result<(), String> {
        for at in 0..self.subscribers.len() {
            let rng = &mut self.rng;
            if self.subscribers[at].attached.is_none() {
                let node = rng.random_range(0..self.nodes.len());
                if self.nodes[node].alive && rng.random_bool(0.1) {
                    let slow = if rng.random_bool(0.3) { 3 } else { 50 };
                    let wish = (scenario::recover(rng), scenario::slow(rng), slow, rng.random_bool(0.3));
                    self.attach(at, node, wish)?;
                }
                continue;
            }
            let subscriber = &mut self.subscribers[at];
            match rng.random_range(0.0..1.0) {
                dice if dice < self.scenario.roaming => subscriber.detach(rng)?,
                dice if dice > 0.99 => subscriber.crash(),
                dice if dice > 0.96 => subscriber.save(),
                _ => {}
            }
        }
        Ok(())
    }

    fn attach(&mut self, at: usize, node: usize, wish: (Recover, Slow, u32, bool)) -> Result<(), String> {
        let time = self.nodes[node].time(self.now);
        self.subscribers[at].attach(&self.nodes[node], &self.scenario.partitions, self.now, wish);
        let attached = self.subscribers[at].attached.as_ref().unwrap();
        if attached.reader.is_waiting(&self.nodes[node].channel) {
            self.nodes[node].channel.ask_at_once(time);
        }
        // The count is told first, before anything can change.
        self.read(at, 1)
    }

    /// A subscriber reads and hears what it has time for.
    fn serve(&mut self, at: usize) -> Result<(), String> {
        let Some(attached) = &mut self.subscribers[at].attached else { return Ok(()) };
        let budget = self.rng.random_range(0..=attached.budget);
        if self.rng.random_bool(0.02) {
            attached.reader.tell_covers(&self.nodes[attached.node].channel);
        }
        self.read(at, budget)?;
        let heard = self.rng.random_range(0..=budget as usize);
        self.subscribers[at].hear(heard)
    }

    fn read(&mut self, at: usize, budget: u32) -> Result<(), String> {
        let may_recover = self.rng.random_bool(0.7);
        for _ in 0..budget {
            let Some(attached) = &mut self.subscribers[at].attached else { return Ok(()) };
            let node = &self.nodes[attached.node];
            let time = node.time(self.now);
            match attached.reader.read(&node.channel, time, may_recover, &mut 20) {
                Read::Told(told) => self.tell(at, told)?,
                Read::More => {}
                Read::Idle => return Ok(()),
                Read::TooSlow => {
                    self.tally.too_slow += 1;
                    return self.subscribers[at].detach(&mut self.rng);
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, at: usize, told: Told) -> Result<(), String> {
        let view = View { nodes: &self.nodes, bus: &self.bus, truths: &self.truths, now: self.now };
        let fates = checker::told(view, &mut self.subscribers[at], &told)?;
        self.tally.count(&told);
        self.subscribers[at].attached.as_mut().unwrap().in_flight.push_back((told, fates));
        Ok(())
    }

    /// Everything works again, and nobody publishes.
    fn heal(&mut self) -> Result<(), String> {
        (self.bus.loss, self.bus.side) = (0.0, 0);
        for id in 0..self.nodes.len() {
            if !self.nodes[id].alive {
                self.restart(id);
            }
        }
        for at in 0..self.subscribers.len() {
            self.subscribers[at].detach(&mut self.rng)?;
            let node = self.rng.random_range(0..self.nodes.len());
            self.attach(at, node, (Recover::First, Slow::Wait, 100, false))?;
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<(), String> {
        for at in 0..self.subscribers.len() {
            while !matches!(self.read_one(at)?, Read::Idle) {}
            self.subscribers[at].hear(usize::MAX)?;
        }
        let view = View { nodes: &self.nodes, bus: &self.bus, truths: &self.truths, now: self.now };
        self.subscribers.iter().try_for_each(|subscriber| checker::at_the_end(view, subscriber))?;
        self.nodes.iter().try_for_each(|node| checker::buffer(view, node, &self.scenario))
    }

    fn read_one(&mut self, at: usize) -> Result<Read, String> {
        let attached = self.subscribers[at].attached.as_mut().unwrap();
        let node = &self.nodes[attached.node];
        let read = attached.reader.read(&node.channel, node.time(self.now), true, &mut 1_000);
        if let Read::Told(told) = &read {
            self.tell(at, told.clone())?;
        }
        Ok(read)
    }
}
