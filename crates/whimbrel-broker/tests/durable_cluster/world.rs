//! A run of a simulated cluster.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_broker::durable::{Claim, Life};
use whimbrel_broker::store::Entry;
use whimbrel_pubsub::message::BrokerId;

use super::node::{BROKERS, DISPUTED, Disk, Kept, Name, Node, SUBSCRIPTIONS, one};
use super::subscriber::Subscriber;

const TICKS: usize = 400;
const QUIET: usize = 60;

/// What happened.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acknowledged: usize,
    pub(crate) delivered: usize,
    pub(crate) moves: usize,
    pub(crate) crashes: usize,
    pub(crate) lost_disks: usize,
    pub(crate) segments: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.delivered += other.delivered;
        self.moves += other.moves;
        self.crashes += other.crashes;
        self.lost_disks += other.lost_disks;
        self.segments += other.segments;
    }

    pub(crate) fn everything_happened(&self) -> bool {
        let all =
            [self.acknowledged, self.delivered, self.moves, self.crashes, self.lost_disks, self.segments];
        all.iter().all(|number| *number > 0)
    }
}

struct World {
    rng: ChaCha8Rng,
    nodes: Vec<Node>,
    subscribers: Vec<Subscriber>,
    /// Which brokers see each other.
    side: u32,
    loss: f64,
    crashes: f64,
    may_lose_disk: bool,
    /// Messages that wait for an acknowledgement, each with its broker, and those that have it.
    waiting: BTreeMap<Name, usize>,
    acknowledged: BTreeSet<Name>,
    published: u64,
    tally: Tally,
}

