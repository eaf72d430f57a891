//! Small facts that change in place: durable subscriptions and their coverage, sessions of MQTT clients, last values, and origins.
//!
//! All but sessions and last values is in memory too. What a client waits for is on disk when a method returns. Coverage, last values and
//! origins follow within a time, in one transaction for all that changed: a thread writes it.

mod base;
mod core;
mod error;
mod fact;
mod limits;
mod outbound;
mod overlay;
mod retaining;
mod session;
mod sessions;
mod state;
mod subscription;
mod tables;
#[cfg(test)]
mod tests;
mod tombstones;
mod values;
mod writer;
mod written;

pub use self::core::Meta;
pub use error::MetaError;
pub use fact::{Fact, LONGEST_MEMORY};
pub use outbound::{MessageName, Outbound};
pub use session::{FoundSession, Session};
pub use subscription::{DurableSubscription, SubscriptionName, Tombstone};
pub use written::Written;
