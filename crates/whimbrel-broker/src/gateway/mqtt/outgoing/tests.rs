//! What a client gets, whatever it answers and however often its connection is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use whimbrel_pubsub::coverage::{Cover, Range};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Hlc, Origin, PartitionId, Stamp};
use whimbrel_pubsub::property::{Properties, Value};

use super::super::acknowledged::{Acknowledged as Covered, Mark};
use super::super::codec::{Version, frame};
use super::*;
use crate::store::{MessageName, SubscriptionName};

const ORIGIN: Origin = Origin { broker: BrokerId(1), epoch: 7 };
const EVERYTHING: Options =
    Options { qos: Qos::ExactlyOnce, no_local: false, as_published: false, identifier: None };

fn connection(version: Version, window: usize) -> Outgoing {
    Outgoing::new(Out::new(version), window, PublisherId(0), &Quota::default())
}

/// A message that was published at a QoS. Its payload is its number.
fn delivery(number: u64, qos: Qos) -> Delivery {
    let flags = match qos {
        Qos::AtMostOnce => vec![1],
        Qos::AtLeastOnce => Vec::new(),
        Qos::ExactlyOnce => vec![4],
    };
    let carried = (!flags.is_empty()).then_some(("$mqtt", Value::Bytes(&flags)));
    let properties = Properties::new(carried).unwrap();
    let payload = number.to_string();
    let draft = Draft {
        topic: "t",
        properties: properties.as_bytes(),
        payload: payload.as_bytes(),
        ..Draft::default()
    };
    let stamp = Stamp {
        origin: ORIGIN,
        sequence: number,
        partition: PartitionId(0),
        ordinal: number,
        published: Hlc(number),
    };
    Delivery {
        cover: cover(number),
        stamp,
        message: draft.finish().unwrap(),
        recovered: false,
        late: false,
        retained: false,
    }
}

fn cover(number: u64) -> Cover {
    Cover { origin: ORIGIN, range: Range { first: number, last: number } }
}

fn deliver(outgoing: &mut Outgoing, number: u64, qos: Qos) {
    outgoing.deliver(&EVERYTHING, delivery(number, qos), None, Due::Nothing, 0);
}

/// The packets that were sent: the first byte, the packet identifier, and the payload of a message or the reason of MQTT 5.
fn sent(outgoing: &mut Outgoing) -> Vec<(u8, u16, String)> {
    let version = outgoing.out.version();
    let mut rest = std::mem::take(outgoing.out.bytes());
    let mut packets = Vec::new();
    while let Some(place) = frame(&rest, usize::MAX).unwrap() {
        let packet = rest.split_to(place.end);
        let (first, body) = (packet[0], &packet[place.body..]);
        if first >> 4 != 3 {
            let reason = body.get(2).map(|code| format!("{code:02x}")).unwrap_or_default();
            packets.push((first, u16::from_be_bytes([body[0], body[1]]), reason));
            continue;
        }
        let has_id = first & 6 != 0;
        let id = if has_id { u16::from_be_bytes([body[3], body[4]]) } else { 0 };
        let at = 3 + if has_id { 2 } else { 0 } + usize::from(version == Version::V5);
        packets.push((first, id, String::from_utf8(body[at..].to_vec()).unwrap()));
    }
    packets
}

fn packet(first: u8, id: u16, text: &str) -> (u8, u16, String) {
    (first, id, text.to_owned())
}

/// The next connection of the same client.
fn again(outgoing: Outgoing, version: Version, window: usize) -> Outgoing {
    let mut next = connection(version, window);
    next.resume(outgoing.into_in_flight(), 0);
    next
}

