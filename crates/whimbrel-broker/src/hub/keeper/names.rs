//! The names of durable subscriptions, as the store and as their clients know them.

use whimbrel_pubsub::frame::{Refusal, RefusalCode};

use super::refusals::refusal;
use crate::store::SubscriptionName;

/// The longest name of a durable subscription, bytes. With the client's key it is one of the store's.
const LONGEST_NAME: usize = 180;

/// The name by which the store knows a client's subscription: each client has names of its own.
pub(super) fn name_of(owner: &[u8], name: &str) -> Result<SubscriptionName, Refusal> {
    let owner: String = owner.iter().map(|byte| format!("{byte:02x}")).collect();
    let is_name = (1..=LONGEST_NAME).contains(&name.len()) && !name.contains(char::is_control);
    if !is_name {
        let why = format_args!(
            "a durable subscription's name must have 1 to {LONGEST_NAME} bytes and no control characters"
        );
        return Err(Refusal::new(RefusalCode::Mistake, why));
    }
    SubscriptionName::new(&format!("{owner}/{name}")).map_err(|error| refusal(&error))
}

/// The name as its client knows it.
pub(super) fn name_in(name: &SubscriptionName) -> &str {
    name.as_str().split_once('/').map_or(name.as_str(), |(_, name)| name)
}
