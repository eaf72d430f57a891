//! Changes in the condition of subscriptions.

use std::sync::Arc;
use std::time::Duration;

use super::subscriber::SubscriberRecord;

/// A change in the condition of a subscription.
#[derive(Clone, Debug)]
pub enum Change {
    /// It became slow.
    Slow(Arc<SubscriberRecord>),
    /// It was slow for so long, and has caught up.
    KeepsUp(Arc<SubscriberRecord>, Duration),
    /// It was slow for so long when it left.
    Left(Arc<SubscriberRecord>, Duration),
}