/// All that was in flight was sent at once, in the order of identifiers, and all of it with DUP.
#[test]
fn regression_what_is_sent_again_keeps_to_the_new_receive_maximum_and_the_old_order() {
    let mut outgoing = connection(Version::V5, 3);
    // Identifiers begin anew on the way.
    outgoing.in_flight.set_last(u16::MAX - 1);
    (1..=4).for_each(|number| deliver(&mut outgoing, number, Qos::AtLeastOnce));
    let [first, second, third, fourth] = [u16::MAX, 1, 2, 3];
    let all = [packet(0x32, first, "1"), packet(0x32, second, "2"), packet(0x32, third, "3")];
    assert_eq!(sent(&mut outgoing), all);
    let mut outgoing = again(outgoing, Version::V5, 2);
    assert_eq!(sent(&mut outgoing), [packet(0x3a, first, "1"), packet(0x3a, second, "2")]);
    assert!(!outgoing.has_room(&EVERYTHING));
    outgoing.acknowledged(second).unwrap();
    outgoing.send_ready(0);
    assert_eq!(sent(&mut outgoing), [packet(0x3a, third, "3")]);
    outgoing.acknowledged(first).unwrap();
    outgoing.send_ready(0);
    assert_eq!(sent(&mut outgoing), [packet(0x32, fourth, "4")], "it was not sent before");
    // One that waits is acknowledged by its former identifier.
    let mut outgoing = again(outgoing, Version::V5, 1);
    assert_eq!(sent(&mut outgoing), [packet(0x3a, third, "3")]);
    outgoing.acknowledged(fourth).unwrap();
    outgoing.acknowledged(third).unwrap();
    outgoing.send_ready(0);
    assert_eq!((sent(&mut outgoing), outgoing.in_flight.len(), outgoing.in_flight.bytes()), (vec![], 0, 0));
}

#[test]
fn a_message_at_qos_2_takes_four_steps_and_keeps_its_identifier_until_the_last() {
    for version in [Version::V3, Version::V5] {
        let mut outgoing = connection(version, 2);
        deliver(&mut outgoing, 1, Qos::ExactlyOnce);
        assert_eq!(sent(&mut outgoing), [packet(0x34, 1, "1")]);
        for _ in 0..2 {
            outgoing.received(1, Reason::SUCCESS).unwrap();
            assert_eq!(sent(&mut outgoing), [packet(0x62, 1, "")], "also when it is said twice");
        }
        // It counts until it is complete, and its identifier is no other message's.
        outgoing.in_flight.set_last(0);
        deliver(&mut outgoing, 2, Qos::ExactlyOnce);
        assert_eq!(sent(&mut outgoing), [packet(0x34, 2, "2")]);
        assert!(!outgoing.has_room(&EVERYTHING));
        outgoing.completed(1).unwrap();
        assert!(outgoing.has_room(&EVERYTHING));
        outgoing.completed(1).unwrap();
        outgoing.in_flight.set_last(0);
        deliver(&mut outgoing, 3, Qos::ExactlyOnce);
        assert_eq!(sent(&mut outgoing), [packet(0x34, 1, "3")]);
        // A subscription raises no QoS.
        let mut outgoing = connection(version, 9);
        [Qos::AtMostOnce, Qos::AtLeastOnce].into_iter().for_each(|qos| deliver(&mut outgoing, 1, qos));
        assert_eq!(sent(&mut outgoing), [packet(0x30, 0, "1"), packet(0x32, 1, "1")]);
    }
}

#[test]
fn what_is_not_complete_goes_on_in_the_next_connection() {
    let mut outgoing = connection(Version::V5, 9);
    (1..=3).for_each(|number| deliver(&mut outgoing, number, Qos::ExactlyOnce));
    outgoing.received(2, Reason::SUCCESS).unwrap();
    sent(&mut outgoing);
    let mut outgoing = again(outgoing, Version::V5, 2);
    assert_eq!(sent(&mut outgoing), [packet(0x62, 2, ""), packet(0x3c, 1, "1")]);
    outgoing.completed(2).unwrap();
    outgoing.send_ready(0);
    assert_eq!(sent(&mut outgoing), [packet(0x3c, 3, "3")]);
}

