//! The report on subscribers.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The subscribers of a broker: at most [`MOST_ROWS`](super::MOST_ROWS), the worst first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubscriberReports {
    /// The number of slow ones among all.
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
    /// Its kind: `nondurable`, `semi-durable` or `durable`.
    pub kind: String,
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
    /// The number of them that were recovered.
    pub recovered: u64,
    /// Messages that were overwritten before they could be delivered, at most.
    pub lost: u64,
    /// Messages that their own policies passed over.
    pub superseded: u64,
}
