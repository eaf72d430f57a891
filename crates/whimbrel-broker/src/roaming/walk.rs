//! The progress of a subscription through the last values of topics.

use bytes::Bytes;

/// A walk through the last values.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) after: Option<Bytes>,
    /// Whether all values are wanted, or those only that the subscription does not get otherwise.
    pub(super) all: bool,
}

impl Walk {
    /// For a subscription that begins live.
    pub(super) fn all() -> Self {
        Self { after: None, all: true }
    }

    /// For one that recovers.
    pub(super) fn missed() -> Self {
        Self { after: None, all: false }
    }
}
