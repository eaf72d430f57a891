//! Why a message is not taken.

use whimbrel_pubsub::message::{Origin, PartitionId};

/// Why a channel does not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no room for another last value.
    #[error("the channel holds as many last values as it may; publish without retain, or remove some")]
    Retained,
    /// The message names a partition that the channel does not have.
    #[error("the message is of partition {}, which the channel does not have: the brokers' channel maps differ", .0.0)]
    Partition(PartitionId),
    /// The message comes from a broker that is not configured.
    #[error("broker {} is not configured for the channel", .0.broker.0)]
    Stranger(Origin),
    /// Another broker uses this broker's origin, or sends what this broker has not published.
    #[error("another broker published as this one: two brokers have one id")]
    NotPublishedHere,
    /// There are as many origins as there may be.
    #[error("the channel has messages of 512 origins")]
    TooManyOrigins,
    /// The origin gave all its sequences.
    #[error("the origin gave all its sequences; restart the broker")]
    Exhausted,
}
