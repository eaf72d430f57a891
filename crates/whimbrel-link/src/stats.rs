//! The counters of a link.

use super::{DropReason, Histogram};

/// Counters of one direction of a link. Bytes are IP bytes: payload plus [`overhead`](super::LinkConfig::overhead).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets pushed.
    pub offered: u64,
    /// Bytes pushed.
    pub offered_bytes: u64,
    /// Packets that arrive, copies included.
    pub delivered: u64,
    /// Bytes that arrive, copies included.
    pub delivered_bytes: u64,
    /// Packets dropped by the policer.
    pub policed: u64,
    /// Packets dropped because the queue was full.
    pub queue_drops: u64,
    /// Packets dropped because the link was down.
    pub outage_drops: u64,
    /// Packets dropped at random.
    pub loss_drops: u64,
    /// Packets dropped because they were larger than the MTU.
    pub mtu_drops: u64,
    /// Packets delivered twice.
    pub duplicated: u64,
    /// Deliveries held back so that later ones overtake them.
    pub reordered: u64,
    /// Deliveries with a byte changed.
    pub corrupted: u64,
    /// Packets marked "congestion experienced".
    pub ce_marked: u64,
    /// How long each packet admitted to the queue waited for the transmitter.
    pub queue_delay: Histogram,
}

impl LinkStats {
    pub(crate) fn on_drop(&mut self, drop: DropReason) {
        match drop {
            DropReason::TooBig => self.mtu_drops += 1,
            DropReason::Policed => self.policed += 1,
            DropReason::QueueFull => self.queue_drops += 1,
            DropReason::Outage => self.outage_drops += 1,
            DropReason::Loss => self.loss_drops += 1,
        }
    }

    /// Packets that did not arrive, for whatever reason.
    pub fn drops(&self) -> u64 {
        self.policed + self.queue_drops + self.outage_drops + self.loss_drops + self.mtu_drops
    }
}
