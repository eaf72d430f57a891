//! Brokers and clients that do what they should not: what they do must not reach others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use whimbrel_broker::buffer::{
    Channel, ChannelSettings, GapAnswer, GapRequest, Picks, Reach, Received, Refusal,
};
use whimbrel_broker::roaming::{From, Read, Reader, Recover, Slow, Wanted, Wish};
use whimbrel_broker::selector::{MAX_LIKE_STEPS, Selector, Truth};
use whimbrel_broker::{Now, Time};
use whimbrel_pubsub::coverage::{ChannelCoverage, Range, Told};
use whimbrel_pubsub::message::{
    BrokerId, ChannelId, Draft, Hlc, LAST_SEQUENCE, Message, Origin, PartitionId, Stamp,
};
use whimbrel_pubsub::property::{Properties, Value};

const OWN: Origin = Origin { broker: BrokerId(1), epoch: 7 };
const GOOD: Origin = Origin { broker: BrokerId(2), epoch: 8 };
const BAD: Origin = Origin { broker: BrokerId(3), epoch: 9 };

fn at(seconds: f64) -> Time {
    Time::at(Duration::from_secs_f64(seconds))
}

fn now(seconds: f64) -> Now {
    Now { time: at(seconds), wall_ms: 1_700_000_000_000 + (seconds * 1_000.0) as u64 }
}

#[derive(Debug)]
struct Everything;

impl Picks for Everything {
    fn picks(&self, _: &Message) -> bool {
        true
    }
}

fn channel() -> Channel {
    let peers = vec![GOOD.broker, BAD.broker];
    Channel::new(ChannelSettings { peers, ..ChannelSettings::new(ChannelId(0)) }, OWN, Time::ZERO)
}

fn message(payload: &[u8]) -> Message {
    Draft { topic: "t", payload, ..Draft::default() }.finish().unwrap()
}

fn stamp(origin: Origin, sequence: u64) -> Stamp {
    let published = Hlc::at(1_700_000_000_000);
    Stamp { origin, sequence, partition: PartitionId(0), ordinal: sequence, published }
}

fn receive(channel: &mut Channel, origin: Origin, sequence: u64, seconds: f64) -> Received {
    let stamp = stamp(origin, sequence);
    channel.receive(stamp, message(b"x"), Duration::ZERO, now(seconds)).unwrap()
}

fn reader(channel: &Channel, from: From) -> Reader {
    let wanted = Wanted { picks: Arc::new(Everything), reach: vec![Reach::Whole] };
    Reader::attach(channel, Wish { wanted, from, recover: Recover::First, slow: Slow::Wait }, at(0.0))
}

/// All that a subscription is told now.
fn told(reader: &mut Reader, channel: &Channel, seconds: f64) -> Vec<Told> {
    let mut all = Vec::new();
    let mut steps = 1_000_000;
    while let Read::Told(told) = reader.read(channel, at(seconds), true, &mut steps) {
        all.push(told);
    }
    all
}

fn deliveries(told: &[Told]) -> Vec<u64> {
    let deliveries = told.iter().filter_map(|told| match told {
        Told::Delivery(delivery) => Some(delivery.stamp.sequence),
        _ => None,
    });
    deliveries.collect()
}

fn epoch(epoch: u64) -> Origin {
    Origin { broker: BAD.broker, epoch }
}

#[test]
fn regression_epochs_without_end_take_no_memory_without_end() {
    let mut channel = channel();
    receive(&mut channel, GOOD, 1, 0.0);
    let mut reader = reader(&channel, From::Live);
    for round in 0..200 {
        let heads: Vec<_> = (0..1_024).map(|at| (epoch(100 + round * 1_024 + at), 1)).collect();
        channel.handle_heads(BAD, &heads, at(round as f64));
        told(&mut reader, &channel, round as f64);
    }
    assert!(channel.log_indices() <= 512, "{} indices", channel.log_indices());
    assert!(channel.log_of(GOOD).is_some());
}

#[test]
fn regression_epochs_of_one_broker_drive_out_no_log_of_another() {
    let mut channel = channel();
    let expired = Draft { topic: "t", lifetime: Some(Duration::from_millis(1)), ..Draft::default() };
    let aged = Duration::from_secs(1);
    channel.receive(stamp(GOOD, 1), expired.finish().unwrap(), aged, now(0.0)).unwrap();
    for round in 0..4 {
        let heads: Vec<_> = (0..1_024).map(|at| (epoch(100 + round * 1_024 + at), 1)).collect();
        channel.handle_heads(BAD, &heads, at(1.0));
    }
    // It is not taken a second time.
    assert_eq!(receive(&mut channel, GOOD, 1, 2.0), Received::Known);
}

