//! Why some bytes or a draft are no message.

use crate::property::PropertyError;
use crate::topic::TopicError;

/// Why a draft or some bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The topic cannot be published under.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The importance is not 1 to 10.
    #[error("the index is {0}; it must be 1 to 10")]
    Index(u8),
    /// The key is too long.
    #[error("the key has {0} bytes; at most 1,024 are allowed")]
    Key(usize),
    /// A property cannot be published.
    #[error(transparent)]
    Properties(#[from] PropertyError),
    /// The lifetime is too short or too long.
    #[error("the lifetime must be 1 ms to 2^32 - 1 ms (49 days)")]
    Lifetime,
    /// The whole is too long.
    #[error("the message has {0} bytes; at most 16 MiB are allowed")]
    TooLong(usize),
    /// The bytes are not a message of this version.
    #[error("the bytes are not a message of this version")]
    Malformed,
}
