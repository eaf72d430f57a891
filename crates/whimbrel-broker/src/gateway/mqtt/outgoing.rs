//! Messages to a client.

use std::collections::BTreeMap;

use whimbrel_pubsub::coverage::Delivery;
use whimbrel_pubsub::message::{Message, PublisherId, Stamp};

use super::acknowledged::Mark;
use super::codec::{Out, PropertyList, Qos, Version};
use super::message::{expiry_of, is_at_most_once, properties_of};
use super::options::Options;
use super::state::COVERAGE;
use crate::hub::Receipt;
use crate::quota::Quota;

/// The most messages that a client may not have acknowledged. A client of MQTT 5 may ask for fewer.
pub(super) const MOST_IN_FLIGHT: usize = 256;
/// The most bytes of them, the last one not counted.
pub(super) const MOST_IN_FLIGHT_BYTES: usize = 1 << 20;
/// Messages are read while fewer bytes wait for the client's socket.
pub(super) const ROOM: usize = 64 << 10;

/// Messages that the client did not acknowledge.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// By packet identifier.
    sent: BTreeMap<u16, Sent>,
    bytes: usize,
    last: u16,
}

/// A message as it was sent, so that it can be sent again.
#[derive(Debug)]
struct Sent {
    message: Message,
    stamp: Stamp,
    retain: bool,
    identifier: Option<u32>,
    coverage: Option<String>,
    due: Due,
}

/// The work that is due when the client has a message.
#[derive(Debug)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// A group is told. Dropping it gives the message to another member.
    Group(Receipt),
    /// The store is told.
    Store(Mark),
}

impl Due {
    fn settle(self) {
        match self {
            Self::Nothing => {}
            Self::Group(receipt) => receipt.settle(),
            Self::Store(mark) => mark.settle(),
        }
    }
}

impl InFlight {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn next(&mut self) -> u16 {
        // There are fewer than identifiers.
        loop {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.sent.contains_key(&self.last) {
                return self.last;
            }
        }
    }

    fn insert(&mut self, id: u16, sent: Sent) {
        self.bytes += sent.bytes();
        self.sent.insert(id, sent);
    }

    /// Is done with a message.
    fn remove(&mut self, id: u16) -> bool {
        let Some(sent) = self.sent.remove(&id) else { return false };
        self.bytes -= sent.bytes();
        sent.due.settle();
        true
    }

    /// Leaves out messages of groups: other members get them.
    fn give_back(&mut self) {
        self.sent.retain(|_, sent| !matches!(sent.due, Due::Group(_)));
        self.bytes = self.sent.values().map(Sent::bytes).sum();
    }
}

impl Sent {
    fn bytes(&self) -> usize {
        self.message.encoded().len() + self.coverage.as_ref().map_or(0, String::len) + 128
    }

    /// Writes the message. Returns whether the client takes one so long.
    fn write(&self, out: &mut Out, id: Option<u16>, wall_ms: u64) -> bool {
        let mut properties = PropertyList::default();
        if out.version() == Version::V5 {
            properties = properties_of(&self.message);
            if let Some(seconds) = expiry_of(&self.message, &self.stamp, wall_ms) {
                properties.u32(0x02, seconds);
            }
            if let Some(identifier) = self.identifier {
                properties.variable(0x0b, identifier);
            }
            if let Some(coverage) = &self.coverage {
                properties.user(COVERAGE, coverage);
            }
        }
        out.publish(self.message.topic(), id, self.retain, &properties, &self.message.payload())
    }
}

/// The packets and messages on their way to a client.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) out: Out,
    in_flight: InFlight,
    window: usize,
    /// The most bytes that the client may have waiting, if its quota is less than the limits.
    queued: usize,
    /// Messages of this publisher are the client's own.
    own: PublisherId,
}

impl Outgoing {
    pub(super) fn new(out: Out, window: usize, own: PublisherId, quota: &Quota) -> Self {
        let (window, queued) = (window.min(MOST_IN_FLIGHT), quota.queued(usize::MAX));
        Self { out, in_flight: InFlight::default(), window, queued, own }
    }

    /// Messages are read while fewer bytes wait for the client's socket.
    fn room(&self) -> usize {
        self.queued.clamp(1, ROOM)
    }

    /// Whether the client has room for another message that is sent so.
    pub(super) fn has_room(&self, options: &Options) -> bool {
        self.out.len() < self.room() && (options.qos == Qos::AtMostOnce || self.has_window())
    }

    /// Whether another message may be sent that has to be acknowledged.
    fn has_window(&self) -> bool {
        self.in_flight.sent.len() < self.window
            && self.in_flight.bytes < self.queued.clamp(1, MOST_IN_FLIGHT_BYTES)
    }

    /// Sends again what was not acknowledged in an earlier connection.
    pub(super) fn resume(&mut self, in_flight: InFlight, wall_ms: u64) {
        self.in_flight = in_flight;
        let mut too_long = Vec::new();
        for (id, sent) in &self.in_flight.sent {
            let at = self.out.len();
            if sent.write(&mut self.out, Some(*id), wall_ms) {
                // The flag DUP.
                self.out.bytes()[at] |= 8;
            } else {
                too_long.push(*id);
            }
        }
        for id in too_long {
            self.in_flight.remove(id);
        }
    }

    /// Returns the messages that the client did not acknowledge.
    pub(super) fn into_in_flight(mut self) -> InFlight {
        self.in_flight.give_back();
        self.in_flight
    }

    /// The client has a message. Returns whether it was sent.
    pub(super) fn acknowledged(&mut self, id: u16) -> bool {
        self.in_flight.remove(id)
    }

    /// Sends a message of a subscription.
    pub(super) fn deliver(
        &mut self,
        options: &Options,
        delivery: Delivery,
        coverage: Option<String>,
        due: Due,
        wall_ms: u64,
    ) {
        let Delivery { message, stamp, retained, .. } = delivery;
        let is_own = || message.publication().is_some_and(|publication| publication.publisher == self.own);
        if options.no_local && is_own() {
            due.settle();
            return;
        }
        let retain = if options.as_published { message.is_retained() } else { retained };
        let qos = if is_at_most_once(&message) { Qos::AtMostOnce } else { options.qos };
        let sent = Sent { message, stamp, retain, identifier: options.identifier, coverage, due };
        if qos == Qos::AtMostOnce {
            sent.write(&mut self.out, None, wall_ms);
            sent.due.settle();
            return;
        }
        let id = self.in_flight.next();
        // What is too long for the client is treated as if it had it.
        if sent.write(&mut self.out, Some(id), wall_ms) {
            self.in_flight.insert(id, sent);
        } else {
            sent.due.settle();
        }
    }
}
