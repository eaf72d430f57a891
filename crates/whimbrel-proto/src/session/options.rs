//! Settings of a message stream.

use std::time::Duration;

use crate::wire::data::DEFAULT_PRIORITY;

/// When credit used by unreliable messages is granted to the peer again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditPolicy {
    /// When they are read. A reader that stops slows the sender down and loses nothing. The default.
    #[default]
    Wait,
    /// When they arrive. A reader that stops and comes back finds the newest messages. The oldest unread one is
    /// discarded, and counted, while more than `unread` messages or more bytes than the session's `stream_window` (256
    /// KiB at least) wait. Reliable messages are not affected.
    Latest {
        /// Messages kept, at least 1.
        unread: usize,
    },
}

/// Names how the connection should carry a message: which scheduler, which paths, at what cost. The session only passes
/// it on. No scheduler uses it yet, so the library does not expose it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteClass(pub u8);

/// Settings of one message stream at one end. All but cross-sequencing can be changed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct StreamOptions {
    /// Whether both sequenced services share one order in what this end sends. None (default): the session's setting.
    /// The first sequenced message fixes it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub cross_sequencing: Option<bool>,
    /// How long delivery waits for missing unreliable messages. None (default): the session's setting.
    #[cfg_attr(
        feature = "serde",
        serde(with = "crate::units::as_text::optional_duration", skip_serializing_if = "Option::is_none")
    )]
    pub gap_wait: Option<Duration>,
    /// The credit policy for received messages.
    pub credit: CreditPolicy,
    /// Priority of messages that have the default one and whose tag sets none; 100.
    pub priority: u8,
    /// Largest credit the peer's window on this stream can grow to, bytes. None (default): the session's
    /// `stream_window`. It is never below `stream_share`.
    #[cfg_attr(
        feature = "serde",
        serde(with = "crate::units::as_text::optional_bytes", skip_serializing_if = "Option::is_none")
    )]
    pub window: Option<u64>,
    /// Route class of messages that have none of their own; 0.
    #[cfg_attr(feature = "serde", serde(skip))]
    #[doc(hidden)]
    pub route: RouteClass,
}

crate::setters!(StreamOptions {
    cross_sequencing: Option<bool>,
    gap_wait: Option<Duration>,
    credit: CreditPolicy,
    priority: u8,
    window: Option<u64>,
});

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            cross_sequencing: None,
            gap_wait: None,
            credit: CreditPolicy::Wait,
            priority: DEFAULT_PRIORITY,
            window: None,
            route: RouteClass(0),
        }
    }
}
