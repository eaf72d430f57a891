//! Brokers whose clocks are wrong: all agree on last values, and what is published later counts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use whimbrel_broker::buffer::{Channel, ChannelSettings, LATEST, Picks, Published, Reach, Received, Refusal};
use whimbrel_broker::roaming::{From, Read, Reader, Recover, Slow, Wanted, Wish};
use whimbrel_broker::{Now, Time};
use whimbrel_pubsub::coverage::{ChannelCoverage, Told};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Hlc, Message, Origin, PartitionId, Stamp};

const TODAY_MS: u64 = 1_700_000_000_000;
const YEAR_MS: u64 = 365 * 86_400_000;

/// A broker, and how far its clock is ahead.
struct Broker {
    channel: Channel,
    ahead_ms: u64,
}

impl Broker {
    fn new(id: u64, ahead_ms: u64) -> Self {
        let peers = (1..=4).filter(|peer| *peer != id).map(BrokerId).collect();
        let settings = ChannelSettings { peers, ..ChannelSettings::new(ChannelId(0)) };
        let own = Origin { broker: BrokerId(id), epoch: 1 };
        Self { channel: Channel::new(settings, own, Time::ZERO), ahead_ms }
    }

    fn now(&self, seconds: u64) -> Now {
        let time = Time::at(Duration::from_secs(seconds));
        Now { time, wall_ms: TODAY_MS + self.ahead_ms + 1_000 * seconds }
    }

    fn publish(&mut self, message: &Message, seconds: u64) -> (Stamp, Message) {
        let now = self.now(seconds);
        let Published::Taken(stamp) = self.channel.publish(message.clone(), now).unwrap() else { panic!() };
        (stamp, message.clone())
    }

    fn receive(&mut self, (stamp, message): &(Stamp, Message), seconds: u64) {
        let now = self.now(seconds);
        let received = self.channel.receive(*stamp, message.clone(), Duration::ZERO, now);
        assert_eq!(received, Ok(Received::Taken));
    }

    /// The last value of the topic `t`.
    fn value(&self, seconds: u64) -> Option<Vec<u8>> {
        let value = self.channel.retained().find(b"t")?;
        Some(value.message(self.now(seconds).time)?.payload().to_vec())
    }
}

fn retained(payload: &[u8]) -> Message {
    Draft { topic: "t", retain: true, payload, ..Draft::default() }.finish().unwrap()
}

#[derive(Debug)]
struct Everything;

impl Picks for Everything {
    fn picks(&self, _: &Message) -> bool {
        true
    }
}

fn deliveries(broker: &Broker, recover: Recover, seconds: u64) -> Vec<Vec<u8>> {
    let wanted = Wanted { picks: Arc::new(Everything), reach: vec![Reach::Whole] };
    let from = From::Coverage(ChannelCoverage::default());
    let now = broker.now(seconds).time;
    let mut reader = Reader::attach(&broker.channel, Wish { wanted, from, recover, slow: Slow::Wait }, now);
    let mut delivered = Vec::new();
    while let Read::Told(told) = reader.read(&broker.channel, now, true, &mut 1_000_000) {
        if let Told::Delivery(delivery) = told {
            delivered.push(delivery.message.payload().to_vec());
        }
    }
    delivered
}

/// All orders of these.
fn orders(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |first: &usize| {
        let rest: Vec<_> = of.iter().copied().filter(|other| other != first).collect();
        orders(&rest).into_iter().map(|order| [vec![*first], order].concat()).collect::<Vec<_>>()
    };
    of.iter().flat_map(with_first).collect()
}

#[test]
fn regression_what_is_published_after_a_value_from_the_future_replaces_it_at_every_broker() {
    let mut brokers = [Broker::new(1, YEAR_MS), Broker::new(2, 0), Broker::new(3, 0)];
    let mut published: Vec<(Stamp, Message)> = Vec::new();
    // Each has received all before when it publishes: the one ahead, one of today, another one, and the one ahead again.
    let turns: [(usize, &[u8]); 5] = [(0, b"future"), (1, b"first"), (2, b"second"), (0, b"again"), (1, b"")];
    for (at, (turn, payload)) in turns.into_iter().enumerate() {
        let message = brokers[turn].publish(&retained(payload), at as u64);
        for (other, broker) in brokers.iter_mut().enumerate() {
            if other != turn {
                broker.receive(&message, at as u64);
            }
        }
        let wanted = (!payload.is_empty()).then(|| payload.to_vec());
        brokers.iter().for_each(|broker| assert_eq!(broker.value(at as u64), wanted, "turn {at}"));
        published.push(message);
    }
    // In whatever order they come to a broker, it finds the same.
    for last in 1..=published.len() {
        let payload = published[last - 1].1.payload().to_vec();
        let wanted = (!payload.is_empty()).then_some(payload);
        for order in orders(&(0..last).collect::<Vec<_>>()) {
            let mut late = Broker::new(4, 0);
            order.iter().for_each(|at| late.receive(&published[*at], 9));
            assert_eq!(late.value(9), wanted, "{order:?}");
        }
    }
}

