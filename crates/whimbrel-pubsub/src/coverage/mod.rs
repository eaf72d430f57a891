//! Coverage: the sequences of each origin whose fate a subscription knows.
//!
//! Coverage is the whole state of a semi-durable subscription. A broker tells it in [`Told`]; the subscriber keeps it in a
//! [`SubscriptionState`], and names it when it arrives at any broker. Numbers from a subscriber change what that subscriber gets, and
//! nothing else.

mod codec;
mod error;
mod file;
mod limits;
mod ranges;
mod set;
mod state;
mod text;
mod told;

pub use error::{CoverageError, StateError};
pub use file::StateFile;
pub use limits::{LONGEST_COVERAGE, MOST_CHANNELS, MOST_ORIGINS, MOST_RANGES};
pub use ranges::{Range, Ranges};
pub use set::{ChannelCoverage, Coverage};
pub use state::{ClusterId, Heard, Subscription, SubscriptionId, SubscriptionState};
pub use told::{Count, Cover, Delivery, Fate, Outstanding, Recovered, Told};
