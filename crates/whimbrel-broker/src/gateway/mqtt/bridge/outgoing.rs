//! Messages to the other side.
//!
//! Each rule reads from the buffer, as a subscription does. While the other side is away, nothing is queued: the rule keeps its place.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;
use whimbrel_pubsub::coverage::{Delivery, Fate, Told};
use whimbrel_pubsub::frame::{Recover, Refusal, Slow, Start};
use whimbrel_pubsub::message::{ChannelId, Message, Stamp};

use super::super::codec::{Out, Properties, PropertyList, Qos, Version};
use super::super::message::{expiry_of, properties_of};
use super::hops::HOPS;
use super::rule::BridgeRule;
use super::state::Bridge;
use crate::hub::{Attach, Attachment, Client, Form, Hub, Progress, SubscriberRecord, SubscriptionKind};
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
    in_flight: InFlight,
    /// The limits of the other side.
    taken: Limits,
}

/// The messages that were not acknowledged, in order.
#[derive(Debug, Default)]
struct InFlight {
    messages: VecDeque<(u16, Sent)>,
    /// The number of those at the front that were sent in this connection. The others were sent before, and wait to be sent again.
    now: usize,
    bytes: usize,
    last: u16,
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
            attachment.introduce(client, SubscriptionKind::SemiDurable);
            Ok((rule.clone(), attachment))
        });
        Ok(Self {
            readers: attached.collect::<Result<_, Refusal>>()?,
            has_more: true,
            notify,
            in_flight: InFlight::default(),
            taken: Limits::default(),
        })
    }

    /// The records of what reads for each rule.
    pub(super) fn records(&self) -> Vec<Arc<SubscriberRecord>> {
        self.readers.iter().filter_map(|(_, reader)| reader.record()).collect()
    }

    /// A connection begins. What was not acknowledged in the former one is sent again, as far as the other side takes it. The rest waits for
    /// its turn.
    pub(super) fn resume(&mut self, bridge: &Bridge, taken: Limits, out: &mut Out) {
        (self.taken, self.has_more) = (taken, true);
        self.in_flight.now = 0;
        self.send_again(bridge, out);
    }

    /// The other side has a message, or refuses it.
    pub(super) fn acknowledged(&mut self, bridge: &Bridge, id: u16, is_refused: bool) {
        if self.in_flight.remove(id) {
            bridge.figures.refused.add(is_refused.into());
            bridge.figures.on_in_flight(self.in_flight.messages.len());
        }
    }

    /// Sends messages again that were sent in a former connection.
    fn send_again(&mut self, bridge: &Bridge, out: &mut Out) {
        let Self { in_flight, taken, .. } = self;
        while let Some((id, sent)) = in_flight.next(*taken)
            && out.len() < ROOM
        {
            let at = out.len();
            let is_taken = sent.write(bridge, *taken, taken.acknowledges.then_some(id), out);
            if is_taken && taken.acknowledges {
                // The flag DUP.
                out.bytes()[at] |= 8;
                in_flight.now += 1;
            } else {
                // At QoS 0 there is no answer, and what is too long is given up.
                in_flight.remove(id);
                bridge.figures.refused.add((!is_taken).into());
                bridge.figures.on_in_flight(in_flight.messages.len());
            }
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
        self.in_flight.has_room(self.taken) && out.len() < ROOM
    }

    /// Reads what there is, as far as there is room.
    pub(super) async fn read(&mut self, bridge: &Bridge, out: &mut Out) {
        self.has_more = false;
        self.send_again(bridge, out);
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
        let Self { readers, in_flight, taken, .. } = self;
        let (rule, reader) = &mut readers[at];
        let mut sink = |_: ChannelId, told: Told| {
            match told {
                Told::Delivery(delivery) => {
                    if let Some(sent) = Sent::of(bridge, rule, delivery) {
                        let id = (rule.is_acknowledged && taken.acknowledges).then(|| in_flight.next_id());
                        sent.go(bridge, *taken, id, out, in_flight);
                    }
                }
                Told::Fate { fate: Fate::Gone, count, .. } => {
                    bridge.figures.lost.add(count.number);
                }
                _ => {}
            }
            in_flight.has_room(*taken) && out.len() < ROOM
        };
        reader.read(true, STEPS, &mut sink)
    }
}

