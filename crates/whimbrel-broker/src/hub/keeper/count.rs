//! Counts of durable subscriptions.

use crate::store::{DurableSubscription, Meta};

/// How many durable subscriptions of the store satisfy a condition.
pub(super) fn count(meta: &Meta, is_one: impl Fn(&DurableSubscription) -> bool) -> usize {
    meta.subscriptions().iter().filter(|subscription| is_one(subscription)).count()
}
