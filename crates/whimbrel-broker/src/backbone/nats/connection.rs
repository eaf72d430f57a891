//! The state of the connection with NATS.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_nats::{Event, ServerError};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

/// The longest text of a server that is shown, bytes.
const LONGEST_TEXT: usize = 200;

/// The state of the connection with NATS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NatsReport {
    /// Whether there is a connection.
    pub connected: bool,
    /// The name of the server.
    pub server: Option<String>,
    /// The subjects that the brokers of the cluster use.
    pub subjects: String,
    /// The number of connections made.
    pub connections: u64,
    /// Messages that were published here and went to the servers.
    pub published: u64,
    /// Messages of other brokers that came.
    pub received: u64,
    /// Bytes that went to the servers, without the overhead of the protocol.
    pub sent_bytes: u64,
    /// Bytes that came from them.
    pub received_bytes: u64,
    /// Messages that were published here and have yet to go to the servers.
    pub behind: u64,
    /// Messages that came faster than they could be taken, and were asked for again.
    pub overrun: u64,
    /// Messages that no broker of the cluster sends.
    pub refused: u64,
    /// The brokers that are refused, and why.
    pub refused_brokers: Vec<String>,
    /// The last failure. `None` while there is a connection.
    pub trouble: Option<String>,
}

/// The connection, as its events tell.
#[derive(Debug, Default)]
pub(super) struct Connection {
    state: Mutex<State>,
    changed: Notify,
    received: AtomicU64,
    overrun: AtomicU64,
    refused: AtomicU64,
}

const NOT_LET_IN: &str = "NATS refuses this broker's credentials: check them under [backbone.nats]";

#[derive(Debug, Default)]
struct State {
    connections: u64,
    trouble: Option<String>,
}

impl Connection {
    /// Takes an event. Returns what people should be told of it.
    pub(super) fn on_event(&self, event: &Event) -> Option<String> {
        let told = match event {
            Event::Connected => {
                let mut state = self.state();
                state.connections += 1;
                state.trouble = None;
                Some("connected with NATS".to_owned())
            }
            Event::Disconnected => Some(
                "the connection to NATS is lost; this broker continues alone and keeps trying".to_owned(),
            ),
            Event::SlowConsumer(_) => {
                self.overrun.fetch_add(1, Ordering::Relaxed);
                None
            }
            Event::ServerError(ServerError::AuthorizationViolation) => self.trouble(NOT_LET_IN),
            Event::ServerError(error) => self.trouble(&format!("NATS: {error}")),
            // So it is said while the first connection is made.
            Event::ClientError(error) if error.to_string().contains("authorization violation") => {
                self.trouble(NOT_LET_IN)
            }
            Event::ClientError(error) => self.trouble(&format!("no connection to NATS: {error}")),
            _ => None,
        };
        self.changed.notify_waiters();
        told
    }

    /// Waits for an event.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Counts messages of other brokers that came.
    pub(super) fn on_received(&self, messages: u64) {
        self.received.fetch_add(messages, Ordering::Relaxed);
    }

    /// A message came that is none of a broker.
    pub(super) fn on_malformed(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Something of a broker could not be used.
    pub(super) fn on_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The report, without what the client and the buffer know.
    pub(super) fn report(
        &self,
        subjects: String,
        server: Option<String>,
        refused_brokers: Vec<String>,
    ) -> NatsReport {
        let State { connections, trouble } = &*self.state();
        NatsReport {
            connected: server.is_some(),
            server,
            subjects,
            connections: *connections,
            received: self.received.load(Ordering::Relaxed),
            overrun: self.overrun.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            refused_brokers,
            trouble: trouble.clone(),
            ..NatsReport::default()
        }
    }

    /// Keeps what went wrong. Returns it if it is news.
    fn trouble(&self, why: &str) -> Option<String> {
        let why = &why[..why.floor_char_boundary(LONGEST_TEXT)];
        let former = self.state().trouble.replace(why.to_owned());
        (former.as_deref() != Some(why)).then(|| why.to_owned())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_told_once_and_ends_with_the_connection() {
        let connection = Connection::default();
        let denied = Event::ServerError(ServerError::AuthorizationViolation);
        assert!(connection.on_event(&denied).unwrap().contains("[backbone.nats]"));
        assert_eq!(connection.on_event(&denied), None);
        assert!(connection.report(String::new(), None, Vec::new()).trouble.is_some());
        assert!(connection.on_event(&Event::Connected).is_some());
        assert_eq!(connection.report(String::new(), None, Vec::new()).trouble, None);
    }
}
