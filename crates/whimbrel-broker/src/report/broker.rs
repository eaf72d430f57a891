//! The report on a whole broker.

use serde::{Deserialize, Serialize};

use super::channel::ChannelReport;
use super::publishers::PublisherReports;
use super::subscribers::SubscriberReports;
use crate::backbone::LinkReport;

/// The state of a broker at one moment. Rates are averages over about 5 seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerReport {
    /// Its human-readable name.
    pub name: String,
    /// Its cluster.
    pub cluster: String,
    /// The number of subscriptions.
    pub subscriptions: u64,
    /// The number of brokers that it is linked with.
    pub linked: u64,
    /// Its channels.
    pub channels: Vec<ChannelReport>,
    /// The other brokers of its configuration.
    pub brokers: Vec<LinkReport>,
    /// Its subscribers.
    pub subscribers: SubscriberReports,
    /// The clients that publish.
    pub publishers: PublisherReports,
}
