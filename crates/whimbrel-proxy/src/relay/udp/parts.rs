//! The parts of UDP programs that another process needs to go on with them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use bytes::Bytes;

/// The UDP programs of a session's peer.
#[derive(Debug, Default)]
pub(crate) struct UdpParts {
    /// The announcement of each context, as a message between proxies.
    pub(crate) contexts: Vec<Bytes>,
    /// The sockets of each program: up to two.
    pub(crate) programs: Vec<(SocketAddr, Vec<OwnedFd>)>,
}
