//! The state of a session while its client is away.

use std::collections::BTreeMap;

use whimbrel_pubsub::message::Publication;

use super::in_flight::InFlight;
use super::parked::Parked;
use super::shared::Shared;
use super::stored::Line;
use crate::store::Outbound;

/// The session of a client that is away. No message waits in it but those that the client did not acknowledge: the rest is in the
/// broker's buffer, and the subscriptions know where they were.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) subscriptions: Vec<Parked>,
    /// Seats in groups, by the texts with which the client subscribed.
    pub(super) shared: BTreeMap<String, Shared>,
    pub(super) in_flight: InFlight,
    /// Messages at QoS 2 that came and were not released.
    pub(super) received: BTreeMap<u16, Received>,
    /// Whether it is on disk, too.
    pub(super) is_stored: bool,
    /// Whether nothing of it is here, since its memory was given up.
    pub(super) is_on_disk_alone: bool,
    /// Seats in groups that were found on disk and not taken again.
    pub(super) seats: Vec<Line>,
}

/// A message at QoS 2 that came and was not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// It was published, and only this process knows.
    InMemory,
    /// It was published, and its identifier is on disk.
    OnDisk,
    /// Its identifier is on disk. If it comes again, it is published again under this name: whoever has it then knows it.
    Perhaps(Publication),
}

impl Kept {
    /// One that was found on disk.
    pub(super) fn of(
        lines: Vec<Line>,
        received: Vec<(u16, Publication)>,
        outbound: Vec<(u16, Outbound)>,
    ) -> Self {
        let is_seat = |line: &Line| line.text.starts_with("$share/");
        let (seats, lines): (Vec<_>, Vec<_>) = lines.into_iter().partition(is_seat);
        let subscriptions = lines.into_iter().map(Parked::of).collect();
        let received = received.into_iter().map(|(id, name)| (id, Received::Perhaps(name))).collect();
        let in_flight = InFlight::of(outbound);
        Self { subscriptions, in_flight, received, seats, is_stored: true, ..Self::default() }
    }

    /// One that has to be read from disk.
    pub(super) fn on_disk_alone() -> Self {
        Self { is_stored: true, is_on_disk_alone: true, ..Self::default() }
    }

    /// The subscriptions as they are kept on disk.
    pub(super) fn lines(&self) -> Vec<Line> {
        let shared = self.shared.iter().map(|(text, shared)| shared.line(text));
        self.subscriptions.iter().filter_map(Parked::line).chain(shared).chain(self.seats.clone()).collect()
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        if self.is_on_disk_alone {
            return 0;
        }
        let subscriptions: usize = self.subscriptions.iter().map(Parked::bytes).sum();
        let shared: usize = self.shared.values().map(Shared::bytes).sum();
        let seats: usize = self.seats.iter().map(|line| 1_024 + line.text.len()).sum();
        512 + subscriptions + shared + seats + self.in_flight.all_bytes() + self.received.len() * 48
    }
}
