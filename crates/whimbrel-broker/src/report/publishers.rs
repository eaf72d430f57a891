//! The report on the clients that publish.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The clients that publish: at most [`MOST_ROWS`](super::MOST_ROWS), those of whom most was refused first, then by rate.
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
    /// Messages that were accepted.
    pub accepted: u64,
    /// Messages a second that are accepted.
    pub accepted_per_s: f64,
    /// Messages that were refused.
    pub refused: u64,
}

/// Sums over clients that publish.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PublisherSums {
    /// How many there are.
    pub number: u64,
    /// Messages that were accepted.
    pub accepted: u64,
    /// Messages that were refused.
    pub refused: u64,
}