impl InFlight {
    /// Whether the other side may be sent another message that it did not see before.
    fn has_room(&self, taken: Limits) -> bool {
        self.messages.len() < taken.most() && self.bytes < MOST_IN_FLIGHT_BYTES
    }

    /// The first message that waits to be sent again, if the other side may be sent it.
    fn next(&self, taken: Limits) -> Option<(u16, &Sent)> {
        let (id, sent) = self.messages.get(self.now)?;
        (self.now < taken.most()).then_some((*id, sent))
    }

    /// The next free packet identifier: there are fewer messages than identifiers.
    fn next_id(&mut self) -> u16 {
        loop {
            // The last is that of SUBSCRIBE.
            self.last = self.last % (u16::MAX - 1) + 1;
            if self.messages.iter().all(|(id, _)| *id != self.last) {
                return self.last;
            }
        }
    }

    /// A message was sent for the first time. None waits to be sent again then.
    fn push(&mut self, id: u16, sent: Sent) {
        self.bytes += sent.message.encoded().len();
        self.messages.push_back((id, sent));
        self.now += 1;
    }

    fn remove(&mut self, id: u16) -> bool {
        let at = self.messages.iter().position(|(of, _)| *of == id);
        let Some((at, (_, sent))) = at.and_then(|at| Some((at, self.messages.remove(at)?))) else {
            return false;
        };
        self.bytes -= sent.message.encoded().len();
        self.now -= usize::from(at < self.now);
        true
    }
}

impl Limits {
    /// The most messages that may be on their way.
    fn most(self) -> usize {
        MOST_IN_FLIGHT.min(self.receive_maximum.into())
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

    fn go(self, bridge: &Bridge, taken: Limits, id: Option<u16>, out: &mut Out, in_flight: &mut InFlight) {
        if !self.write(bridge, taken, id, out) {
            bridge.figures.refused.add(1);
            return;
        }
        bridge.figures.sent.add(1);
        if let Some(id) = id {
            in_flight.push(id, self);
            bridge.figures.on_in_flight(in_flight.messages.len());
        }
    }

    /// Writes the message, with an identifier at QoS 1 and without one at QoS 0. Returns whether the other side takes one so long.
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
        let at = id.map_or((Qos::AtMostOnce, 0), |id| (Qos::AtLeastOnce, id));
        let before = out.len();
        let is_taken = out.publish(&self.topic, at, retain, &properties, &self.message.payload());
        bridge.figures.sent_bytes.add((out.len() - before) as u64);
        if is_taken && out.version() == Version::V3 {
            // It sends back each that it gets, however often.
            bridge.echoes().expect(&self.topic, &self.message.payload(), bridge.hub.clock().time());
        }
        is_taken
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;
    use whimbrel_pubsub::coverage::ClusterId;
    use whimbrel_pubsub::message::{BrokerId, Draft};

    use super::super::super::codec::frame;
    use super::super::plan::{BridgePlan, BridgeVersion};
    use super::*;
    use crate::hub::{BrokerName, ChannelRules, Finding};

    const LIMITS: Limits = Limits { receive_maximum: u16::MAX, acknowledges: true, retains: true };

    /// A bridge that carries everything, and its hub.
    fn bridge() -> (Bridge, Outgoing) {
        let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(2), name: "b".to_owned() };
        let hub = Hub::new(name, vec![ChannelRules::all_topics()], crate::matching::Limits::default());
        let none = String::new();
        let (strip, prefix, is_acknowledged) = (none.clone(), none, true);
        let rule = BridgeRule { filter: "#".parse().unwrap(), strip, prefix, is_acknowledged };
        let plan = BridgePlan {
            name: "b".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 1,
            tls: None,
            user: None,
            password: None,
            client: "b".to_owned(),
            version: BridgeVersion::Newest,
            keep_alive: Duration::ZERO,
            session: Duration::ZERO,
            out: vec![rule.clone()],
            from: vec![rule.clone()],
        };
        let outgoing = Outgoing::attach(&hub, &Arc::new(Client::new("b", None)), &[rule]).unwrap();
        (Bridge::new(plan, &hub, Vec::new(), Arc::new(|_: &str| {}), watch::channel(false).1), outgoing)
    }

