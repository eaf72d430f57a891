//! What one stream of messages is set to.

use std::time::Duration;

use crate::wire::data::DEFAULT_PRIORITY;

/// When credit used by unreliable messages is granted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CreditPolicy {
    /// When they are read: a reader that stops slows the sender down, and loses nothing. The default.
    #[default]
    Wait,
    /// When they arrive: a reader that stops finds the newest. The oldest unread is discarded, and counted, where more than
    /// `unread` messages or more bytes than the stream's window wait. Reliable messages are not touched by it.
    Latest {
        /// Messages kept, at least 1.
        unread: usize,
    },
}

/// Names how the connection is to carry a message: which scheduler, which paths, at what cost. The session only carries it. No scheduler
/// asks yet, so the library does not offer it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteClass(pub u8);

/// Settings of one message stream at one end. All but cross-sequencing can be changed while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// Both sequenced services share one order in what this end sends. None (default): as the session's setting says. Fixed by
    /// the first sequenced message.
    pub cross_sequencing: Option<bool>,
    /// How long a gap of unreliable messages is waited for. None (default): the session's.
    pub gap_wait: Option<Duration>,
    /// Of what is received.
    pub credit: CreditPolicy,
    /// Of messages that have the default one, and whose tag has none; 100.
    pub priority: u8,
    /// How far the credit grows that the peer has on it, bytes. None (default): as the session's `stream_window` says. Never below
    /// `stream_share`.
    pub window: Option<u64>,
    /// Of messages that have none of their own; 0.
    #[doc(hidden)]
    pub route: RouteClass,
}

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
