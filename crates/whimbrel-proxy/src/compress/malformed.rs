//! The error of whoever undoes compression.

/// Bytes that are not what an encoder of this method makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer's compressed bytes are malformed")]
pub struct MalformedCompression;