/// Runs the cluster of a seed.
pub(crate) fn run_seed(seed: u64) -> Result<Tally, String> {
    let mut world = World::new(seed);
    match world.run() {
        Ok(()) => Ok(world.tally),
        Err(why) => Err(format!("seed {seed}: {why}")),
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut nodes: Vec<_> =
            (0..BROKERS).map(|id| Node::start(id, rng.random(), Disk::default())).collect();
        // Subscriptions are made while all see each other.
        for node in &mut nodes {
            let made = |at| {
                let life = Life { born: 1 + at as u64, generation: 1 };
                Kept { life, selects: 0, coverage: node.heads() }
            };
            node.disk.subscriptions = std::array::from_fn(|at| (at < SUBSCRIPTIONS).then(|| made(at)));
        }
        let (loss, crashes) = (rng.random_range(0.0..0.6), rng.random_range(0.0..0.02));
        Self {
            nodes,
            subscribers: (0..SUBSCRIPTIONS).map(Subscriber::new).collect(),
            side: 0,
            loss,
            crashes,
            may_lose_disk: rng.random_bool(0.5),
            waiting: BTreeMap::new(),
            acknowledged: BTreeSet::new(),
            published: 0,
            tally: Tally::default(),
            rng,
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..TICKS {
            self.disturb();
            self.publish();
            self.step()?;
            self.roam();
        }
        (self.side, self.loss) = (0, 0.0);
        (0..BROKERS)
            .filter(|id| !self.nodes[*id].alive)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|id| self.restart(id));
        // One that lost its disk hears of the subscriptions.
        for _ in 0..QUIET {
            self.step()?;
        }
        self.make_twice()?;
        for at in 0..SUBSCRIPTIONS {
            self.attach_twice(at)?;
            self.move_to(at, self.tally.moves % BROKERS);
        }
        for _ in 0..QUIET {
            self.step()?;
        }
        self.judge()
    }

    fn disturb(&mut self) {
        for id in 0..BROKERS {
            if self.nodes[id].alive && self.rng.random_bool(self.crashes) {
                self.nodes[id].alive = false;
                self.tally.crashes += 1;
                self.waiting.retain(|_, at| *at != id);
                for subscriber in &mut self.subscribers {
                    subscriber.attached.take_if(|(at, _)| *at == id);
                }
            } else if !self.nodes[id].alive && self.rng.random_bool(0.1) {
                self.restart(id);
            }
        }
        if self.rng.random_bool(0.02) {
            self.side = self.rng.random_range(0..1 << BROKERS);
        }
        // One disk of all may be lost for good: its broker is away, and comes back empty.
        if self.may_lose_disk
            && self.rng.random_bool(0.01)
            && let Some(id) = (0..BROKERS).find(|id| !self.nodes[*id].alive)
        {
            self.may_lose_disk = false;
            self.tally.lost_disks += 1;
            self.nodes[id].disk = Disk::default();
        }
    }

    fn restart(&mut self, id: usize) {
        let disk = std::mem::take(&mut self.nodes[id].disk);
        self.nodes[id] = Node::start(id, self.rng.random(), disk);
    }

    fn publish(&mut self) {
        let at = self.rng.random_range(0..BROKERS);
        if !self.nodes[at].alive || self.rng.random_bool(0.3) {
            return;
        }
        self.published += 1;
        let entry = self.nodes[at].publish(self.published);
        self.waiting.insert((entry.stamp.origin, entry.stamp.sequence), at);
        for to in (0..BROKERS).filter(|to| *to != at) {
            if self.comes_through(at, to) {
                self.nodes[to].receive(&entry);
            }
        }
    }

    fn step(&mut self) -> Result<(), String> {
        for id in 0..BROKERS {
            if self.nodes[id].alive && self.rng.random_bool(0.5) {
                self.nodes[id].sync();
                self.tally.segments += self.nodes[id].trim();
            }
        }
        for from in 0..BROKERS {
            for to in (0..BROKERS).filter(|to| *to != from) {
                if self.rng.random_bool(0.5) && self.comes_through(from, to) {
                    self.exchange(from, to);
                }
            }
        }
        self.acknowledge();
        for at in 0..SUBSCRIPTIONS {
            let subscriber = &mut self.subscribers[at];
            let Some((id, _)) = &subscriber.attached else { continue };
            let node = &mut self.nodes[*id];
            if node.attached[at] != Some(subscriber.generation) {
                subscriber.attached = None;
                continue;
            }
            let (budget, acknowledges) = (self.rng.random_range(0..12), self.rng.random_bool(0.5));
            subscriber.read(node, budget, acknowledges)?;
        }
        Ok(())
    }

    /// One broker tells another what it has on disk, gives it what it lacks, and tells what it knows of subscriptions.
    fn exchange(&mut self, from: usize, to: usize) {
        let theirs = self.nodes[to].own;
        let stored: Vec<_> =
            self.nodes[from].stored.get(&theirs).into_iter().flat_map(|stored| stored.iter()).collect();
        for range in stored {
            self.nodes[to].copies.confirm(BrokerId(from as u64), theirs, range);
        }
        let lacks = |entry: &&Entry| !self.nodes[to].has((entry.stamp.origin, entry.stamp.sequence));
        let missing: Vec<_> = self.nodes[from].disk.log.iter().filter(lacks).take(10).cloned().collect();
        missing.iter().for_each(|entry| self.nodes[to].receive(entry));
        let told = self.nodes[from].disk.subscriptions.clone();
        for (subscription, kept) in told.iter().enumerate() {
            let Some(kept) = kept else { continue };
            self.nodes[to].learn(subscription, kept);
            if let Some(generation) = self.nodes[from].attached[subscription] {
                let there = Claim { generation, broker: BrokerId(from as u64) };
                self.nodes[to].hear_attached(subscription, kept, there);
            }
        }
    }

    /// Publishers hear of what enough brokers have.
    fn acknowledge(&mut self) {
        let is_safe = |(origin, sequence): &Name, at: &usize| {
            let node = &self.nodes[*at];
            node.stored.get(origin).is_some_and(|stored| stored.contains(*sequence))
                && node.copies.is_enough(*origin, *sequence)
        };
        let safe: Vec<_> =
            self.waiting.iter().filter(|(name, at)| is_safe(name, at)).map(|(name, _)| *name).collect();
        for name in safe {
            self.waiting.remove(&name);
            self.acknowledged.insert(name);
            self.tally.acknowledged += 1;
        }
    }

    fn roam(&mut self) {
        for at in 0..SUBSCRIPTIONS {
            // The second comes seldom.
            let often = if at == 0 { 0.1 } else { 0.02 };
            if self.rng.random_bool(often) {
                let id = self.rng.random_range(0..BROKERS);
                self.move_to(at, id);
            } else if self.rng.random_bool(0.02) {
                self.subscribers[at].attached = None;
            }
        }
    }

    fn move_to(&mut self, at: usize, id: usize) {
        let node = &mut self.nodes[id];
        if node.alive && node.disk.subscriptions[at].is_some() {
            self.subscribers[at].attach(node);
            self.tally.moves += 1;
        }
    }

    /// Two brokers of which neither has heard of the other's make one name, each for another selection. All come to know the same one, and it
    /// is served once.
    fn make_twice(&mut self) -> Result<(), String> {
        let (one, other) = self.two_brokers();
        let born = if self.rng.random_bool(0.5) { 0 } else { 9 };
        for (id, selects) in [(one, 1), (other, 2)] {
            let life = Life { born, generation: self.rng.random_range(1..3) };
            let node = &mut self.nodes[id];
            node.disk.subscriptions[DISPUTED] = Some(Kept { life, selects, coverage: node.heads() });
            node.attached[DISPUTED] = Some(life.generation);
        }
        for _ in 0..QUIET {
            self.step()?;
        }
        let known = self.nodes.iter().map(|node| {
            let kept = node.disk.subscriptions[DISPUTED].as_ref();
            kept.map(|kept| (kept.life, kept.selects))
        });
        let known: Vec<_> = known.collect();
        if known.iter().any(|of_one| *of_one != known[0]) {
            return Err(format!("one name was made twice, and brokers know {known:?}"));
        }
        let serving = self.serving(DISPUTED);
        let is_right = match &serving[..] {
            [id] => known[0].map(|(_, selects)| selects) == Some(if *id == one { 1 } else { 2 }),
            _ => false,
        };
        if is_right { Ok(()) } else { Err(format!("{known:?} is served by {serving:?}")) }
    }

    /// Two devices with one state attach at two brokers at once, so in one generation.
    fn attach_twice(&mut self, at: usize) -> Result<(), String> {
        let (one, other) = self.two_brokers();
        self.move_to(at, one);
        let generation = self.subscribers[at].generation;
        let node = &mut self.nodes[other];
        if let Some(kept) = &mut node.disk.subscriptions[at] {
            kept.life.generation = kept.life.generation.max(generation);
        }
        node.attached[at] = Some(generation);
        for _ in 0..QUIET {
            self.step()?;
        }
        let serving = self.serving(at);
        if serving == [one.max(other)] {
            return Ok(());
        }
        Err(format!("subscription {at} was attached at {one} and {other} at once, and {serving:?} serve it"))
    }

    fn two_brokers(&mut self) -> (usize, usize) {
        let one = self.rng.random_range(0..BROKERS);
        (one, (one + self.rng.random_range(1..BROKERS)) % BROKERS)
    }

    /// The brokers that serve a subscription.
    fn serving(&self, at: usize) -> Vec<usize> {
        (0..BROKERS).filter(|id| self.nodes[*id].attached[at].is_some()).collect()
    }

    fn comes_through(&mut self, from: usize, to: usize) -> bool {
        let is_cut = (self.side >> from ^ self.side >> to) & 1 == 1;
        self.nodes[from].alive && self.nodes[to].alive && !is_cut && !self.rng.random_bool(self.loss)
    }

    /// Each subscription is served by one broker, and has all that was acknowledged.
    fn judge(&mut self) -> Result<(), String> {
        for round in 0..BROKERS * 2 {
            for at in 0..SUBSCRIPTIONS {
                let serving = self.serving(at);
                let wanted =
                    self.subscribers[at].attached.as_ref().map(|(id, _)| vec![*id]).unwrap_or_default();
                if serving != wanted {
                    return Err(format!("subscription {at} is at {wanted:?}, and {serving:?} serve it"));
                }
                self.move_to(at, round % BROKERS);
            }
            for _ in 0..QUIET {
                self.step()?;
            }
        }
        for subscriber in &self.subscribers {
            self.tally.delivered += subscriber.got.len();
            if let Some(name) = self.acknowledged.iter().find(|name| !subscriber.got.contains(name)) {
                let at = self.nodes.iter().filter(|node| {
                    node.disk.log.iter().any(|entry| (entry.stamp.origin, entry.stamp.sequence) == *name)
                });
                let at: Vec<_> = at.map(|node| node.id).collect();
                let range = one(name.1);
                return Err(format!(
                    "subscriber {} never got {name:?} ({range:?}), which is at {at:?}",
                    subscriber.at
                ));
            }
        }
        Ok(())
    }
}
