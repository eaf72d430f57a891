//! Packets in flight, and their memory.

use whimbrel_net::EcnCodepoint;

use super::Direction;
use super::clients::ClientId;

/// A packet that will arrive.
#[derive(Debug)]
pub(super) struct Packet {
    pub(super) direction: Direction,
    pub(super) client: ClientId,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) payload: Vec<u8>,
}

impl Packet {
    /// Returns whether both packets can be sent in one system call as segments of one size.
    pub(super) fn is_like(&self, next: &Self) -> bool {
        (self.direction, self.client, self.ecn) == (next.direction, next.client, next.ecn)
    }
}

/// The memory of packets that were sent, for reuse.
#[derive(Debug, Default)]
pub(super) struct Buffers(Vec<Vec<u8>>);

impl Buffers {
    /// An empty buffer for a payload.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(1500))
    }

    /// Takes back a payload's memory.
    pub(super) fn give_back(&mut self, mut payload: Vec<u8>) {
        payload.clear();
        self.0.push(payload);
    }
}
