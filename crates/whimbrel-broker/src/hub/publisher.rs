//! A client that publishes, which is entered in the register with its first message.

use std::sync::Arc;

use super::core::Hub;
use super::register::{Client, PublisherRecord};

/// A client that publishes, entered in the register with its first message. Dropping it takes it out.
#[derive(Debug)]
pub struct Publishing {
    hub: Arc<Hub>,
    client: Arc<Client>,
    entered: Option<(u64, Arc<PublisherRecord>)>,
}

impl Publishing {
    /// A client that may publish.
    pub fn new(hub: Arc<Hub>, client: Arc<Client>) -> Self {
        Self { hub, client, entered: None }
    }

    /// Counts messages of the publisher that were accepted and refused.
    pub fn on_published(&mut self, accepted: u64, refused: u64) {
        if accepted + refused == 0 {
            return;
        }
        let (hub, client) = (&self.hub, &self.client);
        let enter = || hub.register().publish(Arc::clone(client), hub.clock().time());
        self.entered.get_or_insert_with(enter).1.on_published(accepted, refused);
    }
}

impl Drop for Publishing {
    fn drop(&mut self) {
        if let Some((number, _)) = self.entered {
            self.hub.register().leave(number);
        }
    }
}
