//! Clients of MQTT 3.1.1 and 5.
//!
//! Each connection is one task. It reads from its subscriptions' [`Attachment`](crate::hub::Attachment)s when its socket has room, so that
//! nothing is queued for a client but what it has not acknowledged.

mod acknowledged;
mod admission;
mod answers;
mod clients;
mod codec;
mod door;
mod durable;
mod entrance;
mod exactly_once;
mod handshake;
mod incoming;
mod kept;
mod link;
mod message;
mod options;
mod outgoing;
mod parked;
mod passwords;
mod plain;
mod session;
mod shared;
mod state;
mod stored;
mod subscribing;
mod subscription;
mod subscriptions;
mod tls;
mod websocket;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

pub use admission::{Admission, Rules, User};
pub use door::Door;
pub use entrance::Connections;
pub use passwords::{NoHash, Password};
pub use tls::{Tls, TlsError, TlsFiles};
pub use websocket::WebSocket;

use crate::hub::{Finding, Hub, KeptSession};
use clients::{Clients, Place};
use entrance::Entrance;
use kept::Kept;

/// Limits on clients of MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest packet of a client, bytes. Default: 1 MiB.
    pub max_packet: usize,
    /// Connections at a time. Default: 10,000.
    pub max_connections: usize,
    /// Connections at a time from one IPv4 address or 64 bits of IPv6. Default: 5,000.
    pub max_connections_per_address: usize,
    /// Attempts to connect a second from one IPv4 address or 64 bits of IPv6. Those of two seconds may come together. Default: 1,000.
    pub max_attempts_per_address: u32,
    /// Subscriptions of one client. Default: 1,000.
    pub max_subscriptions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_packet: 1 << 20,
            max_connections: 10_000,
            max_connections_per_address: 5_000,
            max_attempts_per_address: 1_000,
            max_subscriptions: 1_000,
        }
    }
}

/// The service for clients of MQTT: the state that all connections share.
#[derive(Debug)]
pub struct Gateway {
    hub: Arc<Hub>,
    admission: Arc<Admission>,
    limits: Limits,
    clients: Arc<Clients>,
    entrance: Arc<Entrance>,
}

/// How often Wills and sessions are looked after.
const TICK: Duration = Duration::from_millis(250);
/// A pause after the system refused a connection, as when it has no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);
/// How long clients may take to be told that the broker stops.
const FAREWELL: Duration = Duration::from_secs(2);

impl Gateway {
    /// A service that lets in whom `admission` does.
    pub fn new(hub: Arc<Hub>, admission: Arc<Admission>, limits: Limits) -> Arc<Self> {
        let entrance = Entrance::new(limits);
        Arc::new(Self { hub, admission, limits, clients: Arc::default(), entrance })
    }

    /// The connections as they are counted.
    pub fn connections(&self) -> Connections {
        self.entrance.report()
    }

    /// Takes up the sessions that were kept on disk. Call it before clients come.
    ///
    /// # Errors
    /// They cannot be read, or this version does not know them.
    pub async fn open(&self) -> Result<(), String> {
        let hub = Arc::clone(&self.hub);
        let found = tokio::task::spawn_blocking(move || hub.kept_sessions()).await;
        let now = Instant::now();
        for KeptSession { name, left, state, received, .. } in found.map_err(|error| error.to_string())?? {
            let unknown = || {
                format!(
                    "the session of the MQTT client `{name}` was kept by a newer version of the broker: start that one"
                )
            };
            let lines = stored::decode(&state).ok_or_else(unknown)?;
            let kept = Kept::of(lines, received);
            self.clients.restore((name.user, name.client), kept, now + left);
        }
        Ok(())
    }

    /// Serves the clients that come in by `doors`, until `stop` changes or its sender is dropped. Clients are told that the broker stops.
    pub async fn serve(self: Arc<Self>, doors: Vec<Door>, mut stop: watch::Receiver<()>) {
        let mut open = JoinSet::new();
        for door in doors {
            open.spawn(Arc::clone(&self).serve_door(Arc::new(door), stop.clone()));
        }
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut finding, mut ending) = (Finding::default(), JoinSet::new());
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let now = Instant::now();
                    self.entrance.tick(now);
                    for will in self.clients.tick(now) {
                        // Nobody is there to be told.
                        drop(self.hub.publish(will, &mut finding));
                    }
                    if ending.is_empty() && let Some(place) = self.clients.take_over() {
                        ending.spawn(Arc::clone(&self).end_sessions(place));
                    }
                }
                Some(_) = ending.join_next() => {}
                _ = stop.changed() => break,
            }
        }
        while open.join_next().await.is_some() {}
    }

    /// Ends sessions on disk that are over, this one first.
    async fn end_sessions(self: Arc<Self>, first: Place) {
        let mut next = Some(first);
        while let Some(place) = next {
            if session::end_on_disk(&self.hub, place.session()).await.is_err() {
                return place.is_not_over();
            }
            drop(place);
            next = self.clients.take_over();
        }
    }

    async fn serve_door(self: Arc<Self>, door: Arc<Door>, mut stop: watch::Receiver<()>) {
        let mut connections = JoinSet::new();
        let stopping = stop.clone();
        loop {
            tokio::select! {
                accepted = door.accept() => match accepted {
                    // Nothing can be said before the client has.
                    Ok((stream, from)) => if let Some(guest) = self.entrance.enter(from.ip(), Instant::now()) {
                        let (gateway, door) = (Arc::clone(&self), Arc::clone(&door));
                        connections.spawn(handshake::run(gateway, door, (stream, from), guest, stopping.clone()));
                    },
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
                _ = stop.changed() => break,
            }
        }
        let farewell = async { while connections.join_next().await.is_some() {} };
        drop(tokio::time::timeout(FAREWELL, farewell).await);
    }
}
