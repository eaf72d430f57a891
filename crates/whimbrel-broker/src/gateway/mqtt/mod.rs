//! Clients of MQTT 3.1.1 and 5.
//!
//! Each connection is one task. It reads from its subscriptions' [`Attachment`](crate::hub::Attachment)s when its socket has room, so that
//! nothing is queued for a client but what it has not acknowledged.

mod acknowledged;
mod admission;
mod answers;
mod away;
mod bridge;
mod clients;
mod codec;
mod core;
mod door;
mod durable;
mod entrance;
mod exactly_once;
mod handshake;
mod in_flight;
mod incoming;
mod kept;
mod limits;
mod link;
mod message;
mod notes;
mod options;
mod outgoing;
mod parked;
mod passwords;
mod plain;
mod ranking;
mod recalling;
mod session;
mod shared;
mod state;
mod stored;
mod subscribing;
mod subscription;
mod subscriptions;
mod tls;
mod websocket;
mod wills;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

pub use self::core::Gateway;
pub use admission::{Admission, Rules, User};
pub use bridge::{BridgePlan, BridgeReport, BridgeReports, BridgeRule, BridgeVersion, Bridges};
pub use door::Door;
pub use entrance::Connections;
pub use limits::Limits;
pub use passwords::{NoHash, Password};
pub use tls::{Tls, TlsError, TlsFiles};
pub use websocket::WebSocket;

use crate::hub::{Hub, KeptSession};
use clients::Place;
use entrance::Entrance;
use kept::Kept;
use wills::{Counts, Wills};

/// How often Wills and sessions are looked after.
const TICK: Duration = Duration::from_millis(250);
/// A pause after the system refused a connection, as when it has no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);
/// How long clients may take to be told that the broker stops, and then Wills to be published.
const FAREWELL: Duration = Duration::from_secs(2);

impl Gateway {
    /// A service that lets in whom `admission` does. `tell` tells people what they should know.
    pub fn new(
        hub: Arc<Hub>,
        admission: Arc<Admission>,
        limits: Limits,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let entrance = Entrance::new(limits);
        let wills = Wills::new(Arc::clone(&hub), Box::new(tell));
        Arc::new(Self { hub, admission, limits, clients: Arc::default(), entrance, wills })
    }

    /// The connections as they are counted.
    pub fn connections(&self) -> Connections {
        let Counts { waiting, refused } = self.wills.counts();
        Connections { wills_waiting: waiting, wills_refused: refused, ..self.entrance.report() }
    }

    /// Takes up the sessions that were kept on disk. Call it before clients come.
    ///
    /// # Errors
    /// They cannot be read, or this version does not know them.
    pub async fn open(&self) -> Result<(), String> {
        let hub = Arc::clone(&self.hub);
        let found = tokio::task::spawn_blocking(move || hub.kept_sessions()).await;
        let now = Instant::now();
        for KeptSession { name, left, state, received, outbound, .. } in
            found.map_err(|error| error.to_string())??
        {
            let unknown = || {
                format!(
                    "the session of the MQTT client `{name}` was kept by a newer version of the broker: start that one"
                )
            };
            let lines = stored::decode(&state).ok_or_else(unknown)?;
            let kept = Kept::of(lines, received, outbound);
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
        let mut ending = JoinSet::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let now = Instant::now();
                    self.entrance.tick(now);
                    for (user, will) in self.clients.tick(now) {
                        self.publish_will(user, will);
                    }
                    self.wills.tick();
                    if ending.is_empty() && let Some(place) = self.clients.take_over() {
                        ending.spawn(Arc::clone(&self).end_sessions(place));
                    }
                }
                Some(_) = ending.join_next() => {}
                _ = stop.changed() => break,
            }
        }
        while open.join_next().await.is_some() {}
        self.wills.stop(FAREWELL, self.clients.take_wills()).await;
    }

    /// Ends sessions on disk that are over, this one first.
    async fn end_sessions(self: Arc<Self>, first: Place) {
        let mut next = Some(first);
        while let Some(place) = next {
            if session::end_on_disk(&self.hub, place.session()).await.is_err() {
                return place.try_again();
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

#[cfg(test)]
mod tests {
    use super::door::Wire;
    use super::{handshake, session};

    fn of_future<A, B, C, D, E, R>(_: impl Fn(A, B, C, D, E) -> R) -> usize {
        size_of::<R>()
    }

    #[test]
    fn the_task_of_a_client_that_is_idle_is_small() {
        let sizes = (of_future(handshake::run), size_of::<session::Session<Box<dyn Wire>>>());
        assert!(sizes.0 <= 2_720 && sizes.1 <= 1_600, "a task and its session, bytes: {sizes:?}");
    }
}
