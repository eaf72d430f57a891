//! Clients of MQTT 3.1.1 and 5.
//!
//! Each connection is one task. It reads from its subscriptions' [`Attachment`](crate::hub::Attachment)s when its socket has room, so that
//! nothing is queued for a client but what it has not acknowledged.

mod admission;
mod clients;
mod codec;
mod handshake;
mod incoming;
mod kept;
mod link;
mod message;
mod outgoing;
mod passwords;
mod session;
mod state;
mod subscription;
mod subscriptions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

pub use admission::{Admission, Rules, User};
pub use passwords::{NoHash, Password};

use crate::hub::{Finding, Hub};
use clients::Clients;

/// Limits on clients of MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest packet of a client, bytes. Default: 1 MiB.
    pub max_packet: usize,
    /// Connections at a time. Default: 10,000.
    pub max_connections: usize,
    /// Subscriptions of one client. Default: 1,000.
    pub max_subscriptions: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_packet: 1 << 20, max_connections: 10_000, max_subscriptions: 1_000 }
    }
}

/// The state that all connections share.
#[derive(Debug)]
struct Gateway {
    hub: Arc<Hub>,
    admission: Arc<Admission>,
    limits: Limits,
    clients: Arc<Clients>,
}

/// How often Wills and sessions are looked after.
const TICK: Duration = Duration::from_millis(250);
/// A pause after the system refused a connection, as when it has no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);
/// How long clients may take to be told that the broker stops.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves the clients that connect to `listener`, until `stop` changes or its sender is dropped. Clients are told that the broker stops.
pub async fn serve(
    hub: Arc<Hub>,
    listener: TcpListener,
    admission: Arc<Admission>,
    limits: Limits,
    mut stop: watch::Receiver<()>,
) {
    let gateway = Arc::new(Gateway { hub, admission, limits, clients: Arc::default() });
    let places = Arc::new(Semaphore::new(limits.max_connections));
    let mut connections = JoinSet::new();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut finding = Finding::default();
    let stopping = stop.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match (accepted, Arc::clone(&places).try_acquire_owned()) {
                (Ok((stream, from)), Ok(place)) => {
                    let (gateway, stopping) = (Arc::clone(&gateway), stopping.clone());
                    connections.spawn(async move {
                        connect(gateway, stream, from, stopping).await;
                        drop(place);
                    });
                }
                // Nothing can be said before the client has.
                (Ok(_), Err(_)) => {}
                (Err(_), _) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
            _ = ticks.tick() => {
                for will in gateway.clients.tick(Instant::now()) {
                    // Nobody is there to be told.
                    drop(gateway.hub.publish(will, &mut finding));
                }
            }
            _ = stop.changed() => break,
        }
    }
    let farewell = async { while connections.join_next().await.is_some() {} };
    drop(tokio::time::timeout(FAREWELL, farewell).await);
}

async fn connect(gateway: Arc<Gateway>, stream: TcpStream, from: SocketAddr, stop: watch::Receiver<()>) {
    // Small answers would wait for others otherwise.
    drop(stream.set_nodelay(true));
    handshake::run(gateway, (stream, from), stop).await;
}
