//! The place of an attachment.

use std::sync::Arc;

use tokio::sync::Notify;

use super::super::core::Hub;
use super::super::signal::Signal;
use super::presence::Served;
use crate::store::SubscriptionName;

/// A place for the attachment of a subscription. Dropping it leaves it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) hub: Arc<Hub>,
    pub(super) name: SubscriptionName,
    number: u64,
    pub(super) signal: Arc<Signal>,
}

impl Place {
    /// Gives the place to an attachment, which wakes whoever waits for `notify`. A former one is superseded.
    pub(super) fn enter(
        hub: &Arc<Hub>,
        name: &SubscriptionName,
        served: Served,
        notify: Arc<Notify>,
    ) -> Self {
        let (number, signal) = hub.keeper.presences.enter(name, served, notify);
        Self { hub: Arc::clone(hub), name: name.clone(), number, signal }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let wall_ms = self.hub.clock.now().wall_ms;
        self.hub.keeper.presences.leave(&self.name, self.number, wall_ms);
    }
}
