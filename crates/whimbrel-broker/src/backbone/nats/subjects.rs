//! The subjects on which brokers find each other.
//!
//! ```text
//! whimbrel.CLUSTER.hello               how each broker introduces itself, now and then
//! whimbrel.CLUSTER.CHANNEL.messages    what was published at one of them
//! whimbrel.CLUSTER.CHANNEL.heads       the highest sequences that one of them knows
//! whimbrel.CLUSTER.to.BROKER           questions and answers for one broker
//! ```
//!
//! All three names are ids in hexadecimal digits, so none can be mistaken for a word.

use whimbrel_pubsub::coverage::ClusterId;
use whimbrel_pubsub::message::{BrokerId, ChannelId};

/// The subjects of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Subjects {
    prefix: String,
}

impl Subjects {
    pub(super) fn of(cluster: ClusterId) -> Self {
        Self { prefix: format!("whimbrel.{:032x}", cluster.0) }
    }

    /// All of them, as permissions of NATS name them.
    pub(super) fn all(&self) -> String {
        format!("{}.>", self.prefix)
    }

    pub(super) fn hello(&self) -> String {
        format!("{}.hello", self.prefix)
    }

    pub(super) fn messages(&self, channel: ChannelId) -> String {
        format!("{}.{:08x}.messages", self.prefix, channel.0)
    }

    pub(super) fn heads(&self, channel: ChannelId) -> String {
        format!("{}.{:08x}.heads", self.prefix, channel.0)
    }

    pub(super) fn to(&self, broker: BrokerId) -> String {
        format!("{}.to.{:016x}", self.prefix, broker.0)
    }
}
