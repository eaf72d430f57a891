//! An attacker on the path.

use std::net::SocketAddr;

use whimbrel_proto::Time;

/// An attacker on the path, who sees each packet before the link does, and may change it. It is told the time and the
/// addresses of sender and receiver.
pub type Tap = Box<dyn FnMut(Time, SocketAddr, SocketAddr, &mut Vec<u8>) -> TapVerdict>;

/// The tap's decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapVerdict {
    /// Forward the packet, changed or not.
    Pass,
    /// Drop the packet before it reaches the link.
    Drop,
    /// Forward the packet twice.
    Twice,
}

impl TapVerdict {
    /// How often the packet is to be forwarded.
    pub(super) fn copies(self) -> u32 {
        match self {
            Self::Drop => 0,
            Self::Pass => 1,
            Self::Twice => 2,
        }
    }
}
