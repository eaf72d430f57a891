//! The end of a durable subscription.

use std::sync::Arc;

use whimbrel_pubsub::frame::Refusal;

use super::super::core::Hub;
use super::super::logging::Durability;
use super::names::name_of;
use super::refusals::{refusal, unavailable};
use crate::locking::lock;
use crate::store::{LONGEST_MEMORY, SubscriptionName};

impl Hub {
    /// Ends a durable subscription of a client. It is on disk when this returns, and other brokers hear of it. Returns whether there was one.
    ///
    /// # Errors
    /// The name is invalid, the disk fails, or too few other brokers are linked to know whether the subscription exists.
    pub async fn end_durable(self: &Arc<Self>, owner: &[u8], name: &str) -> Result<bool, Refusal> {
        let name_here = name_of(owner, name)?;
        let rooms: Vec<_> = self.rooms.iter().filter(|room| room.durability() != Durability::Never).collect();
        if !self.wait_for_word_of(&name_here, &rooms).await {
            return Err(self.not_known(name, &rooms));
        }
        let hub = Arc::clone(self);
        self.errands.run(owner, move || hub.end(&name_here)).await?
    }

    fn end(&self, name: &SubscriptionName) -> Result<bool, Refusal> {
        let _one = lock(&self.keeper.changing);
        let is_there = self.keeper.opened().is_some() || self.has_store_folder();
        if !is_there {
            return Ok(false);
        }
        let store = self.keeper.store().map_err(unavailable)?;
        let ends_ms = self.clock.now().wall_ms.saturating_add(LONGEST_MEMORY.as_millis() as u64);
        let was_there = store.meta().unsubscribe(name, ends_ms).map_err(|error| refusal(&error))?;
        self.keeper.forget(name);
        self.sharers.tell(name, None);
        Ok(was_there)
    }

    pub(super) fn has_store_folder(&self) -> bool {
        self.keeper.place.folder.as_ref().is_ok_and(|folder| folder.join("meta.redb").exists())
    }
}
