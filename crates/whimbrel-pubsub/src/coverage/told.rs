//! The reports of a broker to a subscription.

use std::fmt;

use super::ranges::Range;
use crate::message::{Message, Origin, Stamp};

/// Sequences of one origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover {
    /// The origin.
    pub origin: Origin,
    /// The sequences.
    pub range: Range,
}

/// A number of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The number.
    pub number: u64,
    /// Whether the number is exact. Otherwise it is an upper bound.
    pub exact: bool,
}

impl Count {
    /// None, exactly.
    pub const NONE: Self = Self { number: 0, exact: true };

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { number: self.number.saturating_add(other.number), exact: self.exact && other.exact }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = if self.exact { "" } else { "at most " };
        write!(f, "{bound}{}", self.number)
    }
}

/// The fate of messages that are not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They were overwritten before they could be delivered, or no broker has them.
    Gone,
    /// The subscription's own policy passed over them: a newer value replaced them, they were too old, or the subscriber was too slow.
    Superseded,
    /// They exist, but did not come here in time. Unless the cover is closed, they are delivered if they come later.
    Unknown,
}

/// A message for the subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The range that the delivery covers: the message, and before it messages that do not match.
    pub cover: Cover,
    /// The message's name.
    pub stamp: Stamp,
    /// The message.
    pub message: Message,
    /// Whether it was published before the subscription came.
    pub recovered: bool,
    /// Whether a later message of its origin was delivered before.
    pub late: bool,
    /// Whether it is the last value of its topic, delivered because the subscription came.
    pub retained: bool,
}

/// The messages that a returning subscription will get, counted before anything else is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outstanding {
    /// Messages that are held and will be delivered, unless they are overwritten meanwhile.
    pub outstanding: u64,
    /// Messages that were overwritten.
    pub gone: Count,
    /// Messages that exist and are not here yet: an upper bound of those that match.
    pub missing: u64,
}

/// The result of a recovery, told at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Messages that were delivered.
    pub recovered: u64,
    /// Messages that are gone, those overwritten meanwhile included.
    pub gone: Count,
    /// Messages that were superseded.
    pub superseded: u64,
}

/// Something a broker tells a subscription, about one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The number of messages to come.
    Outstanding(Outstanding),
    /// A message.
    Delivery(Delivery),
    /// Messages that do not match.
    Covers(Cover),
    /// Messages that are not delivered.
    Fate {
        /// The messages that it may concern.
        cover: Cover,
        /// Their fate.
        fate: Fate,
        /// The number of them that match.
        count: Count,
        /// Whether the cover is closed. Only what is unknown may stay open.
        closed: bool,
    },
    /// The recovery is over.
    Recovered(Recovered),
    /// The coverage names an origin of which no broker here knows.
    UnknownOrigin(Origin),
}

impl Told {
    /// Returns the coverage of the subscription after this.
    pub fn cover(&self) -> Option<Cover> {
        match self {
            Self::Delivery(delivery) => Some(delivery.cover),
            Self::Covers(cover) | Self::Fate { cover, closed: true, .. } => Some(*cover),
            Self::Fate { closed: false, .. }
            | Self::Outstanding(_)
            | Self::Recovered(_)
            | Self::UnknownOrigin(_) => None,
        }
    }
}
