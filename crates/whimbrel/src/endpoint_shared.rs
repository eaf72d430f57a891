//! The state that the handles of an endpoint, its connections and its receive loops share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::watch;
use whimbrel_net::UdpSocket;
use whimbrel_proto::{EndpointAnswer, EndpointEvent, Handle, Ticket, TicketStore};

use crate::agreements::Agreements;
use crate::clock::Clock;
use crate::company::Company;
use crate::config::Config;
use crate::key_log::KeyLog;
use crate::lock::lock;
use crate::networks::Networks;
use crate::shared::Shared;

/// An endpoint, shared by its handles, its connections and its receive loops.
pub(crate) struct EndpointShared {
    /// The sockets on the endpoint's address, at least one, each with a receive loop.
    sockets: Vec<Arc<UdpSocket>>,
    /// The datagrams received by each of them.
    received: Vec<AtomicU64>,
    pub(crate) networks: Networks,
    pub(crate) clock: Clock,
    pub(crate) key_log: Option<KeyLog>,
    pub(crate) tickets: Mutex<TicketStore>,
    pub(crate) proto: Mutex<whimbrel_proto::Endpoint>,
    pub(crate) agreements: Agreements,
    pub(crate) connections: Mutex<BTreeMap<Handle, Arc<Shared>>>,
    pub(crate) config: Config,
    pub(crate) company: Company,
    /// Whether the endpoint is being closed and refuses connections.
    pub(crate) refusing: AtomicBool,
    /// Changes when a connection is forgotten, and when the last [`Endpoint`](crate::Endpoint) is dropped.
    pub(crate) changed: watch::Sender<()>,
    closed: OnceLock<()>,
}

impl EndpointShared {
    /// Creates an endpoint on these sockets, of which there must be at least one.
    pub(crate) fn new(
        config: Config,
        proto: whimbrel_proto::Endpoint,
        sockets: Vec<Arc<UdpSocket>>,
        key_log: Option<KeyLog>,
    ) -> Self {
        Self {
            received: sockets.iter().map(|_| AtomicU64::new(0)).collect(),
            sockets,
            networks: Networks::default(),
            clock: Clock::new(),
            key_log,
            tickets: Mutex::new(TicketStore::default()),
            proto: Mutex::new(proto),
            agreements: Agreements::new(),
            connections: Mutex::new(BTreeMap::new()),
            config,
            company: Company::default(),
            refusing: AtomicBool::new(false),
            changed: watch::Sender::new(()),
            closed: OnceLock::new(),
        }
    }

    /// Returns the sockets on the endpoint's address.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &Arc<UdpSocket>> {
        self.sockets.iter()
    }

    /// Returns the endpoint's first socket.
    pub(crate) fn socket(&self) -> &UdpSocket {
        self.socket_at(0)
    }

    /// Returns the endpoint's socket of this number, of which there is at least one.
    pub(crate) fn socket_at(&self, number: usize) -> &UdpSocket {
        &self.sockets[number]
    }

    /// Counts datagrams received by the socket of this number.
    pub(crate) fn count_received(&self, number: usize, datagrams: u64) {
        self.received[number].fetch_add(datagrams, Ordering::Relaxed);
    }

    /// Returns how many datagrams each socket has received.
    pub(crate) fn received(&self) -> Vec<u64> {
        self.received.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub(crate) fn handle_event(&self, handle: Handle, event: EndpointEvent) -> Option<EndpointAnswer> {
        let answer = lock(&self.proto).handle_event(self.clock.now(), handle, event);
        if event == EndpointEvent::Drained {
            self.forget(handle);
        }
        answer
    }

    /// Keeps a ticket for the next connection to its server.
    pub(crate) fn keep_ticket(&self, ticket: Ticket) {
        lock(&self.tickets).insert(ticket);
    }

    pub(crate) fn forget(&self, handle: Handle) {
        lock(&self.proto).forget(handle);
        lock(&self.connections).remove(&handle);
        self.changed.send_replace(());
    }

    /// Returns all connections.
    pub(crate) fn all(&self) -> Vec<Arc<Shared>> {
        lock(&self.connections).values().cloned().collect()
    }

    pub(crate) fn find(&self, handle: Handle) -> Option<Arc<Shared>> {
        lock(&self.connections).get(&handle).cloned()
    }

    /// Notes that the last [`Endpoint`](crate::Endpoint) was dropped.
    pub(crate) fn close(&self) {
        self.closed.get_or_init(|| ());
        self.changed.send_replace(());
    }

    pub(crate) fn is_over(&self) -> bool {
        self.closed.get().is_some() && lock(&self.connections).is_empty()
    }
}
