//! Confirmations to another broker: the messages that are on disk here.

use std::collections::BTreeMap;
use std::sync::Arc;

use whimbrel_pubsub::coverage::{Range, Ranges};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Origin};

use super::core::Hub;
use super::room::Room;
use super::signal::Signal;
use super::stored;

/// The most ranges that are told at once.
const MOST_RANGES: usize = 256;

/// Tells the run of another broker which of its messages are on disk here. Dropping it ends that.
#[derive(Debug)]
pub struct Confirming {
    hub: Arc<Hub>,
    origin: Origin,
    signal: Arc<Signal>,
    /// The numbers of the signal among those that follow the logs.
    numbers: Vec<(ChannelId, u64)>,
    told: BTreeMap<ChannelId, Ranges>,
}

impl Hub {
    /// Enters a link with the run `origin` of another broker that carries these channels. It begins with all of its messages that are on disk here.
    pub fn confirm_to(self: &Arc<Self>, origin: Origin, channels: &[ChannelId]) -> Confirming {
        let signal = Arc::new(Signal::default());
        signal.wake();
        let follow = |room: &Room| (room.id(), room.logging().follow(Arc::clone(&signal)));
        let numbers = self.rooms.iter().filter(|room| channels.contains(&room.id())).map(follow).collect();
        Confirming { hub: Arc::clone(self), origin, signal, numbers, told: BTreeMap::new() }
    }

    /// Returns which of these messages are on disk here, as ranges.
    pub fn stored_among(&self, channel: ChannelId, origin: Origin, ranges: &[Range]) -> Vec<Range> {
        let room = self.room(channel);
        room.map(|room| room.logging().stored().among(origin, ranges, MOST_RANGES)).unwrap_or_default()
    }

    /// A peer has these messages on disk.
    pub fn handle_stored(&self, by: BrokerId, channel: ChannelId, origin: Origin, ranges: &[Range]) {
        if let Some(room) = self.room(channel) {
            room.copying().confirm(by, origin, ranges);
        }
    }

    /// The messages of other runs that somebody here waits for, for all peers.
    pub fn poll_confirms(&self) -> Vec<(ChannelId, Origin, Vec<Range>)> {
        let of = |room: &Room| {
            let id = room.id();
            let sought = room.copying().sought().into_iter();
            sought.map(move |(origin, ranges)| (id, origin, ranges.iter().collect())).collect::<Vec<_>>()
        };
        self.rooms.iter().flat_map(of).collect()
    }
}

impl Confirming {
    /// Waits until something was stored.
    pub async fn woken(&self) {
        self.signal.woken().await;
    }

    /// The next ranges of a channel that were not told yet. `None`: there are none now.
    pub fn take_next(&mut self) -> Option<(ChannelId, Origin, Vec<Range>)> {
        self.signal.look();
        for room in self.numbers.iter().filter_map(|(channel, _)| self.hub.room(*channel)) {
            let told = self.told.entry(room.id()).or_default();
            let new = room.logging().stored().beyond(self.origin, told, MOST_RANGES);
            if !new.is_empty() {
                new.iter().for_each(|range| told.insert(*range));
                // What is forgotten here is told again.
                told.keep_highest(stored::MOST_RANGES);
                return Some((room.id(), self.origin, new));
            }
        }
        None
    }
}

impl Drop for Confirming {
    fn drop(&mut self) {
        for (channel, number) in &self.numbers {
            if let Some(room) = self.hub.room(*channel) {
                room.logging().unfollow(*number);
            }
        }
    }
}