#[test]
fn a_value_from_the_future_moves_the_time_of_nothing_else_and_ends_in_time() {
    let (mut ahead, mut today) = (Broker::new(1, YEAR_MS), Broker::new(2, 0));
    let lifetime = Some(Duration::from_secs(10));
    let short = Draft { topic: "t", retain: true, payload: b"short", lifetime, ..Draft::default() };
    let short = ahead.publish(&short.finish().unwrap(), 0);
    today.receive(&short, 0);
    // Other topics, other messages of this topic, and later readings go by this broker's own clock.
    let bounds =
        |seconds: u64| Hlc::at(TODAY_MS + 1_000 * seconds)..Hlc::at(TODAY_MS + 1_000 * seconds + 1_000);
    let other = Draft { topic: "u", retain: true, payload: b"other", ..Draft::default() }.finish().unwrap();
    let plain = Draft { topic: "t", payload: b"plain", ..Draft::default() }.finish().unwrap();
    for (message, seconds) in [(&other, 5), (&plain, 6)] {
        assert!(bounds(seconds).contains(&today.publish(message, seconds).0.published));
    }
    assert_eq!(today.value(9), Some(b"short".to_vec()));
    assert_eq!(today.value(10), None, "its lifetime ended");
    let after = today.publish(&retained(b"after"), 11);
    assert!(after.0.published > short.0.published, "what ended is not brought back by an older one");
    assert_eq!(today.value(11), Some(b"after".to_vec()));
    assert!(bounds(12).contains(&today.publish(&other, 12).0.published));
    // Ages go by monotonic clocks.
    let young = deliveries(&today, Recover::MaxAge(Duration::from_secs(4)), 12);
    assert_eq!(young, [b"after".to_vec(), b"other".to_vec()]);
}

#[test]
fn regression_the_newest_of_a_key_is_the_one_that_was_published_after_another_from_the_future() {
    let keyed =
        |payload| Draft { topic: "t", key: Some(b"k"), payload, ..Draft::default() }.finish().unwrap();
    let (mut ahead, mut today) = (Broker::new(1, YEAR_MS), Broker::new(2, 0));
    let future = ahead.publish(&keyed(b"future"), 0);
    today.receive(&future, 0);
    let after = today.publish(&keyed(b"after"), 1);
    ahead.receive(&after, 1);
    for broker in [&ahead, &today] {
        assert_eq!(deliveries(broker, Recover::NewestPerKey, 2), [b"after".to_vec()]);
    }
}

/// A peer may say what it wants. The time has an end, which overflows nowhere, and is one topic's alone.
#[test]
fn regression_a_time_without_end_is_refused_everywhere_and_the_last_time_harms_one_topic() {
    let mut broker = Broker::new(2, 0);
    let origin = Origin { broker: BrokerId(1), epoch: 1 };
    let stamp = |sequence, published| Stamp {
        origin,
        sequence,
        partition: PartitionId(0),
        ordinal: sequence,
        published,
    };
    for published in [Hlc(u64::MAX), Hlc(LATEST.0 + 1)] {
        let now = broker.now(0);
        let refused = broker.channel.receive(stamp(1, published), retained(b"max"), Duration::ZERO, now);
        assert_eq!(refused, Err(Refusal::TooLate(published)));
    }
    assert!(broker.channel.retained().is_empty() && broker.channel.log_of(origin).is_none());
    broker.receive(&(stamp(1, LATEST), retained(b"last")), 0);
    let mut other = Broker::new(3, 0);
    other.receive(&(stamp(1, LATEST), retained(b"last")), 0);
    for at in 1..4 {
        let next = broker.publish(&retained(b"next"), at);
        assert_eq!(next.0.published, LATEST);
        other.receive(&next, at);
    }
    assert_eq!(broker.value(4), other.value(4), "they still agree");
    let elsewhere = Draft { topic: "u", retain: true, payload: b"x", ..Draft::default() }.finish().unwrap();
    assert!(broker.publish(&elsewhere, 5).0.published < Hlc::at(TODAY_MS + 6_000));
}