/// A broker that starts again and again, and publishes each time, overwrites what it published in its oldest runs.
#[test]
fn regression_epochs_of_one_broker_with_messages_take_no_place_of_another() {
    let mut channel = channel();
    let published = |origin: Origin, seconds: u64| {
        let published = Hlc::at(1_700_000_000_000 + 1_000 * seconds);
        Stamp { published, ..stamp(origin, 1) }
    };
    let take = |channel: &mut Channel, stamp: Stamp| {
        channel.receive(stamp, message(b"x"), Duration::ZERO, now(600.0))
    };
    // The epochs are random: their order says nothing.
    let run = |number: u64| epoch((number * 7_919) % 100_003);
    (1..=511).for_each(|number| assert!(take(&mut channel, published(run(number), number)).is_ok()));
    let mut reader = reader(&channel, From::Live);
    // Words alone drive out nothing that is held.
    channel.handle_heads(BAD, &[(epoch(200_000), 1)], at(600.0));
    assert_eq!((channel.runs_given_up(), channel.log_of(epoch(200_000)).is_some()), (0, false));
    // A new broker gets its place from the broker that has the most.
    assert_eq!(take(&mut channel, published(GOOD, 0)), Ok(Received::Taken));
    assert_eq!(deliveries(&told(&mut reader, &channel, 600.0)), [1]);
    assert!(channel.find(run(1), 1).is_none() && channel.find(run(2), 1).is_some());
    for number in 512..=1_600 {
        assert_eq!(take(&mut channel, published(run(number), number)), Ok(Received::Taken), "{number}");
    }
    assert!(channel.find(GOOD, 1).is_some() && channel.log_of(OWN).is_some());
    assert!(channel.find(run(1_600), 1).is_some() && channel.find(run(1_000), 1).is_none());
    assert_eq!(
        take(&mut channel, published(run(3), 3)),
        Err(Refusal::TooManyOrigins),
        "it is older than all"
    );
    let figures = channel.figures(PartitionId(0)).unwrap();
    assert_eq!((figures.messages, figures.overwritten, channel.runs_given_up()), (511, 1_090, 1_090));
    assert!(channel.log_indices() <= 512);
    let epochs = deliveries(&told(&mut reader, &channel, 600.0));
    assert_eq!(epochs.len(), 510, "what is held is read, and nothing twice");
}

/// What was given up are messages, and not the last values among them.
#[test]
fn regression_last_values_of_a_run_that_was_given_up_are_still_told() {
    let mut channel = channel();
    let value = |number: u64| {
        let published = Hlc::at(1_700_000_000_000 + number);
        let topic = format!("t/{number}");
        let value = Draft { topic: &topic, retain: true, payload: b"x", ..Draft::default() };
        (Stamp { published, ..stamp(epoch(100 + number), 1) }, value.finish().unwrap())
    };
    for number in 0..600 {
        let (stamp, message) = value(number);
        assert_eq!(channel.receive(stamp, message, Duration::ZERO, now(1.0)), Ok(Received::Taken));
    }
    assert!(channel.runs_given_up() > 0 && channel.log_of(epoch(100)).is_none());
    let topics = |from: From| -> Vec<String> {
        let mut reader = reader(&channel, from);
        let told = told(&mut reader, &channel, 2.0);
        let topic = |told: &Told| match told {
            Told::Delivery(delivery) => Some(delivery.message.topic().to_owned()),
            _ => None,
        };
        told.iter().filter_map(topic).collect()
    };
    assert_eq!(topics(From::Live).len(), 600);
    let mut has = ChannelCoverage::default();
    has.insert(epoch(100), Range { first: 1, last: 1 }).unwrap();
    let told = topics(From::Coverage(has));
    assert!(told.len() == 599 && !told.contains(&"t/0".to_owned()), "one is covered");
}

#[test]
fn regression_a_subscription_takes_an_index_that_is_another_origins_now_for_that() {
    let mut channel = channel();
    let heads = |first: u64| -> Vec<_> { (0..511).map(|at| (epoch(first + at), 5)).collect() };
    channel.handle_heads(BAD, &heads(1_000), at(0.0));
    // All that is known to exist is covered of these.
    let mut reader = reader(&channel, From::Live);
    told(&mut reader, &channel, 0.1);
    // GOOD gets the index of one of them.
    assert_eq!(receive(&mut channel, GOOD, 3, 1.0), Received::Taken);
    assert_eq!(channel.log_indices(), 512);
    assert_eq!(deliveries(&told(&mut reader, &channel, 1.1)), [3]);
    assert!(reader.coverage(&channel).contains(GOOD, 3) && !reader.coverage(&channel).contains(GOOD, 2));
}

