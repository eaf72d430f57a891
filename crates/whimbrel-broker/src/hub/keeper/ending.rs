//! The end of a durable subscription.

use std::time::Duration;

use whimbrel_pubsub::frame::Refusal;

use super::super::Hub;
use super::{Presence, name_of, refusal, unavailable};

/// How long it is remembered that a subscription was ended (30 days).
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3_600);

impl Hub {
    /// Ends a durable subscription of a client. It is on disk when this returns. Returns whether there was one.
    ///
    /// # Errors
    /// The name is none, or the disk fails.
    pub fn end_durable(&self, owner: &[u8], name: &str) -> Result<bool, Refusal> {
        let name = name_of(owner, name)?;
        let _one = super::lock(&self.keeper.changing);
        let is_there = self.keeper.opened().is_some() || self.has_store_folder();
        if !is_there {
            return Ok(false);
        }
        let store = self.keeper.store().map_err(unavailable)?;
        let ends_ms = self.clock.now().wall_ms.saturating_add(REMEMBERED.as_millis() as u64);
        let was_there = store.meta().unsubscribe(&name, ends_ms).map_err(|error| refusal(&error))?;
        if let Some(Presence::Attached { signal, .. }) = self.keeper.presence().remove(&name) {
            signal.supersede();
        }
        Ok(was_there)
    }

    fn has_store_folder(&self) -> bool {
        self.keeper.place.folder.as_ref().is_ok_and(|folder| folder.join("meta.redb").exists())
    }
}
