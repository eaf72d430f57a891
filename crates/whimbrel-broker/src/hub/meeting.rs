//! Brokers meet and part: each learns what the other carries.

use whimbrel_pubsub::frame::{Refusal, RefusalCode};
use whimbrel_pubsub::message::{BrokerId, ChannelId};
use whimbrel_pubsub::topic::TopicFilter;

use super::core::Hub;
use super::logging::Durability;
use super::regions::ChannelMap;
use super::room::Room;

impl Hub {
    /// Describes those channels of this broker to another that are for it.
    pub fn map(&self, is_for: impl Fn(ChannelId) -> bool) -> Vec<ChannelMap> {
        let rooms = self.rooms.iter().filter(|room| is_for(room.id()));
        rooms.map(|room| ChannelMap::of(room.rules())).collect()
    }

    /// Those of these channels that this broker can keep on disk.
    pub fn kept(&self, channels: &[ChannelMap]) -> Vec<ChannelId> {
        let is_kept = |room: &&Room| room.durability() != Durability::Never && self.keeper.has_folder();
        let rooms = channels.iter().filter_map(|channel| self.room(channel.id));
        rooms.filter(is_kept).map(Room::id).collect()
    }

    /// Meets a broker, called `name`, to which `ours` were described, and which has `theirs`, and can keep some of them on disk, if it says which.
    /// Returns the channels that both have. They are exchanged from now on, and the broker is asked for missing messages.
    ///
    /// # Errors
    /// A channel that both have is not the same.
    pub fn meet(
        &self,
        broker: BrokerId,
        name: String,
        ours: &[ChannelMap],
        (theirs, kept): (Vec<ChannelMap>, Option<Vec<ChannelId>>),
    ) -> Result<Vec<ChannelId>, String> {
        let mut shared = Vec::new();
        for channel in ours {
            match theirs.iter().find(|other| other.id == channel.id) {
                Some(other) if other.digest != channel.digest => {
                    return Err(format!(
                        "its channel `{}` differs from ours: give it the same `topics` at both, and partitions with the same `topics`, `key`, \
                         `from` and `to`; all else may differ",
                        channel.name
                    ));
                }
                Some(_) => shared.push(channel.id),
                None => {}
            }
        }
        self.carry(broker, &shared, |channel| kept.as_ref().is_none_or(|kept| kept.contains(&channel)));
        self.regions.describe(broker, name, theirs);
        Ok(shared)
    }

    /// Removes a broker from the cluster, so that nothing is expected of it.
    pub fn part(&self, broker: BrokerId) {
        self.carry(broker, &[], |_| false);
        self.regions.forget(broker);
    }

    /// A broker is silent: clients are not sent to it, until it is met again.
    pub fn stop_advising(&self, broker: BrokerId) {
        self.regions.forget(broker);
    }

    /// Has a broker count as one that carries these channels and no others, and keeps some of them on disk.
    fn carry(&self, broker: BrokerId, channels: &[ChannelId], keeps: impl Fn(ChannelId) -> bool) {
        for room in &self.rooms {
            let carries = channels.contains(&room.id());
            room.copying().meet(broker, carries && keeps(room.id()));
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
        let why = format_args!("no channel of this broker has topics that match `{filter}`{advice}");
        Refusal::new(RefusalCode::Mistake, why)
    }
}
