//! Which broker carries which channels.
//!
//! Brokers describe their channels to each other. They exchange those that both have, and know of the others who has them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use whimbrel_pubsub::message::{BrokerId, ChannelId};
use whimbrel_pubsub::topic::TopicFilter;

use super::room::ChannelRules;

/// The most brokers that one sentence names.
const MOST_NAMED: usize = 3;

/// A channel as a broker describes it to others.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelMap {
    /// Its id.
    pub id: ChannelId,
    /// Its name.
    pub name: String,
    /// Its topics.
    pub topics: Vec<TopicFilter>,
    /// A digest of what all who carry it have to agree on: its topics, and the rules of its partitions.
    pub digest: u64,
}

impl ChannelMap {
    /// Describes a channel.
    pub fn of(rules: &ChannelRules) -> Self {
        let topics = rules.topics.iter().map(|filter| format!("{filter}\n"));
        let partitions = rules.partitions.iter().map(|rule| format!("{} {:?}\n", rule.filter(), rule.key()));
        let text: String = topics.chain(["\n".to_owned()]).chain(partitions).collect();
        let whole = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        let digest = u64::from_le_bytes(std::array::from_fn(|at| whole.as_ref()[at]));
        Self { id: rules.settings.id, name: rules.name.clone(), topics: rules.topics.clone(), digest }
    }
}

/// The channels of other brokers, as these described them.
#[derive(Debug, Default)]
pub(super) struct Regions(Mutex<BTreeMap<BrokerId, Region>>);

#[derive(Debug)]
pub(super) struct Region {
    pub(super) broker: String,
    pub(super) channels: Vec<ChannelMap>,
}

impl Regions {
    pub(super) fn all(&self) -> MutexGuard<'_, BTreeMap<BrokerId, Region>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The brokers that have some topic of `filter`, as one sentence. Empty if none is known to have any.
    pub(super) fn advice(&self, filter: &TopicFilter) -> String {
        let all = self.all();
        let have = all.values().filter_map(|region| {
            let channel = region
                .channels
                .iter()
                .find(|channel| channel.topics.iter().any(|topics| topics.overlaps(filter)))?;
            Some(format!("{} (channel `{}`)", region.broker, channel.name))
        });
        let have: Vec<_> = have.take(MOST_NAMED).collect();
        if have.is_empty() { String::new() } else { format!("; ask {}", have.join(", or ")) }
    }
}
