//! The sizes and durations of the demo.

use std::time::Duration;

/// The sizes and durations of the parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// The size of the file in bytes.
    pub(crate) file: usize,
    /// How long positions are sent before the link goes down.
    pub(crate) before: Duration,
    /// How long the link is down.
    pub(crate) blackout: Duration,
    /// How long positions are sent after the link is back.
    pub(crate) after: Duration,
    /// The bytes of bulk beside urgent messages.
    pub(crate) bulk: usize,
    /// How long urgent messages are sent.
    pub(crate) urgent: Duration,
    /// The bytes of the file in transfer when the address changes.
    pub(crate) moving: usize,
    /// The bytes that curl fetches through the proxy.
    pub(crate) fetched: usize,
    /// How long the video is watched through the proxy, the blackout included.
    pub(crate) watched: Duration,
    /// The subscribers that roam.
    pub(crate) subscribers: usize,
    /// How long is published to them.
    pub(crate) published: Duration,
}

impl Scale {
    /// Takes less than a minute.
    pub(crate) const FULL: Self = Self {
        file: 10_000_000,
        before: Duration::from_secs(2),
        blackout: Duration::from_secs(3),
        after: Duration::from_secs(4),
        bulk: 6_000_000,
        urgent: Duration::from_secs(4),
        moving: 6_000_000,
        fetched: 5_000_000,
        watched: Duration::from_secs(20),
        subscribers: 20,
        published: Duration::from_secs(24),
    };

    /// Takes a few seconds.
    pub(crate) const QUICK: Self = Self {
        file: 1_000_000,
        before: Duration::from_millis(700),
        blackout: Duration::from_secs(1),
        after: Duration::from_millis(1500),
        bulk: 1_500_000,
        urgent: Duration::from_secs(1),
        moving: 1_000_000,
        fetched: 1_000_000,
        watched: Duration::from_secs(6),
        subscribers: 4,
        published: Duration::from_secs(8),
    };
}
