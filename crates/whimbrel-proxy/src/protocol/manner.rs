//! How a flow's bytes are sent, beside others of the session.

use std::time::Duration;

/// How a flow's bytes are sent. What is not set has its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Manner {
    /// Their priority among all of the session, 0 to 255.
    pub priority: Option<u8>,
    /// How long a datagram may wait to be sent; in whole milliseconds.
    pub lifetime: Option<Duration>,
}
