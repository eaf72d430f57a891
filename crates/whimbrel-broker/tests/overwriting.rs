//! The paper's experiment on overwriting policies (section 7.3): what a memoryless absence loses under each.
//!
//! A subscriber is away for a share of the time, each time memorylessly. It misses a message that was overwritten at age `a` if it was away
//! when the message was published, and still was at that age: with probability `share * exp(-a / mean)`. So the loss follows from the ages
//! at which the real buffer overwrites, with far less spread than from subscribers that come and go. This holds for every policy that
//! does not know who is away.
//!
//! `cargo test -p whimbrel-broker --test overwriting -- --nocapture` prints the figures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use whimbrel_broker::buffer::{
    Channel, ChannelSettings, Facts, Lrp, PartitionSettings, Picks, Policy, PolicySettings, Pwp, Ran, Room,
    Size, SlotId,
};
use whimbrel_broker::plan::Plan;
use whimbrel_broker::{Now, Time};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Index, Message, Origin};
use whimbrel_pubsub::property::{Lookup, Value};

/// The share of time for which a subscriber is away (Table 1).
const SHARE: f64 = 0.0742;
const PARTITIONS: u8 = 10;
/// How often the buffer is filled before anything is counted, and how often while.
const FILLS: (u64, u64) = (2, 12);

/// A point of the paper: messages a second, slots, mean absence.
#[derive(Clone, Copy, Debug)]
struct Point {
    rate: f64,
    slots: u64,
    away: Duration,
}

const FIGURE_12: Point = Point { rate: 258.63, slots: 20_000, away: Duration::from_secs(24) };

/// A tenth of the selector's values.
#[derive(Debug)]
struct Tenth(u8);

impl Picks for Tenth {
    fn picks(&self, message: &Message) -> bool {
        message.property("v") == Some(Value::Integer((self.0 + 1).into()))
    }
}

/// The share of messages that give way while somebody misses them, times the time away: of messages, and of their indices.
#[derive(Debug, Default)]
struct Missed {
    messages: f64,
    missed: f64,
    indices: f64,
    indices_missed: f64,
}

/// A policy that is watched.
#[derive(Debug)]
struct Watched {
    policy: Box<dyn Policy>,
    taken: BTreeMap<SlotId, (Time, u8)>,
    missed: Arc<Mutex<Missed>>,
    away: Duration,
    from: Time,
}

impl Policy for Watched {
    fn take(&mut self, facts: &Facts, now: Time) {
        self.taken.insert(facts.slot, (now, facts.index));
        self.policy.take(facts, now);
    }

    fn release(&mut self, facts: &Facts) {
        self.policy.release(facts);
    }

    fn give_way(&mut self, room: Room, now: Time) -> Option<SlotId> {
        let slot = self.policy.give_way(room, now)?;
        let (published, index) = self.taken.remove(&slot).unwrap();
        if now >= self.from {
            let still_away = (-now.since(published).as_secs_f64() / self.away.as_secs_f64()).exp();
            let mut missed = self.missed.lock().unwrap();
            missed.messages += 1.0;
            missed.missed += still_away;
            missed.indices += f64::from(index);
            missed.indices_missed += f64::from(index) * still_away;
        }
        Some(slot)
    }
}

/// Returns the loss of the paper's policy with priorities, in percent of messages and of indices. A fifth of the slots, each given for twice the mean
/// absence, holds so many messages a second. The most important get them; the others leave after four fifths of the slots.
fn pwp_by_hand(point: Point) -> (f64, f64) {
    let (away, filled) = (point.away.as_secs_f64(), point.slots as f64 / point.rate);
    let kept = (0.2 * point.slots as f64 / (2.0 * away) / point.rate).min(1.0);
    let (short, long) = (0.8 * filled, 0.8 * filled + 2.0 * away);
    let lost = |index: u8| {
        // Each index has a tenth of the messages; the part of it that is kept.
        let part = (10.0 * kept - f64::from(10 - index)).clamp(0.0, 1.0);
        part * (-long / away).exp() + (1.0 - part) * (-short / away).exp()
    };
    let messages: f64 = (1..=10).map(lost).sum::<f64>() / 10.0;
    let indices: f64 = (1..=10).map(|index| f64::from(index) * lost(index)).sum::<f64>() / 55.0;
    (100.0 * SHARE * messages, 100.0 * SHARE * indices)
}

type Make = fn(Duration, u64) -> Box<dyn Policy>;

/// The policies; the last is the paper's with places for less than an absence, which keeps more of what matters.
const POLICIES: [(&str, Make); 4] = [
    ("lrp", |_, _| Box::new(Lrp::default())),
    ("ran", |_, seed| Box::new(Ran::new(seed))),
    ("pwp", |away, _| Box::new(Pwp::new(80, 2 * away))),
    ("pwp, places for 5/6 of the mean absence", |away, _| Box::new(Pwp::new(80, away * 5 / 6))),
];

