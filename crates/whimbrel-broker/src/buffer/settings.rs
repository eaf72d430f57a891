//! The buffer settings of a channel.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::message::{BrokerId, ChannelId};

use super::picks::{All, Picks};
use super::policy::{Lrp, Policy, Pwp, Ran};

/// The settings of a channel. All brokers that have it need the same rules of partitions; sizes, policies, times and `peers` may differ.
#[derive(Clone, Debug)]
pub struct ChannelSettings {
    /// The channel.
    pub id: ChannelId,
    /// The partitions. A message belongs to the first whose rule picks it, else to the last. Default: one for all.
    pub partitions: Vec<PartitionSettings>,
    /// The other brokers that carry the channel, in the beginning. Default: none.
    pub peers: Vec<BrokerId>,
    /// Whether messages may also have entered at brokers that are not among the peers. Default: no.
    pub takes_strangers: bool,
    /// The time within which a message that exists must arrive, before subscriptions are told that its fate is unknown. It must be longer than a
    /// message can be on its way between brokers. Default: 10 s. Raised, subscriptions hear later of what may be lost.
    pub unknown_after: Duration,
    /// The delay before another broker is asked to fill a gap. Default: 100 ms. Lowered, messages that are only late are
    /// sent twice.
    pub ask_after: Duration,
    /// The longest time between two questions to one broker for the same gap; shorter than `unknown_after`. Default: 5 s.
    pub ask_at_least_every: Duration,
    /// The most topics with a retained value or the memory of a removed one. Default: 100,000.
    pub most_retained: usize,
    /// The most bytes of retained values. Default: 64 MiB.
    pub most_retained_bytes: u64,
    /// The time for which the removal of a retained value is remembered. Default: 1 h. Lowered, a broker that was cut off for longer brings
    /// removed values back.
    pub removed_for: Duration,
    /// The most publishers whose repeated messages are recognised. Default: 10,000.
    pub most_publishers: usize,
}

impl ChannelSettings {
    /// Whether messages may have entered at this broker.
    pub(super) fn may_be_origin(&self, broker: BrokerId) -> bool {
        self.takes_strangers || self.peers.contains(&broker)
    }

    /// The defaults for a channel.
    pub fn new(id: ChannelId) -> Self {
        Self {
            id,
            partitions: vec![PartitionSettings::default()],
            peers: Vec::new(),
            takes_strangers: false,
            unknown_after: Duration::from_secs(10),
            ask_after: Duration::from_millis(100),
            ask_at_least_every: Duration::from_secs(5),
            most_retained: 100_000,
            most_retained_bytes: 64 << 20,
            removed_for: Duration::from_secs(3_600),
            most_publishers: 10_000,
        }
    }
}

/// The settings of a partition.
#[derive(Clone, Debug)]
pub struct PartitionSettings {
    /// The rule for the messages that belong to it. Default: all.
    pub rule: Arc<dyn Picks>,
    /// Its capacity.
    pub size: Size,
    /// The policy that chooses the message to overwrite. Default: the least recently published.
    pub policy: PolicySettings,
}

impl Default for PartitionSettings {
    fn default() -> Self {
        Self { rule: Arc::new(All), size: Size::default(), policy: PolicySettings::Lrp }
    }
}

/// The capacity of a partition. Every bound that is given applies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// The most messages. Default: 20,000.
    pub messages: u64,
    /// The most bytes of encoded messages. Default: 64 MiB.
    pub bytes: u64,
    /// The longest time that a message is held. Default: none.
    pub age: Option<Duration>,
    /// The span of messages to hold: as many as are published in this time at the present rate. Default: does not follow the rate.
    pub follow: Option<Duration>,
}

impl Default for Size {
    fn default() -> Self {
        Self { messages: 20_000, bytes: 64 << 20, age: None, follow: None }
    }
}

/// The policy that chooses the message to overwrite in a full partition.
#[derive(Clone)]
pub enum PolicySettings {
    /// The least recently published.
    Lrp,
    /// Any.
    Ran {
        /// The seed of the random numbers.
        seed: u64,
    },
    /// The paper's policy with priorities.
    Pwp {
        /// The part that holds recent messages, percent. The rest holds important ones. Default: 80.
        recent_percent: u8,
        /// The time for which a message keeps its place among the important ones. Default: 48 s, the paper's.
        lifetime: Duration,
    },
    /// Another policy, made for each partition.
    Other(Arc<dyn Fn() -> Box<dyn Policy> + Send + Sync>),
}

impl PolicySettings {
    /// The paper's policy with its defaults.
    pub const PWP: Self = Self::Pwp { recent_percent: 80, lifetime: Duration::from_secs(48) };

    pub(super) fn make(&self) -> Box<dyn Policy> {
        match self {
            Self::Lrp => Box::new(Lrp::default()),
            Self::Ran { seed } => Box::new(Ran::new(*seed)),
            Self::Pwp { recent_percent, lifetime } => Box::new(Pwp::new(*recent_percent, *lifetime)),
            Self::Other(make) => make(),
        }
    }
}

impl fmt::Debug for PolicySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lrp => f.write_str("lrp"),
            Self::Ran { .. } => f.write_str("ran"),
            Self::Pwp { recent_percent, lifetime } => write!(f, "pwp({recent_percent} %, {lifetime:?})"),
            Self::Other(_) => f.write_str("other"),
        }
    }
}
