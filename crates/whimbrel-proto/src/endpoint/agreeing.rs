//! A key agreement that waits to be made, and one that was made.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;

use crate::connection::Datagram;
use crate::handshake::{Agreed, Agreement};

/// A PING whose key agreements are due. It needs nothing of its endpoint, so any thread can make them.
pub struct Agreeing {
    pub(in crate::endpoint) agreement: Box<Agreement>,
    pub(super) datagram: Datagram,
    pub(super) known: bool,
}

impl Agreeing {
    /// Makes them: two Diffie-Hellmans.
    pub fn run(self) -> AgreedPing {
        AgreedPing { agreed: self.agreement.run(), datagram: self.datagram }
    }

    /// It has a ticket, or comes from a network from which somebody is connected: it goes before strangers.
    pub const fn is_known(&self) -> bool {
        self.known
    }

    /// Where it came from, and to which of our addresses.
    pub const fn addresses(&self) -> (SocketAddr, Option<IpAddr>) {
        (self.datagram.from, self.datagram.to)
    }

    /// Copies the packet, which may be a small part of a large buffer: before it waits.
    pub fn detach(&mut self) {
        self.datagram.bytes = BytesMut::from(&self.datagram.bytes[..]);
    }
}

/// A PING whose key agreements were made, for [`Endpoint::handle_agreed`](crate::Endpoint::handle_agreed).
pub struct AgreedPing {
    pub(super) agreed: Agreed,
    pub(super) datagram: Datagram,
}
