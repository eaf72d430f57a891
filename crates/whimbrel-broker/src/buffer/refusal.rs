//! Why a message is not taken.

use whimbrel_pubsub::message::{Hlc, Origin, PartitionId};

/// Why a channel does not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no room for another last value.
    #[error("the channel already holds its maximum of last values; publish without retain, or remove some")]
    Retained,
    /// The message names a partition that the channel does not have.
    #[error("the message belongs to partition {}, which the channel does not have: the brokers' channel maps differ", .0.0)]
    Partition(PartitionId),
    /// The message comes from a broker that is not configured.
    #[error("broker {} is not configured for the channel", .0.broker.0)]
    Stranger(Origin),
    /// Another broker uses this broker's origin, or sends what this broker has not published.
    #[error("another broker published under this one's id: two brokers have the same id")]
    NotPublishedHere,
    /// The message says that it was published after the year 9999.
    #[error("the message says that it was published {} ms after 1970, which is after the year 9999", .0.0 >> 16)]
    TooLate(Hlc),
    /// There are as many origins as there may be, and this one is the oldest run of the broker with the most.
    #[error(
        "the channel already has messages of 512 origins, and this one is an older run of the broker with the most origins"
    )]
    TooManyOrigins,
    /// The origin gave all its sequences.
    #[error("the origin has used all its sequence numbers; restart the broker")]
    Exhausted,
}
