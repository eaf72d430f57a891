//! Dialling the peer of a session whose connection was lost.

use std::net::{IpAddr, SocketAddr};

use crate::connection::datagram::{Datagram, Transmit};
use crate::connection::paths::path_set::Main;
use crate::connection::state::Connection;
use crate::wire::block;
use crate::wire::packet::CLEAR_BIT;
use crate::{ConnectionId, Time};

/// A handshake that is to carry the session on.
pub(in crate::connection) struct Redial {
    fresh: Connection,
    /// The address pairs by which the peer may be reached.
    ways: Vec<AddressPair>,
    /// The pairs among `ways` to which the last SYN has not been sent yet.
    rest: Vec<AddressPair>,
}

/// An address of this host and one of the peer. Without a local address, the system chooses one.
pub(in crate::connection) type AddressPair = (Option<IpAddr>, SocketAddr);

impl Redial {
    pub(in crate::connection) fn new(fresh: Connection, ways: Vec<AddressPair>) -> Self {
        Self { fresh, ways, rest: Vec::new() }
    }

    /// Returns the connection of the handshake.
    pub(in crate::connection) fn into_fresh(self) -> Connection {
        self.fresh
    }

    pub(in crate::connection) fn fresh(&mut self) -> &mut Connection {
        &mut self.fresh
    }

    pub(in crate::connection) fn local_id(&self) -> ConnectionId {
        self.fresh.local_id()
    }

    /// Sends the handshake's next packet. A SYN goes to each address pair, one after the other.
    pub(in crate::connection) fn transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let Self { fresh, ways, rest } = self;
        let mut size = 0;
        if rest.is_empty() {
            let start = out.len();
            let sent = fresh.transmit_single(now, out)?;
            if out.get(start) != Some(&(CLEAR_BIT | block::SYN)) {
                return Some(sent);
            }
            rest.extend_from_slice(ways);
            size = sent.size;
        }
        let (source, destination) = rest.pop()?;
        if size == 0 {
            let asking = fresh.opening.as_ref()?.asking();
            out.extend_from_slice(asking);
            size = asking.len();
        }
        Some(Transmit { source, destination, ..fresh.paths[Main].transmit(size, None) })
    }

    pub(in crate::connection) fn timeout(&self) -> Option<Time> {
        let due = self.fresh.opening.as_ref()?.timeout();
        Some(if self.rest.is_empty() { due } else { Time::ZERO })
    }

    /// Dials at once, over these address pairs.
    pub(in crate::connection) fn hurry(&mut self, now: Time, ways: Vec<AddressPair>) {
        self.ways = ways;
        if let Some(opening) = &mut self.fresh.opening {
            opening.hurry(now);
        }
    }

    /// Handles a handshake packet. The first answer decides over which address pair the handshake goes on.
    pub(in crate::connection) fn handle(&mut self, now: Time, datagram: Datagram) {
        let asked = self.is_asking();
        let (from, to) = (datagram.from, datagram.to);
        self.fresh.handle_clear(now, datagram);
        if asked && !self.is_asking() && self.ways.iter().any(|(_, remote)| *remote == from) {
            let local = to.filter(|_| self.ways.contains(&(to, from)));
            self.fresh.paths[Main].move_to(from, local);
            self.rest.clear();
        }
    }

    fn is_asking(&self) -> bool {
        self.fresh.opening.as_ref().is_some_and(|opening| opening.is_asking())
    }
}
