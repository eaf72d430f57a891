//! Coverage: the sequences of each origin whose fate a subscription knows.
//!
//! Coverage is the whole state of a semi-durable subscription. A broker tells it in [`Told`]; the subscriber keeps it in a
//! [`SubscriptionState`], and names it when it arrives at any broker. Numbers from a subscriber change what that subscriber gets, and
//! nothing else.

mod codec;
mod error;
mod file;
mod ranges;
mod set;
mod state;
mod text;
mod told;

pub use error::{CoverageError, StateError};
pub use file::StateFile;
pub use ranges::{Range, Ranges};
pub use set::{ChannelCoverage, Coverage};
pub use state::{ClusterId, Heard, Subscription, SubscriptionId, SubscriptionState};
pub use told::{Count, Cover, Delivery, Fate, Outstanding, Recovered, Told};

/// The most ranges of one origin. Beyond, the oldest gap is closed and told as unknown.
pub const MOST_RANGES: usize = 256;
/// The most origins of one channel in a coverage.
pub const MOST_ORIGINS: usize = 1_024;
/// The most channels in a coverage.
pub const MOST_CHANNELS: usize = 64;
/// The longest encoded coverage, bytes: as text it fits into one user property of MQTT 5.
pub const LONGEST_COVERAGE: usize = 49_149;