/// The loss of messages and of indices, percent, of a policy at a point.
fn loss(point: Point, make: Make, seed: u64) -> (f64, f64) {
    let missed = Arc::new(Mutex::new(Missed::default()));
    let filled = Duration::from_secs_f64(point.slots as f64 / point.rate);
    let watched = {
        let missed = missed.clone();
        move || -> Box<dyn Policy> {
            let (policy, taken) = (make(point.away, seed), BTreeMap::new());
            let from = Time::ZERO + filled * FILLS.0 as u32;
            Box::new(Watched { policy, taken, missed: missed.clone(), away: point.away, from })
        }
    };
    let policy = PolicySettings::Other(Arc::new(watched));
    let size = Size { messages: point.slots / u64::from(PARTITIONS), ..Size::default() };
    let partition = |tenth| PartitionSettings { rule: Arc::new(Tenth(tenth)), size, policy: policy.clone() };
    let partitions = (0..PARTITIONS).map(partition).collect();
    let settings = ChannelSettings { partitions, ..ChannelSettings::new(ChannelId(0)) };
    let mut channel = Channel::new(settings, Origin { broker: BrokerId(1), epoch: 1 }, Time::ZERO);
    publish(&mut channel, point, seed);
    let missed = missed.lock().unwrap();
    let percent = |lost: f64, of: f64| 100.0 * SHARE * lost / of;
    (percent(missed.missed, missed.messages), percent(missed.indices_missed, missed.indices))
}

fn publish(channel: &mut Channel, point: Point, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for number in 0..point.slots * (FILLS.0 + FILLS.1) {
        let time = Time::at(Duration::from_secs_f64(number as f64 / point.rate));
        let draft = Draft {
            topic: "t",
            properties: &[1, b'v', 17, 1 + rng.random_range(0..PARTITIONS)],
            index: Index::new(rng.random_range(1..=10)).unwrap(),
            payload: &[0; 50],
            ..Draft::default()
        };
        let wall_ms = time.since(Time::ZERO).as_millis() as u64;
        channel.publish(draft.finish().unwrap(), Now { time, wall_ms }).unwrap();
    }
}

/// Mean and spread (standard deviation) over seeds.
fn over_seeds(point: Point, make: Make) -> [(f64, f64); 2] {
    let runs: Vec<(f64, f64)> = (0..4).map(|seed| loss(point, make, seed)).collect();
    let sum_up = |values: Vec<f64>| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square =
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
        (mean, square.sqrt())
    };
    [sum_up(runs.iter().map(|run| run.0).collect()), sum_up(runs.iter().map(|run| run.1).collect())]
}

/// The least loss of a policy that does not know who is away, percent: it overwrites every message at the same age. (The mean of a convex
/// function is least there, and the mean age is given by the slots.)
fn bound(point: Point) -> f64 {
    100.0 * SHARE * (-(point.slots as f64) / point.rate / point.away.as_secs_f64()).exp()
}

#[test]
fn policies_lose_what_the_paper_s_model_says() {
    let bound = bound(FIGURE_12);
    println!("{FIGURE_12:?}: no policy that does not know who is away loses less than {bound:.4} %");
    let [lrp, ran, pwp, short] = POLICIES.map(|(name, make)| {
        let [messages, indices] = over_seeds(FIGURE_12, make);
        println!(
            "{name}: L = {:.4} % (spread {:.4}), E = {:.4} % (spread {:.4})",
            messages.0, messages.1, indices.0, indices.1
        );
        [messages.0, indices.0]
    });
    assert!((bound..1.02 * bound).contains(&lrp[0]), "{lrp:?}");
    assert!((lrp[0] - lrp[1]).abs() < 0.02 * lrp[0], "the index does not matter: {lrp:?}");
    // The age is memoryless, too: 1 / (1 + N / (rate * away)).
    let at_random = 100.0 * SHARE / (1.0 + FIGURE_12.slots as f64 / FIGURE_12.rate / 24.0);
    assert!((ran[0] - at_random).abs() < 0.03 * at_random, "{ran:?}");
    let (messages, indices) = pwp_by_hand(FIGURE_12);
    assert!((pwp[0] - messages).abs() < 0.03 * messages, "{pwp:?}, by hand {messages:.4}");
    assert!((pwp[1] - indices).abs() < 0.03 * indices, "{pwp:?}, by hand {indices:.4}");
    assert!(short[0] < 1.1 * lrp[0] && short[1] < 0.95 * lrp[1], "{short:?}");
    assert!(pwp[1] < 0.8 * pwp[0], "what is important is kept: {pwp:?}");
}

#[test]
fn a_planned_buffer_loses_what_was_accepted() {
    for (rate, seconds, accepted) in [(100.0, 12, 0.01), (258.63, 24, 0.002)] {
        let absence = Duration::from_secs(seconds);
        let plan = Plan { rate, size: 50, absence, away: SHARE, loss: accepted };
        // The slots are divided among the partitions.
        let slots = plan.messages().next_multiple_of(u64::from(PARTITIONS));
        let [(lost, spread), _] = over_seeds(Point { rate, slots, away: absence }, POLICIES[0].1);
        println!("{plan:?}: {lost:.4} % lost (spread {spread:.4})");
        assert!((lost / 100.0 / accepted - 1.0).abs() < 0.05, "{lost}");
    }
}

#[test]
#[ignore = "prints the figures of the paper's other points; asserts nothing more"]
fn other_points_of_the_paper() {
    for (rate, slots, away) in
        [(285.29, 30_000, 12), (250.0, 20_000, 12), (250.0, 20_000, 24), (250.0, 30_000, 24)]
    {
        let point = Point { rate, slots, away: Duration::from_secs(away) };
        println!("{point:?}: bound {:.5} %", bound(point));
        for (name, make) in POLICIES {
            let [messages, indices] = over_seeds(point, make);
            println!(
                "  {name}: L = {:.5} % ({:.5}), E = {:.5} % ({:.5})",
                messages.0, messages.1, indices.0, indices.1
            );
        }
    }
}
