//! The state of a session while its client is away.

use std::collections::{BTreeMap, BTreeSet};

use super::outgoing::InFlight;
use super::shared::Shared;
use super::subscription::Parked;

/// The session of a client that is away. No message waits in it but those that the client did not acknowledge: the rest is in the
/// broker's buffer, and the subscriptions know where they were.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) subscriptions: Vec<Parked>,
    /// Seats in groups, by the texts with which the client subscribed.
    pub(super) shared: BTreeMap<String, Shared>,
    pub(super) in_flight: InFlight,
    /// Messages at QoS 2 that came and were not released.
    pub(super) received: BTreeSet<u16>,
}

impl Kept {
    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        let subscriptions: usize = self.subscriptions.iter().map(Parked::bytes).sum();
        let shared: usize = self.shared.values().map(Shared::bytes).sum();
        512 + subscriptions + shared + self.in_flight.bytes() + self.received.len() * 4
    }
}
