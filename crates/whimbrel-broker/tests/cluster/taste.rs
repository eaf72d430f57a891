//! The topics of messages, and the selections of subscriptions.

use std::sync::Arc;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use whimbrel_broker::buffer::{Picks, Reach};
use whimbrel_broker::roaming::Wanted;
use whimbrel_pubsub::message::Message;

/// Values of the one property, 0 to 9: the last byte of the properties less one.
pub(crate) fn value(message: &Message) -> u8 {
    message.properties().last().map_or(0, |value| value - 1)
}

/// Picks messages whose property lies in a range and whose topic is one of some.
#[derive(Clone, Debug)]
pub(crate) struct Taste {
    pub(crate) least: u8,
    pub(crate) most: u8,
    /// A bit for each topic `t/0` to `t/3`.
    pub(crate) topics: u8,
}

pub(crate) const TOPICS: [&str; 4] = ["t/0", "t/1", "t/2", "t/3"];

impl Picks for Taste {
    fn picks(&self, message: &Message) -> bool {
        let topic = TOPICS.iter().position(|topic| *topic == message.topic()).unwrap();
        (self.least..=self.most).contains(&value(message)) && self.topics & (1 << topic) != 0
    }
}

impl Taste {
    /// The rule of a partition with these values.
    pub(crate) fn values(least: u8, most: u8) -> Self {
        Self { least, most, topics: 0xf }
    }

    pub(crate) fn random(rng: &mut ChaCha8Rng, partitions: &[Self]) -> Self {
        match rng.random_range(0..4) {
            0 => Self::values(0, 9),
            // A whole partition.
            1 => partitions[rng.random_range(0..partitions.len())].clone(),
            2 => Self { topics: rng.random_range(1..16), ..Self::values(0, 9) },
            _ => {
                let least = rng.random_range(0..10);
                Self::values(least, rng.random_range(least..10))
            }
        }
    }

    /// How much of a partition with this rule it can match.
    fn reach(&self, partition: &Self) -> Reach {
        if self.most < partition.least || partition.most < self.least {
            Reach::None
        } else if self.least <= partition.least && partition.most <= self.most && self.topics == 0xf {
            Reach::Whole
        } else {
            Reach::Part
        }
    }

    pub(crate) fn wanted(&self, partitions: &[Self]) -> Wanted {
        Wanted {
            picks: Arc::new(self.clone()),
            reach: partitions.iter().map(|partition| self.reach(partition)).collect(),
        }
    }
}