#[test]
fn answers_that_are_wrong_are_answered_or_end_the_connection() {
    let mut outgoing = connection(Version::V5, 1);
    deliver(&mut outgoing, 1, Qos::ExactlyOnce);
    deliver(&mut outgoing, 2, Qos::ExactlyOnce);
    sent(&mut outgoing);
    // What was never sent is unknown.
    for id in [2, 77] {
        outgoing.received(id, Reason::SUCCESS).unwrap();
        assert_eq!(sent(&mut outgoing), [packet(0x62, id, "92")]);
        outgoing.received(id, Reason::QUOTA).unwrap();
        outgoing.completed(id).unwrap();
        outgoing.acknowledged(id).unwrap();
    }
    let is_protocol = |outcome: Result<(), Fault>| outcome.unwrap_err().reason == Reason::PROTOCOL_ERROR;
    assert!(is_protocol(outgoing.completed(1)) && is_protocol(outgoing.acknowledged(1)));
    // A message that is refused is not sent again, and its identifier is free.
    outgoing.received(1, Reason::QUOTA).unwrap();
    outgoing.send_ready(0);
    assert_eq!(sent(&mut outgoing), [packet(0x34, 2, "2")]);
    outgoing.received(2, Reason::SUCCESS).unwrap();
    outgoing.received(2, Reason::QUOTA).unwrap();
    assert!(is_protocol(outgoing.acknowledged(2)), "its identifier is not released");
    outgoing.completed(2).unwrap();
    deliver(&mut outgoing, 3, Qos::AtLeastOnce);
    assert!(is_protocol(outgoing.received(3, Reason::SUCCESS)));
    // MQTT 3.1.1 has no reasons.
    let mut outgoing = connection(Version::V3, 1);
    outgoing.received(5, Reason::SUCCESS).unwrap();
    assert_eq!(sent(&mut outgoing), [packet(0x62, 5, "")]);
}

#[test]
fn a_message_of_a_former_run_has_its_identifier_and_what_never_comes_is_released() {
    let subscription = Arc::new(SubscriptionName::new("mqtt-boat/t").unwrap());
    let covered = Arc::<Covered>::default();
    let mark = |number| Mark::new(&covered, &subscription, ChannelId(0), cover(number));
    let name = |sequence| {
        let (subscription, channel, origin) = ((*subscription).clone(), ChannelId(0), ORIGIN);
        Outbound::Sent(Some(MessageName { subscription, channel, origin, sequence }))
    };
    let found =
        vec![(1, Outbound::Released), (2, name(20)), (3, name(30)), (4, Outbound::Sent(None)), (5, name(50))];
    let mut outgoing = connection(Version::V5, 3);
    outgoing.resume(InFlight::of(found), 0);
    assert_eq!(sent(&mut outgoing), [packet(0x62, 1, "")]);
    // The client may say that it has one. That helps nobody until the message comes up.
    outgoing.received(3, Reason::SUCCESS).unwrap();
    assert_eq!(sent(&mut outgoing), []);
    let deliver = |outgoing: &mut Outgoing, number| {
        outgoing.deliver(&EVERYTHING, delivery(number, Qos::ExactlyOnce), None, Due::Store(mark(number)), 0);
    };
    outgoing.in_flight.set_last(0);
    for number in [20, 25, 30] {
        deliver(&mut outgoing, number);
    }
    assert_eq!(sent(&mut outgoing), [packet(0x3c, 2, "20"), packet(0x34, 6, "25")]);
    assert!(!outgoing.has_room(&EVERYTHING) && outgoing.has_former());
    assert!(covered.is_empty());
    outgoing.received(2, Reason::SUCCESS).unwrap();
    outgoing.completed(2).unwrap();
    assert_eq!(covered.take().len(), 1);
    outgoing.send_ready(0);
    assert_eq!(sent(&mut outgoing), [packet(0x62, 2, ""), packet(0x3c, 3, "30")]);
    // Their messages are not there any more. The client completes those that it has.
    outgoing.release_former();
    assert_eq!(sent(&mut outgoing), [packet(0x62, 4, ""), packet(0x62, 5, "")]);
    assert!(!outgoing.has_former());
    outgoing.in_flight.check();
    [1, 4, 5].into_iter().for_each(|id| outgoing.completed(id).unwrap());
    [3, 6].into_iter().for_each(|id| outgoing.received(id, Reason::SUCCESS).unwrap());
    [3, 6].into_iter().for_each(|id| outgoing.completed(id).unwrap());
    assert_eq!((outgoing.in_flight.len(), outgoing.in_flight.all_bytes()), (0, 0));
    assert_eq!(covered.take().len(), 2);
}

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A client as the standard has it: a message counts at its PUBLISH, and again only when its identifier was released.
#[derive(Default)]
struct Client {
    unreleased: BTreeSet<u16>,
    got: BTreeMap<String, usize>,
}

