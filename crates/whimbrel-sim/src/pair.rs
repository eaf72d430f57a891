//! A client and a server with one connection between them: what most tests are about.

use std::time::Duration;

use bytes::Bytes;
use whimbrel_proto::session::{Message, Outgoing, SendError, Session, SessionEvent};
use whimbrel_proto::{
    CloseReason, Connection, ConnectionStats, Event, Handle, ListenConfig, MessageId, Service, StreamId,
    Time, TransportConfig,
};

use crate::world::{SERVER, World};
use whimbrel_link::LinkConfig;

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Who connected.
    Client,
    /// Who was connected to.
    Server,
}

impl End {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// See the module.
pub struct Pair {
    /// Where they live.
    pub world: World,
    /// The client's node.
    pub client: usize,
    client_handle: Handle,
    server_handle: Option<Handle>,
}

impl Pair {
    /// A client that has begun to connect, with the same settings on both sides and both ways of the link alike.
    pub fn new(seed: u64, transport: TransportConfig, link: &str) -> Self {
        let link: LinkConfig = link.parse().expect("a test's link is well written");
        let world = World::new(seed, transport.clone(), ListenConfig::default());
        Self::join(world, transport, link.clone(), link)
    }

    /// A client added to a world, that has begun to connect.
    pub fn join(mut world: World, transport: TransportConfig, up: LinkConfig, down: LinkConfig) -> Self {
        let client = world.add_client(transport, up, down);
        let client_handle = world.connect(client);
        Self { world, client, client_handle, server_handle: None }
    }

    /// As [`Pair::new`], and both ends know that they are connected.
    pub fn connected(seed: u64, transport: TransportConfig, link: &str) -> Self {
        let mut pair = Self::new(seed, transport, link);
        assert!(pair.settle(Duration::from_secs(30)), "no connection over {link}, seed {seed}");
        pair
    }

    /// An end's handle. Panics if it has gone.
    pub fn handle(&mut self, end: End) -> Handle {
        self.place(end).expect("the connection is there").1
    }

    /// Lets time pass until both ends are connected; false if that took too long.
    pub fn settle(&mut self, limit: Duration) -> bool {
        self.run_until(limit, |pair| {
            End::BOTH.iter().all(|end| pair.events(*end).contains(&Event::Connected))
        })
    }

    /// The clock.
    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// The node that an end lives on.
    pub fn node(&self, end: End) -> usize {
        match end {
            End::Client => self.client,
            End::Server => SERVER,
        }
    }

    /// An end's node and the connection's handle there. None: the server has not heard of it.
    pub fn place(&mut self, end: End) -> Option<(usize, Handle)> {
        match end {
            End::Client => Some((self.client, self.client_handle)),
            End::Server => {
                // A client that got no answer begins another connection: the latest counts.
                while let Some(handle) = self.world.accept() {
                    self.server_handle = Some(handle);
                }
                self.server_handle.map(|handle| (SERVER, handle))
            }
        }
    }

    /// An end goes on by this handle, on the node where it was.
    pub fn adopt(&mut self, end: End, handle: Handle) {
        match end {
            End::Client => self.client_handle = handle,
            End::Server => self.server_handle = Some(handle),
        }
    }

    /// An end's connection, if it is there.
    pub fn try_connection(&mut self, end: End) -> Option<&mut Connection> {
        let (node, handle) = self.place(end)?;
        self.world.try_peer(node, handle).map(|peer| &mut peer.connection)
    }

    /// An end's connection.
    pub fn connection(&mut self, end: End) -> &mut Connection {
        self.try_connection(end).expect("the connection is there")
    }

    /// An end's session.
    pub fn session(&mut self, end: End) -> &mut Session {
        self.connection(end).session()
    }

    /// An end's figures.
    pub fn stats(&mut self, end: End) -> ConnectionStats {
        let now = self.now();
        self.connection(end).stats(now)
    }

    /// Everything an end's connection has said.
    pub fn events(&mut self, end: End) -> Vec<Event> {
        self.heard(end).iter().map(|(_, event)| event.clone()).collect()
    }

    /// The same, with times.
    pub fn timed_events(&mut self, end: End) -> Vec<(Time, Event)> {
        self.heard(end).to_vec()
    }

    /// The same, to look at.
    pub fn heard(&mut self, end: End) -> &[(Time, Event)] {
        let Some((node, handle)) = self.place(end) else { return &[] };
        self.world.events(node, handle)
    }

    /// Why an end's connection is over, if it is.
    pub fn closed(&mut self, end: End) -> Option<CloseReason> {
        self.heard(end).iter().find_map(|(_, event)| match event {
            Event::Closed(why) => Some(why.clone()),
            _ => None,
        })
    }

    /// Both are over.
    pub fn both_closed(&mut self) -> bool {
        End::BOTH.iter().all(|end| self.closed(*end).is_some())
    }

    /// Sends on stream 0.
    pub fn send(&mut self, from: End, service: Service, payload: impl Into<Bytes>) -> MessageId {
        self.try_send(from, Outgoing::new(StreamId(0), service, payload.into())).expect("there is room")
    }

    /// Sends.
    pub fn try_send(&mut self, from: End, message: Outgoing) -> Result<MessageId, SendError> {
        let now = self.now();
        self.session(from).send(now, message)
    }

    /// Everything that waits in the shared inbox.
    pub fn recv(&mut self, at: End) -> Vec<Message> {
        let now = self.now();
        let Some(connection) = self.try_connection(at) else { return Vec::new() };
        std::iter::from_fn(|| connection.session().recv(now)).collect()
    }

    /// The session's news.
    pub fn news(&mut self, at: End) -> Vec<SessionEvent> {
        let Some(connection) = self.try_connection(at) else { return Vec::new() };
        std::iter::from_fn(|| connection.session().poll_event()).collect()
    }

    /// Closes politely.
    pub fn close(&mut self, end: End, code: u64, text: &str) {
        let now = self.now();
        self.connection(end).close(now, code, text);
    }

    /// Changes both ways of the link.
    pub fn relink(&mut self, link: &str) {
        self.relink_over(0, link);
    }

    /// As [`Pair::relink`], over one of several networks.
    pub fn relink_over(&mut self, network: usize, link: &str) {
        let link: LinkConfig = link.parse().expect("a test's link is well written");
        let client = self.client;
        self.world.link_over(network, client, SERVER).reconfigure(link.clone());
        self.world.link_over(network, SERVER, client).reconfigure(link);
    }

    /// Lets time pass until `done` holds or `limit` is over; says whether it held.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now() + limit;
        loop {
            self.world.flush();
            if done(self) {
                // What it did may have something to send.
                self.world.flush();
                return true;
            }
            self.world.flush();
            if !self.world.step(end) {
                return done(self);
            }
        }
    }

    /// Lets this much time pass.
    pub fn run(&mut self, time: Duration) {
        self.world.run(time);
    }
}
