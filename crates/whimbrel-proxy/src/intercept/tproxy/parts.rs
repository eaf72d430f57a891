//! The parts of interception that one process hands to another.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

/// Interception, taken apart. All files are of the process that hands over, too, until it lets go.
#[derive(Debug)]
pub(crate) struct InterceptionParts {
    pub(crate) note: InterceptionNote,
    /// The instance's lock, the TUN, and the socket for TCP and that for UDP of each family.
    pub(crate) sockets: Vec<OwnedFd>,
    /// The pipes to `nft` and its process. None: it is just being started again.
    pub(crate) table: Option<[OwnedFd; 4]>,
    /// Sockets for replies, by what they are bound to.
    pub(crate) replies: Vec<(SocketAddr, OwnedFd)>,
}

/// Everything known about interception.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InterceptionNote {
    /// The number of the instance.
    pub(crate) number: u8,
    pub(crate) mark: u32,
    pub(crate) port: u16,
    pub(crate) has_ipv6: bool,
    pub(crate) kill_switch: bool,
}