    fn publish(bridge: &Bridge, numbers: std::ops::RangeInclusive<u8>) {
        for number in numbers {
            let message = Draft { topic: "t", payload: &[number], ..Draft::default() }.finish().unwrap();
            bridge.hub.publish(message, &mut Finding::default()).unwrap();
        }
    }

    /// The messages that were sent: first bytes and numbers.
    fn sent(out: &mut Out) -> Vec<(u8, u8)> {
        let mut rest = std::mem::take(out.bytes());
        std::iter::from_fn(|| {
            let place = frame(&rest, usize::MAX).unwrap()?;
            let packet = rest.split_to(place.end);
            Some((packet[0], *packet.last()?))
        })
        .collect()
    }

    #[tokio::test]
    async fn regression_what_is_sent_again_keeps_to_the_limits_of_the_other_side() {
        let (bridge, mut outgoing) = bridge();
        let mut out = Out::new(Version::V5);
        outgoing.resume(&bridge, LIMITS, &mut out);
        publish(&bridge, 1..=4);
        outgoing.read(&bridge, &mut out).await;
        assert_eq!(sent(&mut out), [(0x32, 1), (0x32, 2), (0x32, 3), (0x32, 4)]);
        outgoing.resume(&bridge, Limits { receive_maximum: 2, ..LIMITS }, &mut out);
        assert_eq!(sent(&mut out), [(0x3a, 1), (0x3a, 2)]);
        publish(&bridge, 5..=5);
        outgoing.acknowledged(&bridge, 2, false);
        outgoing.read(&bridge, &mut out).await;
        assert_eq!(sent(&mut out), [(0x3a, 3)]);
        [1, 3].into_iter().for_each(|id| outgoing.acknowledged(&bridge, id, false));
        outgoing.read(&bridge, &mut out).await;
        assert_eq!(sent(&mut out), [(0x3a, 4), (0x32, 5)]);
        // A broker that takes QoS 0 alone answers nothing.
        outgoing.resume(&bridge, Limits { acknowledges: false, ..LIMITS }, &mut out);
        assert_eq!(sent(&mut out), [(0x30, 4), (0x30, 5)]);
        let report = bridge.report();
        assert_eq!((report.sent, report.in_flight, report.refused, outgoing.in_flight.bytes), (5, 0, 0, 0));
    }

    /// A broker of MQTT 3.1.1 sends back what it gets, each time.
    #[tokio::test]
    async fn regression_the_echo_of_what_is_sent_again_is_expected_too() {
        let (bridge, mut outgoing) = bridge();
        let mut out = Out::new(Version::V3);
        outgoing.resume(&bridge, LIMITS, &mut out);
        publish(&bridge, 1..=1);
        outgoing.read(&bridge, &mut out).await;
        outgoing.resume(&bridge, LIMITS, &mut out);
        assert_eq!(sent(&mut out), [(0x32, 1), (0x3a, 1)]);
        let is_echo = || bridge.echoes().is_echo("t", &[1], bridge.hub.clock().time());
        assert_eq!([is_echo(), is_echo(), is_echo()], [true, true, false]);
        // What was not sent has none.
        out.limit(4, true);
        outgoing.resume(&bridge, LIMITS, &mut out);
        assert!(sent(&mut out).is_empty() && !is_echo());
        assert_eq!((bridge.report().in_flight, bridge.report().refused), (0, 1));
    }
}
