//! Sums over subscriptions and publishers.

use super::publisher::PublisherRecord;
use super::subscriber::SubscriberRecord;

/// Sums over all subscriptions and publishers, those that have left included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Subscriptions that are attached now.
    pub subscriptions: u64,
    /// Those of them that are slow.
    pub slow: u64,
    /// Clients that publish now.
    pub publishers: u64,
    /// Messages that were delivered.
    pub delivered: u64,
    /// Those of them that were recovered.
    pub recovered: u64,
    /// Messages that were gone before they could be delivered, at most.
    pub lost: u64,
    /// Messages that subscriptions' own policies passed over.
    pub superseded: u64,
    /// Messages of publishers that were accepted.
    pub accepted: u64,
    /// Messages that were refused.
    pub refused: u64,
}

impl Sums {
    pub(super) fn add_subscriber(&mut self, record: &SubscriberRecord) {
        self.delivered += record.delivered();
        self.recovered += record.recovered();
        self.lost = self.lost.saturating_add(record.lost());
        self.superseded += record.superseded();
    }

    pub(super) fn add_publisher(&mut self, record: &PublisherRecord) {
        self.accepted += record.accepted();
        self.refused += record.refused();
    }
}
