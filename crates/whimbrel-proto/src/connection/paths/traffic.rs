//! The traffic of a path.

/// Packets and bytes in both directions. Bytes are UDP payload.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct Traffic {
    sent: Carriage,
    received: Carriage,
    /// `received.bytes` when it was last compared with that of other paths.
    received_before: u64,
}

/// Packets and bytes in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct Carriage {
    pub(in crate::connection) packets: u64,
    pub(in crate::connection) bytes: u64,
}

impl Carriage {
    fn add(&mut self, size: usize) {
        self.packets += 1;
        self.bytes += size as u64;
    }
}

impl Traffic {
    pub(in crate::connection) fn on_sent(&mut self, size: usize) {
        self.sent.add(size);
    }

    pub(in crate::connection) fn on_received(&mut self, size: usize) {
        self.received.add(size);
    }

    pub(in crate::connection) fn sent(&self) -> Carriage {
        self.sent
    }

    pub(in crate::connection) fn received(&self) -> Carriage {
        self.received
    }

    /// Returns the bytes received since the last call.
    pub(in crate::connection) fn received_since(&mut self) -> u64 {
        self.received.bytes - std::mem::replace(&mut self.received_before, self.received.bytes)
    }
}
