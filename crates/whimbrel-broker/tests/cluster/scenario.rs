//! The settings that a seed draws.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use whimbrel_broker::buffer::{ChannelSettings, PartitionSettings, PolicySettings, Size};
use whimbrel_broker::roaming::{Recover, Slow};
use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::taste::Taste;

/// How long a missing message is waited for; longer than anything is on its way.
pub(crate) const UNKNOWN_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) brokers: usize,
    pub(crate) partitions: Vec<Taste>,
    pub(crate) policies: Vec<PolicySettings>,
    pub(crate) sizes: Vec<Size>,
    pub(crate) subscribers: usize,
    pub(crate) publishers: usize,
    /// Messages of a publisher in a tick.
    pub(crate) rate: f64,
    pub(crate) loss: f64,
    pub(crate) crashes: f64,
    pub(crate) cuts: f64,
    pub(crate) clock_jumps: f64,
    pub(crate) roaming: f64,
    pub(crate) lifetimes: f64,
    pub(crate) repeats: f64,
    pub(crate) retained: f64,
}

impl Scenario {
    pub(crate) fn random(rng: &mut ChaCha8Rng) -> Self {
        let ends: &[u8] = [&[9][..], &[4, 9], &[2, 5, 9]][rng.random_range(0..3)];
        let starts = std::iter::once(0).chain(ends.iter().map(|end| end + 1));
        let partitions: Vec<Taste> =
            starts.zip(ends).map(|(start, end)| Taste::values(start, *end)).collect();
        let number = partitions.len();
        let mut some =
            |share: f64, most: f64| if rng.random_bool(share) { rng.random_range(0.0..most) } else { 0.0 };
        let (loss, crashes, cuts, clock_jumps) =
            (some(0.7, 0.3), some(0.4, 0.01), some(0.4, 0.02), some(0.3, 0.02));
        let (lifetimes, repeats, retained) = (some(0.5, 0.5), some(0.6, 0.3), some(0.5, 0.3));
        Self {
            brokers: rng.random_range(1..=4),
            policies: (0..number).map(|_| policy(rng)).collect(),
            sizes: (0..number).map(|_| size(rng)).collect(),
            partitions,
            subscribers: rng.random_range(1..=5),
            publishers: rng.random_range(1..=3),
            rate: rng.random_range(0.1..2.0),
            loss,
            crashes,
            cuts,
            clock_jumps,
            roaming: rng.random_range(0.005..0.1),
            lifetimes,
            repeats,
            retained,
        }
    }

    pub(crate) fn settings(&self, node: usize) -> ChannelSettings {
        let partition = |at: usize| PartitionSettings {
            rule: Arc::new(self.partitions[at].clone()),
            size: self.sizes[at],
            policy: self.policies[at].clone(),
        };
        ChannelSettings {
            partitions: (0..self.partitions.len()).map(partition).collect(),
            peers: (0..self.brokers)
                .filter(|other| *other != node)
                .map(|other| BrokerId(other as u64))
                .collect(),
            unknown_after: UNKNOWN_AFTER,
            ask_at_least_every: Duration::from_secs(1),
            most_publishers: 100,
            ..ChannelSettings::new(ChannelId(0))
        }
    }
}

fn policy(rng: &mut ChaCha8Rng) -> PolicySettings {
    match rng.random_range(0..4) {
        0 => PolicySettings::Ran { seed: rng.random() },
        1 => PolicySettings::Pwp {
            recent_percent: rng.random_range(0..=100),
            lifetime: Duration::from_millis(rng.random_range(100..5_000)),
        },
        _ => PolicySettings::Lrp,
    }
}

fn size(rng: &mut ChaCha8Rng) -> Size {
    let mut size = Size { messages: rng.random_range(1..150), ..Size::default() };
    match rng.random_range(0..8) {
        0 => size.bytes = rng.random_range(100..3_000),
        1 => size.age = Some(Duration::from_millis(rng.random_range(500..5_000))),
        2 => size.follow = Some(Duration::from_millis(rng.random_range(500..5_000))),
        _ => {}
    }
    size
}

pub(crate) fn recover(rng: &mut ChaCha8Rng) -> Recover {
    match rng.random_range(0..6) {
        0 | 1 => Recover::Beside,
        2 => Recover::NewestPerKey,
        3 => Recover::MaxAge(Duration::from_millis(rng.random_range(100..5_000))),
        _ => Recover::First,
    }
}

pub(crate) fn slow(rng: &mut ChaCha8Rng) -> Slow {
    match rng.random_range(0..8) {
        0 | 1 => Slow::DropOldest(rng.random_range(1..30)),
        2 => Slow::ReplaceByKey,
        3 => Slow::Disconnect(rng.random_range(1..60)),
        _ => Slow::Wait,
    }
}
