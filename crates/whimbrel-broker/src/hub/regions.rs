//! Which broker carries which channels.
//!
//! Brokers describe their channels to each other. They exchange those that both have, and know of the others who has them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{BrokerId, ChannelId};
use whimbrel_pubsub::topic::TopicFilter;

use super::{ChannelRules, Hub};

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
struct Region {
    broker: String,
    channels: Vec<ChannelMap>,
}

impl Regions {
    fn all(&self) -> MutexGuard<'_, BTreeMap<BrokerId, Region>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The brokers that have some topic of `filter`, as one sentence. Empty if none is known to have any.
    fn advice(&self, filter: &TopicFilter) -> String {
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

impl Hub {
    /// Describes those channels of this broker to another that are for it.
    pub fn map(&self, is_for: impl Fn(ChannelId) -> bool) -> Vec<ChannelMap> {
        let rooms = self.rooms.iter().filter(|room| is_for(room.id()));
        rooms.map(|room| ChannelMap::of(room.rules())).collect()
    }

    /// Meets a broker, called `name`, to which `ours` were described, and which has `theirs`. Returns the channels that both have: these are
    /// exchanged from now on, and the broker is asked for what is missing of them.
    ///
    /// # Errors
    /// A channel that both have is not the same.
    pub fn meet(
        &self,
        broker: BrokerId,
        name: String,
        ours: &[ChannelMap],
        theirs: Vec<ChannelMap>,
    ) -> Result<Vec<ChannelId>, String> {
        let mut shared = Vec::new();
        for channel in ours {
            match theirs.iter().find(|other| other.id == channel.id) {
                Some(other) if other.digest != channel.digest => {
                    return Err(format!(
                        "its channel `{}` differs from ours: give all brokers that have it the same `topics` and partitions",
                        channel.name
                    ));
                }
                Some(_) => shared.push(channel.id),
                None => {}
            }
        }
        self.carry(broker, &shared);
        self.regions.all().insert(broker, Region { broker: name, channels: theirs });
        Ok(shared)
    }

    /// A broker is none of the cluster any more, so that nothing is expected of it.
    pub fn part(&self, broker: BrokerId) {
        self.carry(broker, &[]);
        self.regions.all().remove(&broker);
    }

    /// Has a broker count as one that carries these channels and no others.
    fn carry(&self, broker: BrokerId, channels: &[ChannelId]) {
        for room in &self.rooms {
            let carries = channels.contains(&room.id());
            if room.peers().contains(&broker) != carries {
                room.write().carry(broker, carries, self.clock.time());
            }
        }
    }

    /// The refusal of a topic that no channel has.
    pub(super) fn no_channel_for_topic(&self, topic: &str) -> Refusal {
        let advice = topic.parse().map_or_else(|_| String::new(), |filter| self.regions.advice(&filter));
        let why = format_args!("no channel of this broker has the topic `{topic}`{advice}");
        Refusal::new(RefusalCode::Mistake, why)
    }

    /// The refusal of a filter that no channel overlaps.
    pub(super) fn no_channel_for(&self, filter: &TopicFilter) -> Refusal {
        let advice = self.regions.advice(filter);
        let why = format_args!("no channel of this broker has topics of the filter `{filter}`{advice}");
        Refusal::new(RefusalCode::Mistake, why)
    }
}
