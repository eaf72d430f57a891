//! The parts of interception that one process hands to another.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use super::settings::TunSettings;

/// Interception, taken apart. All files are of the process that hands over, too, until it lets go.
#[derive(Debug)]
pub(crate) struct TunParts {
    pub(crate) note: TunNote,
    /// The instance's lock, the interface, and where the kernel's TCP listens in each family.
    pub(crate) files: Vec<OwnedFd>,
    /// The connections of each family, in IPv4 first.
    pub(crate) mappings: Mappings,
}

/// The facts about interception that one process hands to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TunNote {
    /// The number of the instance.
    pub(crate) number: u8,
    pub(crate) has_ipv6: bool,
    /// Those by which rules and routes were made.
    pub(crate) settings: TunSettings,
}

/// The connections of each family.
pub(crate) type Mappings = [Vec<NotedMapping>; 2];

/// A program, its target, the stranger that stands for the program, and whether the connection was never accepted.
pub(crate) type NotedMapping = (SocketAddr, SocketAddr, u32, bool);
