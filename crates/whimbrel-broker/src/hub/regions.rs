//! The channels that each broker carries.
//!
//! Brokers describe their channels to each other. They exchange those that both have, and know of the others who has them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use whimbrel_pubsub::message::{BrokerId, ChannelId};
use whimbrel_pubsub::topic::TopicFilter;

use super::room::ChannelRules;

/// The most brokers that one sentence names.
const MOST_NAMED: usize = 3;
/// The most bytes of one broker's description that are kept to advise clients. Further topics are left out.
const MOST_OF_BROKER: usize = 64 << 10;
/// The most bytes of all descriptions. Beyond, the longest is forgotten.
const MOST_BYTES: usize = 4 << 20;
/// The overhead charged for a name or a topic, in addition to its bytes.
const EACH: usize = 64;

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

/// The channels of other brokers, as these described them, to advise clients.
#[derive(Debug, Default)]
pub(super) struct Regions(Mutex<Described>);

#[derive(Debug, Default)]
struct Described {
    regions: BTreeMap<BrokerId, Region>,
    bytes: usize,
}

#[derive(Debug)]
struct Region {
    broker: String,
    channels: Vec<ChannelMap>,
    bytes: usize,
}

impl Regions {
    /// A broker, called `name`, described its channels.
    pub(super) fn describe(&self, broker: BrokerId, name: String, channels: Vec<ChannelMap>) {
        let region = Region::of(name, channels);
        let mut described = self.described();
        described.remove(broker);
        described.bytes += region.bytes;
        described.regions.insert(broker, region);
        while described.bytes > MOST_BYTES {
            let longest = described.regions.iter().max_by_key(|(_, region)| region.bytes);
            let Some(longest) = longest.map(|(broker, _)| *broker) else { return };
            described.remove(longest);
        }
    }

    /// Advises nobody to go to a broker any more.
    pub(super) fn forget(&self, broker: BrokerId) {
        self.described().remove(broker);
    }

    /// The brokers that have some topic of `filter`, as one sentence. Empty if none is known to have any.
    pub(super) fn advice(&self, filter: &TopicFilter) -> String {
        let described = self.described();
        let have = described.regions.values().filter_map(|region| {
            let channel = region
                .channels
                .iter()
                .find(|channel| channel.topics.iter().any(|topics| topics.overlaps(filter)))?;
            Some(format!("{} (channel `{}`)", region.broker, channel.name))
        });
        let have: Vec<_> = have.take(MOST_NAMED).collect();
        if have.is_empty() { String::new() } else { format!("; ask {}", have.join(", or ")) }
    }

    fn described(&self) -> MutexGuard<'_, Described> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Described {
    fn remove(&mut self, broker: BrokerId) {
        if let Some(region) = self.regions.remove(&broker) {
            self.bytes -= region.bytes;
        }
    }
}

impl Region {
    /// As much of a description as is kept.
    fn of(broker: String, channels: Vec<ChannelMap>) -> Self {
        let mut bytes = broker.len() + EACH;
        let mut has_room = |text: &str| {
            let fits = bytes + text.len() + EACH <= MOST_OF_BROKER;
            bytes += if fits { text.len() + EACH } else { 0 };
            fits
        };
        let mut kept = Vec::new();
        for ChannelMap { id, name, topics, digest } in channels {
            if has_room(&name) {
                let topics = topics.into_iter().filter(|topic| has_room(topic.as_str())).collect();
                kept.push(ChannelMap { id, name, topics, digest });
            }
        }
        Self { broker, channels: kept, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str, topics: impl IntoIterator<Item = String>) -> ChannelMap {
        let topics = topics.into_iter().map(|topic| topic.parse().unwrap()).collect();
        ChannelMap { id: ChannelId(0), name: name.to_owned(), topics, digest: 0 }
    }

    /// Over NATS there may be 256 brokers, and an introduction may have 16 MiB.
    #[test]
    fn regression_what_brokers_describe_is_bounded_each_and_all_together() {
        let regions = Regions::default();
        let short = || vec![channel("short", ["fish/#".to_owned()])];
        regions.describe(BrokerId(1), "modest".to_owned(), short());
        let topics = (0..2).map(|at| format!("{at:04}/{}", "x".repeat(60_000)));
        let long = channel("long", topics.chain(["meat/#".to_owned()]));
        for broker in 2..258 {
            regions.describe(BrokerId(broker), "greedy".to_owned(), vec![long.clone()]);
            let described = regions.described();
            assert!(described.bytes <= MOST_BYTES);
            assert!(described.regions.values().all(|region| region.bytes <= MOST_OF_BROKER));
            let counted: usize = described.regions.values().map(|region| region.bytes).sum();
            assert_eq!(counted, described.bytes);
        }
        let advice = |filter: &str| regions.advice(&filter.parse().unwrap());
        assert_eq!(advice("fish/#"), "; ask modest (channel `short`)");
        assert!(advice("meat/#").contains("greedy"), "what has room is kept");
        (1..258).for_each(|broker| regions.forget(BrokerId(broker)));
        assert_eq!(regions.described().bytes, 0);
        assert_eq!(advice("fish/#"), "");
        regions.describe(BrokerId(1), "modest".to_owned(), short());
        regions.describe(BrokerId(1), "modest".to_owned(), short());
        assert_eq!(regions.described().regions.len(), 1);
    }
}
