//! Datagrams, in and out.

use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;

use crate::recovery::Ecn;

/// A datagram that came in.
#[derive(Debug)]
pub struct Datagram {
    /// From where.
    pub from: SocketAddr,
    /// To which of our addresses, if the system says.
    pub to: Option<IpAddr>,
    /// Its ECN mark.
    pub ecn: Option<Ecn>,
    /// UDP payload; decrypted in place.
    pub bytes: BytesMut,
}

/// A datagram, or several of one size, to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To where.
    pub destination: SocketAddr,
    /// From which of our addresses.
    pub source: Option<IpAddr>,
    /// ECN mark to set.
    pub ecn: Option<Ecn>,
    /// Bytes appended to the buffer.
    pub size: usize,
    /// The size of each datagram but the last, which may be shorter. None: one datagram.
    pub segment_size: Option<usize>,
}