#[test]
fn regression_a_broker_cannot_make_up_messages_of_another_so_that_its_own_are_lost() {
    let mut channel = channel();
    channel.handle_heads(GOOD, &[(GOOD, 2)], at(0.0));
    (1..=2).for_each(|sequence| assert_eq!(receive(&mut channel, GOOD, sequence, 0.0), Received::Taken));
    for second in 1..120 {
        let seconds = f64::from(second);
        channel.handle_heads(BAD, &[(GOOD, 1 << 61)], at(seconds));
        channel.handle_heads(GOOD, &[(GOOD, 2)], at(seconds));
        assert!(channel.log_of(GOOD).unwrap().1.highest() <= 2 + (1 << 16));
        for request in channel.poll_requests(at(seconds + 0.5)) {
            // Both say what is true of them, and the bad one says that it has nothing.
            let by = if request.to == GOOD.broker { GOOD } else { BAD };
            let answer = GapAnswer { by, messages: Vec::new(), gone: Vec::new(), absent: request.ranges };
            channel.handle_denials(request.origin, &answer, at(seconds + 0.6));
        }
    }
    assert_eq!(channel.losses(), 0);
    for sequence in 3..10 {
        assert_eq!(receive(&mut channel, GOOD, sequence, 120.0), Received::Taken, "{sequence}");
    }
}

#[test]
fn regression_the_largest_heads_of_several_runs_overflow_nothing() {
    let mut channel = channel();
    let heads: Vec<_> = (0..9).map(|at| (epoch(at), LAST_SEQUENCE)).collect();
    channel.handle_heads(BAD, &heads, at(0.0));
    let mut reader = reader(&channel, From::Coverage(ChannelCoverage::default()));
    let told = told(&mut reader, &channel, 0.0);
    let missing = told.iter().find_map(|told| match told {
        Told::Outstanding(outstanding) => Some(outstanding.missing),
        _ => None,
    });
    assert_eq!(missing, Some(u64::MAX));
    // Later they are told as unknown.
    let mut all = Vec::new();
    while let Read::Told(told) = reader.read(&channel, at(60.0), true, &mut 1_000_000) {
        all.push(told);
    }
    assert_eq!(all.len(), 9);
}

#[test]
fn regression_an_answer_is_bounded_in_ranges_and_bytes() {
    let mut channel = channel();
    // Every other message came, and has expired since.
    let short = Draft { topic: "t", lifetime: Some(Duration::from_millis(1)), ..Draft::default() };
    let short = short.finish().unwrap();
    for at in 0..4_000 {
        let stamp = stamp(GOOD, 2 * at + 1);
        channel.receive(stamp, short.clone(), Duration::from_secs(1), now(0.0)).unwrap();
    }
    let all = Range { first: 1, last: LAST_SEQUENCE };
    let request = GapRequest { to: OWN.broker, origin: GOOD, ranges: vec![all; 1_024] };
    let answer = channel.answer(&request, at(0.0));
    assert!(answer.gone.len() <= 512, "{} ranges are gone", answer.gone.len());
    assert!(answer.absent.len() <= 512, "{} ranges are absent", answer.absent.len());
    let long = vec![0; 200_000];
    for sequence in 1..=100 {
        channel.receive(stamp(BAD, sequence), message(&long), Duration::ZERO, now(0.0)).unwrap();
    }
    let answer = channel.answer(&GapRequest { to: OWN.broker, origin: BAD, ranges: vec![all] }, at(0.0));
    let bytes: usize = answer.messages.iter().map(|(_, message, _)| message.encoded().len()).sum();
    assert!((1..=2 << 20).contains(&bytes), "{bytes} bytes");
    assert!(answer.gone.is_empty(), "what is left out is not gone: {:?}", answer.gone);
}

#[test]
fn regression_a_search_without_end_is_not_begun() {
    let text = "a".repeat(16_000);
    let properties = Properties::new([("text", Value::Text(&text)), ("n", Value::Integer(1))]).unwrap();
    let message = Draft { topic: "t", properties: properties.as_bytes(), ..Draft::default() };
    let message = message.finish().unwrap();
    let evaluate = |text: &str| Selector::parse(text).unwrap().evaluate(&message);
    // The usual ones are: also at the end of a long text, and several.
    assert_eq!(evaluate("text LIKE '%b%' OR text LIKE '%c%' OR text LIKE '%a%'"), Truth::True);
    assert_eq!(evaluate("text LIKE 'aaa%' AND text LIKE '%a' AND text LIKE '%a_a%'"), Truth::True);
    // A place costs 250 comparisons here.
    let costly = format!("text LIKE '%{}_b%'", "a".repeat(248));
    assert!(250 * text.len() > MAX_LIKE_STEPS);
    assert_eq!(evaluate(&costly), Truth::Unknown);
    assert_eq!(evaluate(&format!("NOT {costly}")), Truth::Unknown);
    assert_eq!(evaluate(&format!("{costly} OR n = 1")), Truth::True);
    let many = vec!["text LIKE '%b%'"; 100].join(" OR ");
    assert_eq!(evaluate(&many), Truth::Unknown);
}
