//! The report on the link with another broker.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

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
