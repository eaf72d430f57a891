//! The limits of what is kept.

/// The most durable subscriptions of a broker.
pub(super) const MOST_SUBSCRIPTIONS: usize = 100_000;
/// The most memories of subscriptions that were ended.
pub(super) const MOST_TOMBSTONES: usize = 100_000;
/// The most of one owner: of more, the memories that end first go.
pub(super) const MOST_TOMBSTONES_OF_OWNER: usize = 1_000;
/// The most origins that are remembered.
pub(super) const MOST_ORIGINS_SEEN: usize = 65_536;
/// The most last values that wait to be written. Beyond, no message is taken that is to be retained.
pub(super) const MOST_UNWRITTEN: usize = 200_000;
