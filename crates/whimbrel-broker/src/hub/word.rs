//! The words of brokers to each other about durable subscriptions.

use crate::durable::Life;
use crate::store::{Fact, SubscriptionName};

/// Something that brokers tell each other about durable subscriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// A fact that the sender knows.
    Fact(Fact),
    /// The sender has this subscription on disk, and appends to its logs.
    Confirmed {
        /// The subscription.
        name: SubscriptionName,
        /// Its life, as the sender knows it.
        life: Life,
    },
    /// The sender serves this subscription: it is attached there.
    Attached {
        /// The subscription.
        name: SubscriptionName,
        /// Its life, with the generation of the attachment.
        life: Life,
        /// The [digest](crate::store::DurableSubscription::selects) of what it selects.
        selects: u64,
    },
    /// The sender has told all that it knew.
    ToldAll,
    /// The sender could not keep something, and wants to be told all again.
    TellAll,
}
