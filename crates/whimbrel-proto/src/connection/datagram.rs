//! Received datagrams, and datagrams to be sent.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;

use crate::recovery::Ecn;

/// A received datagram.
#[derive(Debug)]
pub struct Datagram {
    /// The sender's address.
    pub from: SocketAddr,
    /// The local address that it was sent to, if the system reports it.
    pub to: Option<IpAddr>,
    /// Its ECN mark.
    pub ecn: Option<Ecn>,
    /// The UDP payload. It is decrypted in place.
    pub bytes: BytesMut,
}

/// One datagram to be sent, or several of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The destination address.
    pub destination: SocketAddr,
    /// The local address to send from. `None`: the system chooses.
    pub source: Option<IpAddr>,
    /// The ECN mark to set.
    pub ecn: Option<Ecn>,
    /// The number of bytes appended to the buffer.
    pub size: usize,
    /// The size of each datagram but the last, which may be shorter. `None`: there is one datagram.
    pub segment_size: Option<usize>,
}
