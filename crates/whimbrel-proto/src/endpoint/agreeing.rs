//! Key agreements of a PING, before and after they are run.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;

use crate::connection::Datagram;
use crate::handshake::{Agreed, Agreement};

/// A PING whose key agreements are due. It needs nothing from its endpoint, so any thread can run them.
#[derive(Debug)]
pub struct Agreeing {
    pub(in crate::endpoint) agreement: Box<Agreement>,
    pub(super) datagram: Datagram,
    pub(super) known: bool,
}

impl Agreeing {
    /// Runs the key agreements: two Diffie-Hellman operations.
    pub fn run(self) -> AgreedPing {
        AgreedPing { agreed: self.agreement.run(), datagram: self.datagram }
    }

    /// Returns whether the PING has a ticket or comes from a network with a connected client. Such PINGs go before
    /// strangers'.
    pub const fn is_known(&self) -> bool {
        self.known
    }

    /// Returns the source address of the PING, and our address that it was sent to.
    pub const fn addresses(&self) -> (SocketAddr, Option<IpAddr>) {
        (self.datagram.from, self.datagram.to)
    }

    /// Copies the packet out of its buffer, which may be much larger. Call it before the PING waits.
    pub fn detach(&mut self) {
        self.datagram.bytes = BytesMut::from(&self.datagram.bytes[..]);
    }
}

/// A PING after its key agreements, for [`Endpoint::handle_agreed`](crate::Endpoint::handle_agreed).
#[derive(Debug)]
pub struct AgreedPing {
    pub(super) agreed: Agreed,
    pub(super) datagram: Datagram,
}
