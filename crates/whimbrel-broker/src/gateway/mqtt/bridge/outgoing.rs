//! Messages to the other side.
//!
//! Each rule reads from the buffer, as a subscription does. While the other side is away, nothing is queued: the rule keeps its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::{Delivery, Fate, Told};
use whimbrel_pubsub::frame::{Recover, Refusal, Slow, Start};
use whimbrel_pubsub::message::{ChannelId, Message, Stamp};

use super::super::codec::{Out, Properties, PropertyList, Version};
use super::super::message::{expiry_of, properties_of};
use super::hops::HOPS;
use super::rule::BridgeRule;
use super::state::Bridge;
use crate::hub::{Attach, Attachment, Client, Form, Hub, Progress, Promise};
use crate::selection::Selection;

/// The most messages that the other side may not have acknowledged.
const MOST_IN_FLIGHT: usize = 64;
/// The most bytes of them, the last one not counted.
const MOST_IN_FLIGHT_BYTES: usize = 1 << 20;
/// Messages are read while fewer bytes wait for the socket.
const ROOM: usize = 64 << 10;
/// The most arrivals that are looked at in one go.
const STEPS: u32 = 4_096;

/// The messages of all rules of a bridge to the other side. It outlives connections.
#[derive(Debug)]
pub(super) struct Outgoing {
    readers: Vec<(BridgeRule, Attachment)>,
    /// Whether there may be more to read, whoever wakes it.
    has_more: bool,
    notify: Arc<Notify>,
    in_flight: BTreeMap<u16, Sent>,
    bytes: usize,
    last: u16,
    /// The limits of the other side.
    taken: Limits,
}

/// The limits of the other side of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// The most messages that it may not have acknowledged.
    pub(super) receive_maximum: u16,
    /// Whether it acknowledges messages.
    pub(super) acknowledges: bool,
    /// Whether it takes last values.
    pub(super) retains: bool,
}

/// A message that was not acknowledged yet.
#[derive(Debug)]
struct Sent {
    topic: String,
    hops: String,
    stamp: Stamp,
    message: Message,
}

impl Outgoing {
    /// Attaches the rules. They begin with what is published from now on, and with last values.
    pub(super) fn attach(
        hub: &Arc<Hub>,
        client: &Arc<Client>,
        rules: &[BridgeRule],
    ) -> Result<Self, Refusal> {
        let notify = Arc::<Notify>::default();
        let id = crate::hub::random();
        let attached = rules.iter().map(|rule| {
            let selection = Selection::new(rule.filter.clone(), None);
            let (recover, slow, start) = (Recover::First, Slow::Wait, Start::Live);
            let attach = Attach { selection, recover, slow, start, state: None, form: Form(0) };
            let mut attachment = hub.attach_with(id, attach, Arc::clone(&notify))?;
            attachment.introduce(client, Promise::SemiDurable);
            Ok((rule.clone(), attachment))
        });
        Ok(Self {
            readers: attached.collect::<Result<_, Refusal>>()?,
            has_more: true,
            notify,
            in_flight: BTreeMap::new(),
            bytes: 0,
            last: 0,
            taken: Limits::default(),
        })
    }

    /// A connection begins. What was not acknowledged in the former one is sent again.
    pub(super) fn resume(&mut self, bridge: &Bridge, taken: Limits, out: &mut Out) {
        (self.taken, self.has_more) = (taken, true);
        let mut given_up = Vec::new();
        for (id, sent) in &self.in_flight {
            let at = out.len();
            if sent.write(bridge, taken, Some(*id), out) {
                // The flag DUP.
                out.bytes()[at] |= 8;
            } else {
                given_up.push(*id);
            }
        }
        given_up.into_iter().for_each(|id| self.acknowledged(bridge, id, true));
    }

    /// The other side has a message, or refuses it.
    pub(super) fn acknowledged(&mut self, bridge: &Bridge, id: u16, is_refused: bool) {
        if let Some(sent) = self.in_flight.remove(&id) {
            self.bytes -= sent.message.encoded().len();
            bridge.figures.refused.add(is_refused.into());
            bridge.figures.on_in_flight(self.in_flight.len());
        }
    }

    /// Waits until there may be something to send.
    pub(super) async fn woken(&self) {
        if !self.has_more && !self.readers.iter().any(|(_, reader)| reader.is_ready()) {
            self.notify.notified().await;
        }
    }

    /// Whether another message may be sent.
    pub(super) fn has_room(&self, out: &Out) -> bool {
        let most = MOST_IN_FLIGHT.min(self.taken.receive_maximum.into());
        self.in_flight.len() < most && self.bytes < MOST_IN_FLIGHT_BYTES && out.len() < ROOM
    }

