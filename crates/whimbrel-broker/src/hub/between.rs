//! The exchange between brokers about their channels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use whimbrel_pubsub::coverage::Range;
use whimbrel_pubsub::message::{ChannelId, Hlc, Message, Origin, Stamp};

use super::core::Hub;
use super::publishing::Finding;
use super::room::Room;
use super::signal::Signal;
use crate::buffer::{self, GapAnswer, GapRequest, Received, Refusal};

/// Wakes a link to another broker when something was published here.
#[derive(Debug)]
pub struct Outgoing {
    hub: Arc<Hub>,
    signal: Arc<Signal>,
    number: u64,
    /// The next own sequence of each channel.
    next: Vec<(ChannelId, u64)>,
}

/// A message on its way to another broker.
pub type Aged = (Stamp, Message, Duration);

impl Hub {
    /// The channels.
    pub fn channels(&self) -> Vec<ChannelId> {
        self.rooms.iter().map(Room::id).collect()
    }

    /// The run of this broker.
    pub fn own(&self) -> Option<Origin> {
        Some(self.rooms.first()?.read().own())
    }

    /// Takes a message of another broker. `None`: this broker has no such channel.
    ///
    /// # Errors
    /// The message cannot be one of the channel's.
    pub fn receive(
        &self,
        channel: ChannelId,
        (stamp, message, age): Aged,
        finding: &mut Finding,
    ) -> Option<Result<Received, Refusal>> {
        let room = self.room(channel)?;
        let received = room.receive(stamp, message.clone(), age, self.clock.now());
        if received == Ok(Received::Taken) {
            finding.note(message);
            self.wake_for_taken(finding);
        }
        Some(received)
    }

    /// Whether a broker that says this time has a clock that is too far ahead for its last values to be taken from it.
    pub fn is_far_ahead(&self, published: Hlc) -> bool {
        buffer::is_far_ahead(published, self.clock.now().wall_ms)
    }

    /// The highest own sequence of each channel.
    pub fn own_highest(&self) -> BTreeMap<ChannelId, u64> {
        self.rooms.iter().map(|room| (room.id(), room.own_highest())).collect()
    }

    /// The highest sequences that are known here of a channel.
    pub fn heads(&self, channel: ChannelId) -> Vec<(Origin, u64)> {
        self.room(channel).map(|room| room.read().heads()).unwrap_or_default()
    }

    /// Takes the highest sequences that another broker's run knows.
    pub fn handle_heads(&self, channel: ChannelId, by: Origin, heads: &[(Origin, u64)]) {
        if let Some(room) = self.room(channel) {
            room.write().handle_heads(by, heads, self.clock.time());
        }
    }

    /// The questions for missing messages that are due.
    pub fn poll_requests(&self) -> Vec<(ChannelId, GapRequest)> {
        let now = self.clock.time();
        let all = self.rooms.iter().flat_map(|room| {
            let mut requests = room.write().poll_requests(now);
            requests.extend(room.poll_fetches(now));
            requests.into_iter().map(|request| (room.id(), request))
        });
        all.collect()
    }

    /// Answers a question of another broker.
    pub fn answer(&self, channel: ChannelId, request: &GapRequest) -> Option<GapAnswer> {
        Some(self.room(channel)?.read().answer(request, self.clock.time()))
    }

    /// Takes what an answer says is gone or never came. Its messages were received before.
    pub fn handle_denials(&self, channel: ChannelId, origin: Origin, answer: &GapAnswer) {
        if let Some(room) = self.room(channel) {
            let losses = room.losses();
            room.write().handle_denials(origin, answer, self.clock.time());
            // Subscriptions are told of what no broker has.
            if room.losses() != losses {
                self.attached().wake_all();
            }
        }
    }

    /// Returns the source of messages that are published here from now on in these channels, for a link to another broker.
    pub fn outgoing(self: &Arc<Self>, channels: &[ChannelId]) -> Outgoing {
        let signal = Arc::new(Signal::default());
        let number = self.links().insert(Arc::clone(&signal));
        let rooms = self.rooms.iter().filter(|room| channels.contains(&room.id()));
        let next = rooms.map(|room| (room.id(), room.own_highest() + 1)).collect();
        Outgoing { hub: Arc::clone(self), signal, number, next }
    }
}

impl Outgoing {
    /// Waits until something was published.
    pub async fn woken(&self) {
        self.signal.woken().await;
    }

    /// The next own sequence of each channel.
    pub fn next_sequences(&self) -> &[(ChannelId, u64)] {
        &self.next
    }

    /// The next messages of one channel, of at most `most` bytes or one. `None`: there are none now. What was overwritten meanwhile is
    /// passed over; the other broker asks for it, and is told that it is gone.
    pub fn next(&mut self, most: usize) -> Option<(ChannelId, Vec<Aged>)> {
        self.signal.look();
        let now = self.hub.clock.time();
        for (id, next) in &mut self.next {
            let Some(room) = self.hub.room(*id) else { continue };
            let channel = room.read();
            let Some((_, log)) = channel.log_of(channel.own()) else { continue };
            let Some(range) = Range::new(*next, log.highest()) else { continue };
            let (mut batch, mut bytes) = (Vec::new(), 0);
            *next = range.last + 1;
            for (sequence, slot) in log.held(range) {
                let Some(slot) = channel.slot(slot) else { continue };
                let length = slot.message().encoded().len();
                if !batch.is_empty() && bytes + length > most {
                    *next = sequence;
                    break;
                }
                bytes += length;
                batch.push((*slot.stamp(), slot.message().clone(), slot.age(now)));
            }
            if !batch.is_empty() {
                return Some((*id, batch));
            }
        }
        None
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.hub.links().remove(self.number);
    }
}
