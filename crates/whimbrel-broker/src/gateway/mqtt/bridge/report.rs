//! The report on a bridge, for those who run the broker.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::Time;

/// The longest reason that is shown, bytes.
const LONGEST_REASON: usize = 200;

/// The state of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BridgeReport {
    /// Its name.
    pub name: String,
    /// The other side.
    pub url: String,
    /// Whether there is a connection.
    pub connected: bool,
    /// For how long, seconds.
    pub connected_s: Option<f64>,
    /// The version of MQTT that is spoken, `5` or `3.1.1`.
    pub version: Option<String>,
    /// The number of connections made.
    pub connections: u64,
    /// Messages that were published here and that the bridge has yet to look at. Its rules may carry fewer.
    pub waiting: u64,
    /// Messages that went to the other side.
    pub sent: u64,
    /// Bytes of them, as packets. Those that were sent again count again.
    pub sent_bytes: u64,
    /// The number of them that are not acknowledged yet.
    pub in_flight: u64,
    /// Messages that came from it.
    pub received: u64,
    /// Bytes of them, as packets.
    pub received_bytes: u64,
    /// Messages that had been on the side to which they were to go, and were dropped.
    pub loops: u64,
    /// Messages that one of the sides did not take.
    pub refused: u64,
    /// Messages that were overwritten before they could be sent, at most.
    pub lost: u64,
    /// The last failure. `None` while there is a connection.
    pub trouble: Option<String>,
}

/// Counts what a bridge does.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) sent: Count,
    pub(super) sent_bytes: Count,
    pub(super) received: Count,
    pub(super) received_bytes: Count,
    pub(super) loops: Count,
    pub(super) refused: Count,
    pub(super) lost: Count,
    in_flight: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connections: u64,
    connected: Option<(Time, &'static str)>,
    trouble: Option<String>,
}

/// A number that grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, number: u64) {
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Figures {
    /// Sets the number of messages that wait to be acknowledged.
    pub(super) fn on_in_flight(&self, number: usize) {
        self.in_flight.store(number as u64, Ordering::Relaxed);
    }

    /// A connection was made.
    pub(super) fn on_connected(&self, version: &'static str, now: Time) {
        let mut state = self.state();
        state.connections += 1;
        (state.connected, state.trouble) = (Some((now, version)), None);
    }

    /// Records that the connection ended, or that none was made. Returns whether this reason is news.
    pub(super) fn on_trouble(&self, why: &str) -> bool {
        let why = &why[..why.floor_char_boundary(LONGEST_REASON)];
        let mut state = self.state();
        let was_connected = state.connected.take().is_some();
        let former = state.trouble.replace(why.to_owned());
        was_connected || former.as_deref() != Some(why)
    }

    /// The report, without what is waiting.
    pub(super) fn report(&self, name: &str, url: String, now: Time) -> BridgeReport {
        let State { connections, connected, trouble } = &*self.state();
        BridgeReport {
            name: name.to_owned(),
            url,
            connected: connected.is_some(),
            connected_s: connected.map(|(since, _)| now.since(since).as_secs_f64()),
            version: connected.map(|(_, version)| version.to_owned()),
            connections: *connections,
            waiting: 0,
            sent: self.sent.read(),
            sent_bytes: self.sent_bytes.read(),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            received: self.received.read(),
            received_bytes: self.received_bytes.read(),
            loops: self.loops.read(),
            refused: self.refused.read(),
            lost: self.lost.read(),
            trouble: trouble.clone(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
