//! The report on a channel and its partitions.

use serde::{Deserialize, Serialize};

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
    /// The number of times the messages of a broker's run were given up, since there were too many runs.
    pub runs_given_up: u64,
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
    /// The age of the oldest message, seconds. None if the channel is empty, or if it is far behind those of other partitions.
    pub oldest_s: Option<f64>,
}
