//! Nodes, and what passes between a node and its world.

use std::net::{IpAddr, SocketAddr};

use whimbrel_proto::{Ecn, Time};

/// A participant in a world.
///
/// A node is a state machine without a socket or a clock: the world calls it with the time, and takes what it sends.
/// Equal calls must have equal results, or runs cannot be repeated. A node that needs randomness gets a seed when it is
/// created.
///
/// Whenever a datagram arrives or a timer is due anywhere, the world first passes on what arrived, then calls
/// [`Node::handle_timeout`] of all nodes, then [`Node::poll_transmit`] of all. Only nodes that sleep
/// ([`World::set_lateness`]) are left out.
///
/// [`World::set_lateness`]: super::World::set_lateness
pub trait Node {
    /// Handles a datagram. What goes to `out` is sent at once; an answer may also wait for [`Node::poll_transmit`].
    fn handle_datagram(&mut self, now: Time, datagram: Arrival, out: &mut Outbox);

    /// When the node will next have something to do although nothing arrives. [`Node::handle_timeout`] at that time must
    /// move it on, or time would stand still.
    fn poll_timeout(&self) -> Option<Time>;

    /// Does what is due. It is called whenever anything happens in the world, so often nothing is due.
    fn handle_timeout(&mut self, now: Time);

    /// Sends everything that is to be sent now. Like [`Node::handle_timeout`], it is often called in vain.
    fn poll_transmit(&mut self, now: Time, out: &mut Outbox);
}

/// A datagram as it reaches a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The sender's address.
    pub from: SocketAddr,
    /// The node's own address that it was sent to, as the node knows it behind its NAT.
    pub to: IpAddr,
    /// Its ECN mark.
    pub ecn: Option<Ecn>,
    /// The UDP payload.
    pub bytes: Vec<u8>,
}

/// A datagram as it leaves a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The node's own address to send from. `None`: its address on the destination's network.
    pub source: Option<IpAddr>,
    /// The destination.
    pub to: SocketAddr,
    /// The ECN mark to set.
    pub ecn: Option<Ecn>,
    /// The UDP payload.
    pub bytes: Vec<u8>,
}

/// The datagrams and reports of a node during a call, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    entries: Vec<Entry>,
}

#[derive(Debug)]
pub(super) enum Entry {
    Departure(Departure),
    Report(String),
}

impl Outbox {
    /// Sends a datagram.
    pub fn send(&mut self, departure: Departure) {
        self.entries.push(Entry::Departure(departure));
    }

    /// Reports what happened at the node, for [`World::digest`].
    ///
    /// [`World::digest`]: super::World::digest
    pub fn report(&mut self, what: String) {
        self.entries.push(Entry::Report(what));
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Entry> {
        self.entries.drain(..)
    }
}
