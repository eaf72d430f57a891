//! A client and a server with one connection between them, which most tests use.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::{Message, Outgoing, SendError, Session, SessionEvent};
use whimbrel_proto::{
    CloseReason, Connection, ConnectionStats, Event, Handle, ListenConfig, MessageId, Service, StreamId,
    Time, TransportConfig,
};

use crate::world::{SERVER, World};
use whimbrel_link::LinkConfig;

/// One end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The end that connected.
    Client,
    /// The end that accepted.
    Server,
}

impl End {
    /// Both ends.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The other end.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A client and a server; see the module documentation.
pub struct Pair {
    /// The world in which they live.
    pub world: World,
    /// The client's node.
    pub client: usize,
    client_handle: Handle,
    server_handle: Option<Handle>,
}

impl Pair {
    /// Creates a client that has begun to connect. Both sides have the same settings, and both directions of the link
    /// are alike.
    pub fn new(seed: u64, transport: TransportConfig, link: &str) -> Self {
        let link: LinkConfig = link.parse().expect("a test's link is well written");
        let world = World::new(seed, transport.clone(), ListenConfig::default());
        Self::join(world, transport, link.clone(), link)
    }

    /// Adds a client to a world; it has begun to connect.
    pub fn join(mut world: World, transport: TransportConfig, up: LinkConfig, down: LinkConfig) -> Self {
        let client = world.add_client(transport, up, down);
        let client_handle = world.connect(client);
        Self { world, client, client_handle, server_handle: None }
    }

    /// Works like [`Pair::new`], and waits until both ends know that they are connected.
    pub fn connected(seed: u64, transport: TransportConfig, link: &str) -> Self {
        let mut pair = Self::new(seed, transport, link);
        assert!(pair.settle(Duration::from_secs(30)), "no connection over {link}, seed {seed}");
        pair
    }

    /// The connection's handle at an end. Panics if the connection is gone.
    pub fn handle(&mut self, end: End) -> Handle {
        self.place(end).expect("the connection is there").1
    }

    /// Runs until both ends are connected. Returns false if that took longer than `limit`.
    pub fn settle(&mut self, limit: Duration) -> bool {
        self.run_until(limit, |pair| {
            End::BOTH.iter().all(|end| pair.events(*end).contains(&Event::Connected))
        })
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// The node of an end.
    pub fn node(&self, end: End) -> usize {
        match end {
            End::Client => self.client,
            End::Server => SERVER,
        }
    }

    /// An end's node and the connection's handle there. `None` if the server does not know the connection.
    pub fn place(&mut self, end: End) -> Option<(usize, Handle)> {
        match end {
            End::Client => Some((self.client, self.client_handle)),
            End::Server => {
                // A client without an answer begins another connection, so the latest counts.
                while let Some(handle) = self.world.accept() {
                    self.server_handle = Some(handle);
                }
                self.server_handle.map(|handle| (SERVER, handle))
            }
        }
    }

    /// Sets the handle of an end that continues under another one, on the same node.
    pub fn adopt(&mut self, end: End, handle: Handle) {
        match end {
            End::Client => self.client_handle = handle,
            End::Server => self.server_handle = Some(handle),
        }
    }

    /// An end's connection, if it exists.
    pub fn try_connection(&mut self, end: End) -> Option<&mut Connection> {
        let (node, handle) = self.place(end)?;
        self.world.try_peer(node, handle).map(|peer| &mut peer.connection)
    }

    /// An end's connection. Panics if it is gone.
    pub fn connection(&mut self, end: End) -> &mut Connection {
        self.try_connection(end).expect("the connection is there")
    }

    /// An end's session.
    pub fn session(&mut self, end: End) -> &mut Session {
        self.connection(end).session()
    }

    /// An end's statistics.
    pub fn stats(&mut self, end: End) -> ConnectionStats {
        let now = self.now();
        self.connection(end).stats(now)
    }

    /// All events of an end's connection.
    pub fn events(&mut self, end: End) -> Vec<Event> {
        self.heard(end).iter().map(|(_, event)| event.clone()).collect()
    }

    /// All events of an end's connection, with their times.
    pub fn timed_events(&mut self, end: End) -> Vec<(Time, Event)> {
        self.heard(end).to_vec()
    }

    /// All events of an end's connection, with their times, by reference.
    pub fn heard(&mut self, end: End) -> &[(Time, Event)] {
        let Some((node, handle)) = self.place(end) else { return &[] };
        self.world.events(node, handle)
    }

    /// Why an end's connection is closed, if it is.
    pub fn closed(&mut self, end: End) -> Option<CloseReason> {
        self.heard(end).iter().find_map(|(_, event)| match event {
            Event::Closed(why) => Some(why.clone()),
            _ => None,
        })
    }

    /// Returns whether both ends are closed.
    pub fn both_closed(&mut self) -> bool {
        End::BOTH.iter().all(|end| self.closed(*end).is_some())
    }

    /// Sends a message on stream 0.
    pub fn send(&mut self, from: End, service: Service, payload: impl Into<Bytes>) -> MessageId {
        self.try_send(from, Outgoing::new(StreamId(0), service, payload.into())).expect("there is room")
    }

    /// Sends a message.
    pub fn try_send(&mut self, from: End, message: Outgoing) -> Result<MessageId, SendError> {
        let now = self.now();
        self.session(from).send(now, message)
    }

    /// Receives everything that waits in the shared inbox.
    pub fn recv(&mut self, at: End) -> Vec<Message> {
        let now = self.now();
        let Some(connection) = self.try_connection(at) else { return Vec::new() };
        std::iter::from_fn(|| connection.session().recv(now)).collect()
    }

    /// Returns the session's events.
    pub fn news(&mut self, at: End) -> Vec<SessionEvent> {
        let Some(connection) = self.try_connection(at) else { return Vec::new() };
        std::iter::from_fn(|| connection.session().poll_event()).collect()
    }

    /// Closes gracefully.
    pub fn close(&mut self, end: End, code: u64, text: &str) {
        let now = self.now();
        self.connection(end).close(now, code, text);
    }

    /// Changes both directions of the link.
    pub fn relink(&mut self, link: &str) {
        self.relink_over(0, link);
    }

    /// Works like [`Pair::relink`], on one of several networks.
    pub fn relink_over(&mut self, network: usize, link: &str) {
        let link: LinkConfig = link.parse().expect("a test's link is well written");
        let client = self.client;
        self.world.link_over(network, client, SERVER).reconfigure(link.clone());
        self.world.link_over(network, SERVER, client).reconfigure(link);
    }

    /// Runs until `done` holds or `limit` is over. Returns whether it held.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now() + limit;
        loop {
            self.world.flush();
            if done(self) {
                // The check itself may have queued something to send.
                self.world.flush();
                return true;
            }
            self.world.flush();
            if !self.world.step(end) {
                return done(self);
            }
        }
    }

    /// Runs for this long.
    pub fn run(&mut self, time: Duration) {
        self.world.run(time);
    }
}
