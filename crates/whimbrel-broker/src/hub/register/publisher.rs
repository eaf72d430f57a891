//! A client that publishes, as others see it.

use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::count::{Count, Rate};
use crate::Time;

/// A client that publishes. Its own task counts, and whoever reports reads.
#[derive(Debug)]
pub struct PublisherRecord {
    client: Arc<Client>,
    since: Time,
    accepted: Count,
    refused: Count,
    pub(super) rate: Rate,
}

impl PublisherRecord {
    pub(super) fn new(client: Arc<Client>, since: Time) -> Self {
        let (accepted, refused, rate) = (Count::default(), Count::default(), Rate::default());
        Self { client, since, accepted, refused, rate }
    }

    pub(in crate::hub) fn on_published(&self, accepted: u64, refused: u64) {
        self.accepted.add(accepted);
        self.refused.add(refused);
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the time since it began to publish.
    pub fn age(&self, now: Time) -> Duration {
        now.since(self.since)
    }

    /// Messages that were accepted.
    pub fn accepted(&self) -> u64 {
        self.accepted.value()
    }

    /// Messages that were refused.
    pub fn refused(&self) -> u64 {
        self.refused.value()
    }

    /// Messages a second that were accepted.
    pub fn per_second(&self) -> f64 {
        self.rate.per_second()
    }
}
