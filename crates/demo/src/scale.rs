//! How much of everything.

use std::time::Duration;

/// Sizes and durations of the parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Bytes of the file.
    pub(crate) file: usize,
    /// Positions before the link goes away.
    pub(crate) before: Duration,
    /// It is away.
    pub(crate) blackout: Duration,
    /// Positions after it has come back.
    pub(crate) after: Duration,
    /// Bytes of bulk beside urgent messages.
    pub(crate) bulk: usize,
    /// For how long urgent messages are sent.
    pub(crate) urgent: Duration,
    /// Bytes of the file that is under way when the address changes.
    pub(crate) moving: usize,
}

impl Scale {
    /// Under a minute.
    pub(crate) const FULL: Self = Self {
        file: 10_000_000,
        before: Duration::from_secs(2),
        blackout: Duration::from_secs(3),
        after: Duration::from_secs(4),
        bulk: 6_000_000,
        urgent: Duration::from_secs(4),
        moving: 6_000_000,
    };

    /// A few seconds.
    pub(crate) const QUICK: Self = Self {
        file: 1_000_000,
        before: Duration::from_millis(700),
        blackout: Duration::from_secs(1),
        after: Duration::from_millis(1500),
        bulk: 1_500_000,
        urgent: Duration::from_secs(1),
        moving: 1_000_000,
    };
}
