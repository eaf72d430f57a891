//! The traffic of a path.

/// Packets and bytes in both directions. Bytes are UDP payload.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct Traffic {
    sent: Carriage,
    received: Carriage,
    /// The bytes of ack-eliciting packets since they were last compared with those of other paths. What acknowledges
    /// goes by any path, and says nothing about where the peer's data goes.
    eliciting: u64,
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

    /// Records that a received packet is ack-eliciting.
    pub(in crate::connection) fn on_eliciting(&mut self, size: usize) {
        self.eliciting += size as u64;
    }

    /// Returns the bytes of ack-eliciting packets received since the last call.
    pub(in crate::connection) fn take_eliciting(&mut self) -> u64 {
        std::mem::take(&mut self.eliciting)
    }
}
