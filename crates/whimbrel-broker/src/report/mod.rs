//! The report of a broker: its channels, the brokers that it is linked with, and its clients.
//!
//! The control socket, the dashboard and `whimbrel top` show the same [`BrokerReport`]. A [`Reporter`] makes it. Rows of clients are bounded:
//! those in trouble come first, and the rest is summed.

mod metrics;
mod reporter;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

pub use reporter::Reporter;

/// The most rows of one kind of clients.
pub const MOST_ROWS: usize = 100;

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

/// The state of a channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelReport {
    /// Its name.
    pub name: String,
    /// Messages that have arrived, from publishers and other brokers.
    pub arrived: u64,
    /// Messages a second that arrive.
    pub arrived_per_s: f64,
    /// Messages that were delivered to subscribers.
    pub delivered: u64,
    /// Messages a second that are delivered.
    pub delivered_per_s: f64,
    /// Topics with a last value.
    pub retained: u64,
    /// Messages that other brokers have, and that have not come here.
    pub missing: u64,
    /// The partitions of its buffer.
    pub partitions: Vec<PartitionReport>,
}

/// The state of a partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartitionReport {
    /// Messages that are held.
    pub messages: u64,
    /// Their bytes, encoded.
    pub bytes: u64,
    /// Messages for which there is room at the present rate.
    pub room: u64,
    /// Messages that were overwritten.
    pub overwritten: u64,
    /// The age of the oldest message, seconds. None if there is none, or if it is far behind those of other partitions.
    pub oldest_s: Option<f64>,
}

/// The state of the link with another broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkReport {
    /// The first letters of its key.
    pub name: String,
    /// Its key.
    pub key: String,
    /// Whether there is a session with it.
    pub linked: bool,
    /// For how long, seconds.
    pub linked_s: Option<f64>,
    /// Its address.
    pub address: Option<SocketAddr>,
    /// Paths of the session.
    pub paths: u64,
    /// Those that work.
    pub working_paths: u64,
    /// The shortest round-trip time of a working path, milliseconds.
    pub rtt_ms: Option<f64>,
    /// Messages that were published here and went to it.
    pub sent: u64,
    /// Messages that came from it.
    pub received: u64,
    /// Messages a second that go to it.
    pub sent_per_s: f64,
    /// Messages a second that come from it.
    pub received_per_s: f64,
    /// Messages that were published here and have yet to go to it. None without a session.
    pub behind: Option<u64>,
    /// Why this broker ended the last session. None while there is one.
    pub trouble: Option<String>,
}

/// The subscribers of a broker: at most [`MOST_ROWS`], the worst first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscriberReports {
    /// How many of all are slow.
    pub slow: u64,
    /// The rows: the slow ones first, then by lag and losses.
    pub list: Vec<SubscriberReport>,
    /// The sums over all others.
    pub rest: SubscriberSums,
}

/// The state of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscriberReport {
    /// The client's key, or its user and client identifier.
    pub client: String,
    /// The client's address.
    pub address: Option<SocketAddr>,
    /// The filter.
    pub filter: String,
    /// The selector, if there is one.
    pub selector: Option<String>,
    /// The promise: `nondurable`, `semi-durable` or `durable`.
    pub promise: String,
    /// Seconds since it came.
    pub since_s: f64,
    /// Whether it is slow.
    pub slow: bool,
    /// For how long it has been slow, seconds.
    pub slow_s: Option<f64>,
    /// Whether it still reads what was published before it came.
    pub recovering: bool,
    /// Messages of its channels that it has yet to look at. Some may not match.
    pub lag: u64,
    /// Messages that were delivered.
    pub delivered: u64,
    /// Messages a second that are delivered.
    pub delivered_per_s: f64,
    /// Those delivered that were published before it came.
    pub recovered: u64,
    /// Messages that were overwritten before they could be delivered, at most.
    pub lost: u64,
    /// Messages that its own policy passed over.
    pub superseded: u64,
}

/// Sums over subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscriberSums {
    /// How many there are.
    pub number: u64,
    /// Messages that they have yet to look at.
    pub lag: u64,
    /// Messages that were delivered.
    pub delivered: u64,
    /// Those of them that were recovered.
    pub recovered: u64,
    /// Messages that were overwritten before they could be delivered, at most.
    pub lost: u64,
    /// Messages that their own policies passed over.
    pub superseded: u64,
}

/// The clients that publish: at most [`MOST_ROWS`], those of whom most was refused first, then by rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PublisherReports {
    /// How many there are.
    pub number: u64,
    /// The rows.
    pub list: Vec<PublisherReport>,
    /// The sums over all others.
    pub rest: PublisherSums,
}

/// The state of a client that publishes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PublisherReport {
    /// The client's key, or its user and client identifier.
    pub client: String,
    /// Its address.
    pub address: Option<SocketAddr>,
    /// Seconds since its first message.
    pub since_s: f64,
    /// Messages that were taken.
    pub taken: u64,
    /// Messages a second that are taken.
    pub taken_per_s: f64,
    /// Messages that were refused.
    pub refused: u64,
}

/// Sums over clients that publish.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PublisherSums {
    /// How many there are.
    pub number: u64,
    /// Messages that were taken.
    pub taken: u64,
    /// Messages that were refused.
    pub refused: u64,
}
