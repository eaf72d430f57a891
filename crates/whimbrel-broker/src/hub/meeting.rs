//! Brokers meet and part: each learns what the other carries.

use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{BrokerId, ChannelId};
use whimbrel_pubsub::topic::TopicFilter;

use super::core::Hub;
use super::regions::{ChannelMap, Region};

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
