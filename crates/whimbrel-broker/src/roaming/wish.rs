//! The wishes of a subscription when it comes.

use std::sync::Arc;

use whimbrel_pubsub::coverage::ChannelCoverage;
pub use whimbrel_pubsub::frame::{Recover, Slow};

use crate::buffer::{Picks, Reach};

/// The messages that a subscription wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The filter and the selector.
    pub picks: Arc<dyn Picks>,
    /// The part of each partition that they can match. Partitions beyond the list count as [`Reach::Part`]. `Whole` and `None` must be
    /// certain of what a partition's rule picks: such messages are not looked at, and counts of those that are gone go by them.
    pub reach: Vec<Reach>,
}

/// The starting point of a subscription.
#[derive(Clone, Debug)]
pub enum From {
    /// Behind the messages that it has.
    Coverage(ChannelCoverage),
    /// With what is published from now on.
    Live,
    /// With all that is held. What was overwritten before does not count as gone.
    Held,
}

/// All that a subscription asks for when it comes.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Which messages.
    pub wanted: Wanted,
    /// Its starting point.
    pub from: From,
    /// The way in which it recovers missed messages.
    pub recover: Recover,
    /// Its treatment if it is too slow.
    pub slow: Slow,
}
