//! Losses of subscribers by overwriting, in simulated time: the real buffer, fed at a rate, under a policy.
//!
//! A subscriber is away for a share of the time. It misses a message that is overwritten at age `a` if it was away when the message was
//! published, and still is at that age. So the loss follows from the ages at which the buffer overwrites, with far less spread than from
//! subscribers that come and go. That holds for every policy that does not know who is away. The loss is then a convex function of the age,
//! and the mean age is given by the slots: no such policy loses less than one that overwrites every message at the same age.

mod watched;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use whimbrel_broker::buffer::{
    Channel, ChannelSettings, Lrp, PartitionSettings, Picks, Policy, PolicySettings, Pwp, Ran, Size,
};
use whimbrel_broker::{Now, Time};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Index, Message, Origin};
use whimbrel_pubsub::property::{Lookup, Properties, Value};

use crate::mobility::{Absence, Mobility};
use watched::{Missed, Watched};

/// Partitions of the buffer, each for a tenth of the selector's values.
const PARTITIONS: u64 = 10;
/// How often the buffer is filled before anything is counted, and how often while.
const FILLS: (u64, u64) = (2, 10);

/// Computes what subscribers lose by overwriting
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Overwriting {
    #[arg(long, value_enum, default_value = "lrp")]
    policy: PolicyName,
    /// Messages a second
    #[arg(long, default_value_t = 258.63)]
    rate: f64,
    /// Messages that the buffer holds
    #[arg(long, default_value_t = 20_000)]
    slots: u64,
    /// Mean signal-down interval, in seconds
    #[arg(long, default_value_t = 24.0)]
    absence: f64,
    /// Coefficient of variation of the signal-down intervals
    #[arg(long, default_value_t = 1.0)]
    variation: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PolicyName {
    /// The least recently published message gives way
    Lrp,
    /// Any message gives way
    Ran,
    /// The paper's policy with priorities: 80 % recent, places for twice the mean absence
    Pwp,
    /// The same with places for five sixths of the mean absence
    PwpShort,
}

/// Losses in percent of what is published.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Losses {
    /// The paper's L: messages.
    pub(crate) messages: f64,
    /// The paper's E: sums of the indices of messages.
    pub(crate) indices: f64,
    /// The least L of any policy that does not know who is away.
    pub(crate) bound: f64,
}

impl Overwriting {
    pub(crate) fn run(&self) -> anyhow::Result<Losses> {
        let missed = Arc::new(Mutex::new(Missed::default()));
        let mut channel = self.channel(&missed);
        self.publish(&mut channel)?;
        let missed = *missed.lock().unwrap_or_else(PoisonError::into_inner);
        let percent = |lost: f64, of: f64| 100.0 * Mobility::default().share * lost / of;
        Ok(Losses {
            messages: percent(missed.missed, missed.messages),
            indices: percent(missed.indices_missed, missed.indices),
            bound: percent(self.absences().still_away(self.slots as f64 / self.rate), 1.0),
        })
    }

    fn absences(&self) -> Absence {
        Absence::new(Duration::from_secs_f64(self.absence), self.variation)
    }

    fn policy(&self) -> Box<dyn Policy> {
        let away = Duration::from_secs_f64(self.absence);
        match self.policy {
            PolicyName::Lrp => Box::new(Lrp::default()),
            PolicyName::Ran => Box::new(Ran::new(self.seed)),
            PolicyName::Pwp => Box::new(Pwp::new(80, 2 * away)),
            PolicyName::PwpShort => Box::new(Pwp::new(80, away * 5 / 6)),
        }
    }

    fn channel(&self, missed: &Arc<Mutex<Missed>>) -> Channel {
        let from = Time::ZERO + Duration::from_secs_f64(self.slots as f64 / self.rate) * FILLS.0 as u32;
        let (load, missed) = (self.clone(), Arc::clone(missed));
        let watched = move || -> Box<dyn Policy> {
            Box::new(Watched::new(load.policy(), load.absences(), from, Arc::clone(&missed)))
        };
        let policy = PolicySettings::Other(Arc::new(watched));
        let size = Size { messages: self.slots / PARTITIONS, ..Size::default() };
        let tenth = |tenth| PartitionSettings { rule: Arc::new(Tenth(tenth)), size, policy: policy.clone() };
        let partitions = (0..PARTITIONS as i64).map(tenth).collect();
        let settings = ChannelSettings { partitions, ..ChannelSettings::new(ChannelId(0)) };
        Channel::new(settings, Origin { broker: BrokerId(1), epoch: 1 }, Time::ZERO)
    }

    fn publish(&self, channel: &mut Channel) -> anyhow::Result<()> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let tenths = (0..PARTITIONS as i64).map(|tenth| Properties::new([("v", Value::Integer(tenth))]));
        let tenths = tenths.collect::<Result<Vec<_>, _>>()?;
        for number in 0..self.slots * (FILLS.0 + FILLS.1) {
            let time = Time::at(Duration::from_secs_f64(number as f64 / self.rate));
            let draft = Draft {
                topic: "t",
                properties: tenths[rng.random_range(0..tenths.len())].as_bytes(),
                index: Index::new(rng.random_range(1..=10)).context("an index of 1 to 10")?,
                payload: &[0; 50],
                ..Draft::default()
            };
            let wall_ms = time.since(Time::ZERO).as_millis() as u64;
            let published = channel.publish(draft.finish()?, Now { time, wall_ms });
            published.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
        }
        Ok(())
    }
}

/// A tenth of the selector's values.
#[derive(Debug)]
struct Tenth(i64);

impl Picks for Tenth {
    fn picks(&self, message: &Message) -> bool {
        message.property("v") == Some(Value::Integer(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_point_comes_out() {
        let load = |policy, variation| {
            let load = Overwriting { policy, rate: 258.63, slots: 20_000, absence: 24.0, variation, seed: 1 };
            load.run().unwrap()
        };
        let lrp = load(PolicyName::Lrp, 1.0);
        // 7.42 % of exp(-20,000 / 258.63 / 24).
        assert!((lrp.bound - 0.2959).abs() < 0.0005, "{lrp:?}");
        assert!((lrp.bound..1.03 * lrp.bound).contains(&lrp.messages), "{lrp:?}");
        let pwp = load(PolicyName::Pwp, 1.0);
        assert!(pwp.indices < 0.8 * pwp.messages, "{pwp:?}");
        // Long absences are more, and lose more.
        assert!(load(PolicyName::Lrp, 2.0).messages > 2.0 * lrp.messages);
    }
}
