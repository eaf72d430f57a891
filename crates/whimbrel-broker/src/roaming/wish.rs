//! The wishes of a subscription when it comes.

use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::coverage::ChannelCoverage;

use crate::buffer::{Picks, Reach};

/// Which messages a subscription wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The filter and the selector.
    pub picks: Arc<dyn Picks>,
    /// How much of each partition they can match. Partitions beyond the list count as [`Reach::Part`]. `Whole` and `None` must be
    /// certain: counts of messages that are gone go by them.
    pub reach: Vec<Reach>,
}

/// Where a subscription begins.
#[derive(Clone, Debug)]
pub enum From {
    /// Behind what it has.
    Coverage(ChannelCoverage),
    /// With what is published from now on.
    Live,
    /// With all that is held. What was overwritten before does not count as gone.
    Held,
}

/// How a subscription gets what it missed. Default: first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recover {
    /// Before what is new.
    #[default]
    First,
    /// Beside what is new.
    Beside,
    /// Only the newest of each key, before what is new. Messages without a key all come.
    NewestPerKey,
    /// Nothing older than this, before what is new.
    MaxAge(Duration),
}

/// The treatment of a subscription that is too slow, once it has caught up for the first time. Default: it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slow {
    /// It lags, until what it has not read is overwritten.
    #[default]
    Wait,
    /// If it lags behind by more arrivals than this, it passes over the oldest until it lags by half of it.
    DropOldest(u64),
    /// A message that waits is passed over if a newer one with its topic and key is there.
    ReplaceByKey,
    /// If it lags behind by more arrivals than this, it is sent away.
    Disconnect(u64),
}

/// All that a subscription asks for when it comes.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Which messages.
    pub wanted: Wanted,
    /// Where it begins.
    pub from: From,
    /// How it gets what it missed.
    pub recover: Recover,
    /// Its treatment if it is too slow.
    pub slow: Slow,
}