    /// Reads what there is, as far as there is room.
    pub(super) async fn read(&mut self, bridge: &Bridge, out: &mut Out) {
        self.has_more = false;
        for at in 0..self.readers.len() {
            if !self.has_room(out) {
                self.has_more = true;
                return;
            }
            let turn = match self.readers[at].1.is_recovering() {
                true => Some((bridge.hub.turns().begin().await, std::time::Instant::now())),
                false => None,
            };
            let progress = self.read_one(bridge, at, out);
            if let Some((turn, began)) = turn {
                bridge.hub.turns().end(turn, began.elapsed()).await;
            }
            self.has_more |= progress == Progress::More;
        }
    }

    fn read_one(&mut self, bridge: &Bridge, at: usize, out: &mut Out) -> Progress {
        let Self { readers, in_flight, bytes, last, taken, .. } = self;
        let (rule, reader) = &mut readers[at];
        let most = MOST_IN_FLIGHT.min(taken.receive_maximum.into());
        let mut sink = |_: ChannelId, told: Told| {
            match told {
                Told::Delivery(delivery) => {
                    if let Some(sent) = Sent::of(bridge, rule, delivery) {
                        let id = (rule.is_acknowledged && taken.acknowledges).then(|| next(in_flight, last));
                        sent.go(bridge, *taken, id, out, (in_flight, bytes));
                    }
                }
                Told::Fate { fate: Fate::Gone, count, .. } => {
                    bridge.figures.lost.add(count.number);
                }
                _ => {}
            }
            in_flight.len() < most && *bytes < MOST_IN_FLIGHT_BYTES && out.len() < ROOM
        };
        reader.read(true, STEPS, &mut sink)
    }
}

/// The next free packet identifier: there are fewer messages than identifiers.
fn next(in_flight: &BTreeMap<u16, Sent>, last: &mut u16) -> u16 {
    loop {
        // The last is that of SUBSCRIBE.
        *last = *last % (u16::MAX - 1) + 1;
        if !in_flight.contains_key(last) {
            return *last;
        }
    }
}

impl Sent {
    /// A message that goes to the other side. `None`: it has been there, or is none of the rule's.
    fn of(bridge: &Bridge, rule: &BridgeRule, delivery: Delivery) -> Option<Self> {
        let Delivery { message, stamp, .. } = delivery;
        let topic = rule.rename(message.topic())?;
        let hops = hops_of(&message);
        let was_there = bridge.other().is_among(&hops) || bridge.here.is_among(&hops);
        let hops = if was_there { None } else { bridge.here.after(&hops) };
        if hops.is_none() {
            bridge.figures.loops.add(1);
        }
        Some(Self { topic, hops: hops?, stamp, message })
    }

    fn go(
        self,
        bridge: &Bridge,
        taken: Limits,
        id: Option<u16>,
        out: &mut Out,
        (in_flight, bytes): (&mut BTreeMap<u16, Self>, &mut usize),
    ) {
        if out.version() == Version::V3 {
            bridge.echoes().expect(&self.topic, &self.message.payload(), bridge.hub.clock().time());
        }
        if !self.write(bridge, taken, id, out) {
            bridge.figures.refused.add(1);
            return;
        }
        bridge.figures.sent.add(1);
        if let Some(id) = id {
            *bytes += self.message.encoded().len();
            in_flight.insert(id, self);
            bridge.figures.on_in_flight(in_flight.len());
        }
    }

    /// Writes the message. Returns whether the other side takes one so long.
    fn write(&self, bridge: &Bridge, taken: Limits, id: Option<u16>, out: &mut Out) -> bool {
        let mut properties = PropertyList::default();
        if out.version() == Version::V5 {
            properties = properties_without_hops(&self.message);
            properties.user(HOPS, &self.hops);
            let wall_ms = bridge.hub.clock().now().wall_ms;
            if let Some(seconds) = expiry_of(&self.message, &self.stamp, wall_ms) {
                properties.u32(0x02, seconds);
            }
        }
        let retain = self.message.is_retained() && taken.retains;
        out.publish(&self.topic, id, retain, &properties, &self.message.payload())
    }
}

/// The hops that a message has made. Empty if there are none.
fn hops_of(message: &Message) -> String {
    let list = properties_of(message);
    let said = Properties::of_message(list.as_bytes());
    said.ok().and_then(|said| said.user(HOPS).map(str::to_owned)).unwrap_or_default()
}

fn properties_without_hops(message: &Message) -> PropertyList {
    let list = properties_of(message);
    let Ok(mut said) = Properties::of_message(list.as_bytes()) else { return PropertyList::default() };
    said.user.retain(|(name, _)| *name != HOPS);
    said.to_list()
}
