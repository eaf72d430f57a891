//! The report on the link with another broker.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Whether two brokers are linked, and if not, what comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LinkState {
    /// There is a session.
    Linked,
    /// There is no link, and the other broker is being dialled.
    Dialling,
    /// There is no link, and the next attempt is due later.
    Waiting,
    /// There is no link, and the other broker must dial, since this one has no URL for it.
    Awaited,
    /// Over NATS: the other broker has not been heard of for a while.
    Silent,
    /// Another version says something that this one does not know.
    #[default]
    #[serde(other)]
    Unknown,
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
    /// Whether there is one, and if not, what comes next.
    pub state: LinkState,
    /// For how long there has been a session, seconds.
    pub linked_s: Option<f64>,
    /// For how long there has been none, seconds: since the last one, or since this broker started.
    pub away_s: Option<f64>,
    /// The time until this broker dials again, seconds. None while it does, and while there is a session.
    pub next_attempt_s: Option<f64>,
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
    /// Why the last session ended, or the last attempt failed, as a sentence. While there is a session: why not all is taken that comes in it.
    pub trouble: Option<String>,
}