impl Client {
    /// Takes a packet. Returns the answer.
    fn take(&mut self, (first, id, text): (u8, u16, String)) -> (u8, u16) {
        match first >> 4 {
            3 => {
                if self.unreleased.insert(id) {
                    *self.got.entry(text).or_default() += 1;
                }
                (0x50, id)
            }
            _ => {
                self.unreleased.remove(&id);
                (0x70, id)
            }
        }
    }
}

fn answer(outgoing: &mut Outgoing, (first, id): (u8, u16)) {
    match first {
        0x50 => outgoing.received(id, Reason::SUCCESS).unwrap(),
        _ => outgoing.completed(id).unwrap(),
    }
    outgoing.send_ready(0);
}

#[test]
fn each_message_comes_once_wherever_connections_are_lost() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let mut client = Client::default();
        let mut outgoing = connection(Version::V5, 1 + dice.roll(6) as usize);
        outgoing.in_flight.set_last(u16::MAX - 20);
        let (mut number, all) = (0, 60);
        while number < all || outgoing.in_flight.len() > 0 {
            while number < all && outgoing.has_room(&EVERYTHING) && dice.roll(4) > 0 {
                number += 1;
                deliver(&mut outgoing, number, Qos::ExactlyOnce);
            }
            assert!(outgoing.in_flight.outstanding() <= outgoing.window.max(6));
            let packets = sent(&mut outgoing);
            let is_lost = dice.roll(5) == 0;
            // What was sent last is lost with its connection, in either direction.
            let arrives = if is_lost { dice.roll(packets.len() as u64 + 1) as usize } else { packets.len() };
            let answers: Vec<_> =
                packets.into_iter().take(arrives).map(|packet| client.take(packet)).collect();
            let arrives = if is_lost { dice.roll(answers.len() as u64 + 1) as usize } else { answers.len() };
            answers.into_iter().take(arrives).for_each(|one| answer(&mut outgoing, one));
            if is_lost {
                outgoing = again(outgoing, Version::V5, 1 + dice.roll(6) as usize);
            }
        }
        let wanted: BTreeMap<_, _> = (1..=all).map(|number| (number.to_string(), 1)).collect();
        assert_eq!(client.got, wanted, "seed {seed}");
        assert!(client.unreleased.is_empty() && outgoing.in_flight.bytes() == 0);
    }
}

#[test]
fn no_answers_of_a_client_break_the_books() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let mut outgoing = connection(Version::V5, 4);
        for number in 1..200 {
            if outgoing.has_room(&EVERYTHING) {
                let qos = [Qos::AtLeastOnce, Qos::ExactlyOnce][dice.roll(2) as usize];
                deliver(&mut outgoing, number, qos);
            }
            let id = dice.roll(8) as u16 + 1;
            let reason = [Reason::SUCCESS, Reason::QUOTA][dice.roll(2) as usize];
            // A fault would end the connection; here it goes on.
            drop(match dice.roll(5) {
                0 => outgoing.acknowledged(id),
                1 | 2 => outgoing.received(id, reason),
                _ => outgoing.completed(id),
            });
            outgoing.send_ready(0);
            if dice.roll(20) == 0 {
                outgoing = again(outgoing, Version::V5, 1 + dice.roll(4) as usize);
            }
            outgoing.in_flight.check();
            sent(&mut outgoing);
        }
    }
}

/// Its broker was killed again and again before the messages came up. Then no identifier was free, and the broker looked for one for ever.
#[test]
fn regression_identifiers_of_former_runs_leave_some_for_messages() {
    let former = |number: u16| {
        let mut outgoing = connection(Version::V5, 9);
        outgoing.resume(InFlight::of((1..=number).map(|id| (id, Outbound::Sent(None))).collect()), 0);
        outgoing
    };
    let mut outgoing = former(16_000);
    assert!(outgoing.has_room(&EVERYTHING));
    deliver(&mut outgoing, 1, Qos::ExactlyOnce);
    assert_eq!(sent(&mut outgoing), [packet(0x34, 16_001, "1")]);
    let mut outgoing = former(u16::MAX);
    assert!(!outgoing.has_room(&EVERYTHING));
    outgoing.release_former();
    outgoing.in_flight.check();
}
