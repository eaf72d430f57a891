//! The clients of a broker as its operators see them: who subscribes and publishes, and in which condition each is.
//!
//! Nothing here is on the way of a message. A subscription's own task counts what it reads, in its own record; whoever reports adds up. The
//! register's lock is held to come, to leave and to report.

mod change;
mod client;
mod core;
mod count;
mod flow;
mod limits;
mod publisher;
mod subscriber;
mod sums;

pub use self::core::Register;
pub use change::Change;
pub use client::Client;
pub(crate) use count::Rate;
pub use flow::Flow;
pub use limits::LOOK;
pub use publisher::PublisherRecord;
pub use subscriber::{SubscriberRecord, SubscriptionKind};
pub use sums::Sums;
