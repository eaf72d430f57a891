//! Quotas in a file.

use serde::{Deserialize, Serialize};
use whimbrel::units::as_text;

use crate::quota::Quota;

/// The most that a client may do. What is left out is as the broker's limits say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuotaSection {
    /// Messages a second that it publishes. Those of one second may come together; then it is held back. Default: no limit.
    pub messages: Option<u32>,
    /// Bytes a second of these messages. Default: no limit.
    #[serde(with = "as_text::optional_bytes")]
    pub bytes: Option<u64>,
    /// Subscriptions of a session. Default: as the limits say.
    pub subscriptions: Option<usize>,
    /// Bytes that are read for a subscription and not sent, or of messages sent and not acknowledged. Default: as the limits say.
    #[serde(with = "as_text::optional_bytes")]
    pub queued: Option<u64>,
}

impl QuotaSection {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn quota(&self) -> Quota {
        let Self { messages, bytes, subscriptions, queued } = *self;
        // More than there is memory is no limit.
        let queued = queued.map(|queued| usize::try_from(queued).unwrap_or(usize::MAX));
        Quota { messages, bytes, subscriptions, queued }
    }
}
