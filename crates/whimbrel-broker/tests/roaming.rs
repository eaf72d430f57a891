//! A subscription at one broker: it comes, reads, and is slow.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use whimbrel_broker::buffer::{
    Channel, ChannelSettings, GapAnswer, GapRequest, PartitionSettings, Picks, Published, Reach, Received,
    Refusal, Size,
};
use whimbrel_broker::roaming::{From, Read, Reader, Recover, Slow, Wanted, Wish};
use whimbrel_broker::{Now, Time};
use whimbrel_pubsub::coverage::{
    ChannelCoverage, Count, Fate, MOST_RANGES, Outstanding, Range, Recovered, Told,
};
use whimbrel_pubsub::message::{
    BrokerId, ChannelId, Draft, Hlc, Message, Origin, PartitionId, Publication, PublisherId, Stamp,
};

const OWN: Origin = Origin { broker: BrokerId(1), epoch: 7 };
const OTHER: Origin = Origin { broker: BrokerId(2), epoch: 8 };

fn at(seconds: f64) -> Time {
    Time::at(Duration::from_secs_f64(seconds))
}

fn now(seconds: f64) -> Now {
    Now { time: at(seconds), wall_ms: 1_700_000_000_000 + (seconds * 1_000.0) as u64 }
}

/// Picks messages whose property is one of these.
#[derive(Debug)]
struct Values(&'static [u8]);

impl Picks for Values {
    fn picks(&self, message: &Message) -> bool {
        message.properties().last().is_some_and(|value| self.0.contains(&(value - 1)))
    }
}

/// A channel with a partition for odd and one for even values, of so many messages each.
fn channel(messages: u64) -> Channel {
    let size = Size { messages, ..Size::default() };
    let partition =
        |values| PartitionSettings { rule: Arc::new(Values(values)), size, ..PartitionSettings::default() };
    let partitions = vec![partition(&[1, 3, 5, 7, 9]), partition(&[0, 2, 4, 6, 8])];
    let peers = vec![OTHER.broker];
    Channel::new(ChannelSettings { partitions, peers, ..ChannelSettings::new(ChannelId(0)) }, OWN, Time::ZERO)
}

/// `v = n + 1`, encoded, for each digit n.
const PROPERTIES: [[u8; 4]; 10] = {
    let mut all = [[1, b'v', 17, 0]; 10];
    let mut digit = 0;
    while digit < 10 {
        all[digit][3] = digit as u8 + 1;
        digit += 1;
    }
    all
};

fn draft(&[value]: &[u8; 1]) -> Draft<'static> {
    Draft { topic: "t", properties: &PROPERTIES[usize::from(value)], payload: b"x", ..Draft::default() }
}

fn publish(channel: &mut Channel, values: &[u8], seconds: f64) {
    for value in values {
        channel.publish(draft(&[*value]).finish().unwrap(), now(seconds)).unwrap();
    }
}

fn stamp(sequence: u64) -> Stamp {
    let published = Hlc::at(1_700_000_000_000);
    Stamp { origin: OTHER, sequence, partition: PartitionId(0), ordinal: 1, published }
}

fn receive(channel: &mut Channel, sequence: u64, seconds: f64) -> Result<Received, Refusal> {
    channel.receive(stamp(sequence), draft(&[1]).finish().unwrap(), Duration::ZERO, now(seconds))
}

fn wish(values: &'static [u8], from: From) -> Wish {
    let wanted = Wanted { picks: Arc::new(Values(values)), reach: vec![Reach::Part, Reach::Part] };
    Wish { wanted, from, recover: Recover::First, slow: Slow::Wait }
}

const ODD: &[u8] = &[1, 3, 5, 7, 9];

/// Without anything covered.
fn anew() -> From {
    From::Coverage(ChannelCoverage::default())
}

fn reads_odd(from: From) -> Wish {
    let mut wish = wish(ODD, from);
    wish.wanted.reach = vec![Reach::Whole, Reach::None];
    wish
}

/// All that is told until there is nothing more to read.
fn read(reader: &mut Reader, channel: &Channel, seconds: f64) -> Vec<Told> {
    let mut all = Vec::new();
    loop {
        match reader.read(channel, at(seconds), true, &mut 100) {
            Read::Told(told) => all.push(told),
            Read::More => {}
            Read::Idle => return all,
            Read::TooSlow => panic!("too slow"),
        }
    }
}

fn sequences(told: &[Told]) -> Vec<u64> {
    let delivered = told.iter().filter_map(|told| match told {
        Told::Delivery(delivery) => Some(delivery.stamp.sequence),
        _ => None,
    });
    delivered.collect()
}

fn fates(told: &[Told]) -> Vec<(Fate, u64, u64, Count)> {
    let fates = told.iter().filter_map(|told| match told {
        Told::Fate { cover, fate, count, .. } => Some((*fate, cover.range.first, cover.range.last, *count)),
        _ => None,
    });
    fates.collect()
}

fn outstanding(told: &[Told]) -> Outstanding {
    let Told::Outstanding(outstanding) = told[0] else {
        panic!("the count is told first, not {:?}", told[0])
    };
    outstanding
}

fn exactly(number: u64) -> Count {
    Count { number, exact: true }
}

fn covered(origin: Origin, last: u64) -> ChannelCoverage {
    let mut coverage = ChannelCoverage::default();
    coverage.insert(origin, Range { first: 1, last }).unwrap();
    coverage
}

#[test]
fn a_returning_subscriber_gets_what_it_missed_and_goes_on() {
    let mut channel = channel(100);
    publish(&mut channel, &[1, 2, 3, 4, 5, 6], 0.0);
    let mut reader = Reader::attach(&channel, reads_odd(From::Coverage(covered(OWN, 2))), at(1.0));
    publish(&mut channel, &[7, 8], 1.0);
    let told = read(&mut reader, &channel, 1.0);
    assert_eq!(outstanding(&told), Outstanding { outstanding: 2, gone: Count::NONE, missing: 0 });
    assert_eq!(sequences(&told), [3, 5, 7]);
    let covers: Vec<_> = told.iter().filter_map(|told| Some(told.cover()?.range)).collect();
    let ranges = [(3, 3), (4, 5), (6, 6), (7, 7)].map(|(first, last)| Range { first, last });
    assert_eq!(covers, ranges, "5 covers 4, which does not match");
    assert!(told.contains(&Told::Recovered(Recovered { recovered: 2, gone: Count::NONE, superseded: 0 })));
    publish(&mut channel, &[9], 2.0);
    assert_eq!(sequences(&read(&mut reader, &channel, 2.0)), [9]);
}

#[test]
fn counts_are_exact_where_partitions_are_read_whole() {
    let mut channel = channel(2);
    publish(&mut channel, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 0], 0.0);
    let told = read(&mut Reader::attach(&channel, reads_odd(anew()), at(1.0)), &channel, 1.0);
    assert_eq!(outstanding(&told), Outstanding { outstanding: 2, gone: exactly(3), missing: 0 });
    assert_eq!((sequences(&told), fates(&told)), (vec![7, 9], vec![(Fate::Gone, 1, 6, exactly(3))]));
    let part = read(&mut Reader::attach(&channel, wish(&[1], anew()), at(1.0)), &channel, 1.0);
    let at_most = Count { number: 6, exact: false };
    assert_eq!(outstanding(&part), Outstanding { outstanding: 0, gone: at_most, missing: 0 });
    assert_eq!(at_most.to_string(), "at most 6");
    let held = read(&mut Reader::attach(&channel, reads_odd(From::Held), at(1.0)), &channel, 1.0);
    assert_eq!(outstanding(&held), Outstanding { outstanding: 2, gone: Count::NONE, missing: 0 });
    assert_eq!((sequences(&held), fates(&held)), (vec![7, 9], vec![]));
}

#[test]
fn what_is_overwritten_while_it_is_read_is_told_as_gone() {
    let mut channel = channel(4);
    publish(&mut channel, &[1, 3, 5, 7], 0.0);
    let mut reader = Reader::attach(&channel, reads_odd(From::Held), at(1.0));
    let mut told = Vec::new();
    while sequences(&told).is_empty() {
        let Read::Told(next) = reader.read(&channel, at(1.0), true, &mut 10) else { panic!() };
        told.push(next);
    }
    publish(&mut channel, &[1, 3, 5], 1.0);
    told.extend(read(&mut reader, &channel, 1.0));
    assert_eq!(outstanding(&told).outstanding, 4);
    assert_eq!((sequences(&told), fates(&told)), (vec![1, 4, 5, 6, 7], vec![(Fate::Gone, 2, 3, exactly(2))]));
    assert!(told.contains(&Told::Recovered(Recovered { recovered: 2, gone: exactly(2), superseded: 0 })));
}

#[test]
fn a_message_whose_lifetime_ended_is_not_missed() {
    let mut channel = channel(100);
    let short = Draft { lifetime: Some(Duration::from_secs(1)), ..draft(&[1]) }.finish().unwrap();
    channel.publish(short, now(0.0)).unwrap();
    publish(&mut channel, &[3], 0.0);
    let mut reader = Reader::attach(&channel, reads_odd(From::Held), at(0.5));
    assert_eq!(sequences(&read(&mut reader, &channel, 2.0)), [2], "it ended before it was read");
    channel.expire(at(2.0));
    let told = read(&mut Reader::attach(&channel, reads_odd(From::Held), at(2.0)), &channel, 2.0);
    assert_eq!(outstanding(&told), Outstanding { outstanding: 1, gone: Count::NONE, missing: 0 });
    assert_eq!((sequences(&told), fates(&told)), (vec![2], vec![]));
}

#[test]
fn a_claim_of_a_huge_sequence_changes_that_subscription_only() {
    let mut channel = channel(100);
    publish(&mut channel, &[1, 3], 0.0);
    let mut liar = Reader::attach(&channel, reads_odd(From::Coverage(covered(OWN, 1 << 60))), at(1.0));
    let stranger = Origin { broker: BrokerId(9), epoch: 9 };
    let mut lost = Reader::attach(&channel, reads_odd(From::Coverage(covered(stranger, 1 << 60))), at(1.0));
    assert_eq!(sequences(&read(&mut liar, &channel, 1.0)), [0; 0]);
    let told = read(&mut lost, &channel, 1.0);
    assert!(told.contains(&Told::UnknownOrigin(stranger)));
    assert_eq!(sequences(&told), [1, 2]);
    assert_eq!(channel.heads(), [(OWN, 2)]);
    publish(&mut channel, &[5], 2.0);
    assert_eq!(sequences(&read(&mut liar, &channel, 2.0)), [0; 0]);
    assert_eq!(sequences(&read(&mut lost, &channel, 2.0)), [3]);
    assert!(lost.coverage(&channel).contains(stranger, 1 << 60), "kept in case it becomes known");
}

#[test]
fn one_ahead_of_this_broker_does_not_get_it_again() {
    let mut channel = channel(100);
    receive(&mut channel, 1, 0.0).unwrap();
    let mut reader = Reader::attach(&channel, reads_odd(From::Coverage(covered(OTHER, 3))), at(0.0));
    read(&mut reader, &channel, 0.0);
    for sequence in 2..=4 {
        receive(&mut channel, sequence, 1.0).unwrap();
    }
    assert_eq!(sequences(&read(&mut reader, &channel, 1.0)), [4]);
}

#[test]
fn what_is_missing_is_waited_for_then_unknown_then_delivered_late() {
    let mut channel = channel(100);
    for sequence in [1, 3] {
        receive(&mut channel, sequence, 0.0).unwrap();
    }
    let mut reader = Reader::attach(&channel, reads_odd(From::Held), at(1.0));
    assert!(reader.is_waiting(&channel));
    channel.ask_at_once(at(1.0));
    let requests = channel.poll_requests(at(1.0));
    assert_eq!((requests[0].to, &requests[0].ranges[..]), (OTHER.broker, &[Range { first: 2, last: 2 }][..]));
    let told = read(&mut reader, &channel, 1.0);
    assert_eq!((outstanding(&told).missing, sequences(&told)), (1, vec![1, 3]));
    assert_eq!(fates(&read(&mut reader, &channel, 10.5)), [], "the subscription has not waited long enough");
    let told = read(&mut reader, &channel, 12.0);
    assert_eq!(fates(&told), [(Fate::Unknown, 2, 2, Count { number: 1, exact: false })]);
    assert_eq!(fates(&read(&mut reader, &channel, 13.0)), [], "once");
    receive(&mut channel, 2, 14.0).unwrap();
    let told = read(&mut reader, &channel, 14.0);
    assert!(matches!(&told[0], Told::Delivery(delivery) if delivery.late && delivery.stamp.sequence == 2));
}

#[test]
fn what_no_broker_has_is_gone_at_last() {
    let mut channel = channel(100);
    for sequence in [1, 3] {
        receive(&mut channel, sequence, 0.0).unwrap();
    }
    let mut reader = Reader::attach(&channel, reads_odd(From::Held), at(0.0));
    read(&mut reader, &channel, 0.0);
    let gone = GapAnswer {
        by: OTHER,
        messages: Vec::new(),
        gone: vec![Range { first: 2, last: 2 }],
        absent: Vec::new(),
    };
    for seconds in [1.0, 11.0, 22.0, 23.0] {
        channel.handle_denials(OTHER, &gone, at(seconds));
    }
    let told = read(&mut reader, &channel, 23.0);
    assert_eq!(fates(&told), [(Fate::Gone, 2, 2, Count { number: 1, exact: false })]);
    assert_eq!(receive(&mut channel, 2, 24.0), Ok(Received::Known), "given up for good");
}

#[test]
fn a_subscription_may_have_what_is_new_first() {
    let mut channel = channel(100);
    publish(&mut channel, &[1, 3, 5], 0.0);
    let mut reader =
        Reader::attach(&channel, Wish { recover: Recover::Beside, ..reads_odd(From::Held) }, at(1.0));
    publish(&mut channel, &[7, 9], 1.0);
    let mut live = Vec::new();
    while let Read::Told(told) = reader.read(&channel, at(1.0), false, &mut 10) {
        live.push(told);
    }
    assert_eq!((sequences(&live), reader.is_recovering()), (vec![4, 5], true));
    let told = read(&mut reader, &channel, 1.0);
    assert_eq!(sequences(&told), [1, 2, 3]);
    let is_recovered =
        |told: &Told| matches!(told, Told::Delivery(delivery) if delivery.recovered && delivery.late);
    assert_eq!(told.iter().filter(|told| is_recovered(told)).count(), 3);
}

fn keyed(channel: &mut Channel, keys: &[&[u8]], seconds: f64) {
    for key in keys {
        channel.publish(Draft { key: Some(key), ..draft(&[1]) }.finish().unwrap(), now(seconds)).unwrap();
    }
}

#[test]
fn only_the_newest_of_each_key_may_be_asked_for_and_nothing_older_than_an_age() {
    let mut channel = channel(100);
    keyed(&mut channel, &[b"cod", b"eel", b"cod"], 0.0);
    keyed(&mut channel, &[b"cod"], 5.0);
    let newest = Wish { recover: Recover::NewestPerKey, ..reads_odd(From::Held) };
    let told = read(&mut Reader::attach(&channel, newest, at(6.0)), &channel, 6.0);
    assert_eq!((outstanding(&told).outstanding, sequences(&told)), (2, vec![2, 4]));
    assert_eq!(fates(&told), [(Fate::Superseded, 1, 1, exactly(1)), (Fate::Superseded, 3, 3, exactly(1))]);
    let young = Wish { recover: Recover::MaxAge(Duration::from_secs(3)), ..reads_odd(From::Held) };
    let told = read(&mut Reader::attach(&channel, young, at(6.0)), &channel, 6.0);
    assert_eq!((sequences(&told), fates(&told)), (vec![4], vec![(Fate::Superseded, 1, 3, exactly(3))]));
}

#[test]
fn a_slow_subscription_drops_replaces_or_is_sent_away_and_is_told() {
    let mut channel = channel(1_000);
    let with = |slow| {
        let mut reader = Reader::attach(&channel, Wish { slow, ..reads_odd(From::Live) }, at(0.0));
        read(&mut reader, &channel, 0.0);
        reader
    };
    let (mut dropping, mut replacing) = (with(Slow::DropOldest(4)), with(Slow::ReplaceByKey));
    let mut leaving = with(Slow::Disconnect(4));
    keyed(&mut channel, &[b"cod", b"eel", b"cod", b"cod", b"eel", b"cod"], 1.0);
    let told = read(&mut dropping, &channel, 1.0);
    assert_eq!((sequences(&told), fates(&told)), (vec![5, 6], vec![(Fate::Superseded, 1, 4, exactly(4))]));
    let told = read(&mut replacing, &channel, 1.0);
    assert_eq!((sequences(&told), fates(&told)), (vec![5, 6], vec![(Fate::Superseded, 1, 4, exactly(4))]));
    assert_eq!(leaving.lag(&channel), 6);
    assert_eq!(leaving.read(&channel, at(1.0), true, &mut 10), Read::TooSlow);
}

#[test]
fn last_values_come_with_a_subscription_once() {
    let mut channel = channel(1);
    let retained = |topic, payload| Draft { topic, retain: true, payload, ..draft(&[1]) }.finish().unwrap();
    channel.publish(retained("a", b"1"), now(0.0)).unwrap();
    channel.publish(retained("b", b"2"), now(0.0)).unwrap();
    channel.publish(retained("c", b"3"), now(0.0)).unwrap();
    channel.publish(retained("b", b""), now(0.0)).unwrap();
    let live = read(&mut Reader::attach(&channel, reads_odd(From::Live), at(1.0)), &channel, 1.0);
    assert_eq!(sequences(&live), [1, 3], "b was removed");
    let told = read(
        &mut Reader::attach(&channel, reads_odd(From::Coverage(covered(OWN, 2))), at(1.0)),
        &channel,
        1.0,
    );
    assert_eq!(sequences(&told), [3, 4], "1 is covered, 3 was overwritten and retained, 4 is held");
    assert_eq!(fates(&told), []);
}

#[test]
fn a_partition_may_hold_by_age_bytes_or_rate() {
    let with = |size| {
        let partition = PartitionSettings { size, ..PartitionSettings::default() };
        let settings = ChannelSettings { partitions: vec![partition], ..ChannelSettings::new(ChannelId(0)) };
        let mut channel = Channel::new(settings, OWN, Time::ZERO);
        (0..2_000).for_each(|nth| publish(&mut channel, &[1], f64::from(nth) * 0.01));
        channel.figures(PartitionId(0)).unwrap()
    };
    let age = with(Size { age: Some(Duration::from_secs(3)), ..Size::default() });
    assert_eq!((age.messages, age.overwritten), (300, 1_700));
    let bytes = with(Size { bytes: 1_000, ..Size::default() });
    assert!(bytes.bytes <= 1_000 && bytes.bytes > 980, "{bytes:?}");
    let follow = with(Size { follow: Some(Duration::from_secs(3)), ..Size::default() });
    assert!((280..=320).contains(&follow.messages), "100 a second: {follow:?}");
}

#[test]
fn a_repeated_publish_is_recognised_here_and_after_a_fail_over() {
    let mut channel = channel(100);
    let again =
        Draft { publication: Some(Publication { publisher: PublisherId(1), number: 1 }), ..draft(&[1]) };
    let message = again.finish().unwrap();
    let Published::Taken(first) = channel.publish(message.clone(), now(0.0)).unwrap() else { panic!() };
    assert_eq!(channel.publish(message, now(1.0)), Ok(Published::Repeated(first)));
    let other = Draft { publication: Some(Publication { publisher: PublisherId(2), number: 1 }), ..again };
    let other = other.finish().unwrap();
    channel.receive(stamp(5), other.clone(), Duration::ZERO, now(1.0)).unwrap();
    assert_eq!(channel.publish(other, now(2.0)), Ok(Published::Repeated(stamp(5))));
}

#[test]
fn what_cannot_be_of_this_cluster_is_refused_and_changes_nothing() {
    let mut channel = channel(100);
    let mut receive = |stamp| channel.receive(stamp, draft(&[1]).finish().unwrap(), Duration::ZERO, now(0.0));
    let stranger = Origin { broker: BrokerId(9), epoch: 1 };
    assert_eq!(receive(Stamp { origin: stranger, ..stamp(1) }), Err(Refusal::Stranger(stranger)));
    let partition = PartitionId(2);
    assert_eq!(receive(Stamp { partition, ..stamp(1) }), Err(Refusal::Partition(partition)));
    assert_eq!(receive(Stamp { origin: OWN, ..stamp(1) }), Err(Refusal::NotPublishedHere));
    assert_eq!(channel.heads(), []);
    let none = ChannelSettings { most_retained: 0, ..ChannelSettings::new(ChannelId(0)) };
    let mut channel = Channel::new(none, OWN, Time::ZERO);
    let message = Draft { retain: true, ..draft(&[1]) }.finish().unwrap();
    assert_eq!(channel.publish(message, now(0.0)), Err(Refusal::Retained));
    assert_eq!((channel.end(), channel.heads()), (0, vec![]));
}

#[test]
fn a_peer_that_sends_every_second_message_costs_bounded_memory() {
    let mut channel = channel(100);
    for sequence in 1..=20_000 {
        receive(&mut channel, 2 * sequence, 0.0).unwrap();
    }
    let (_, log) = channel.log_of(OTHER).unwrap();
    assert!(log.received().len() <= 4_096);
    let mut reader = Reader::attach(&channel, reads_odd(anew()), at(0.0));
    let told = read(&mut reader, &channel, 0.0);
    assert_eq!(sequences(&told).len(), 100);
    let ranges = reader.coverage(&channel).of(OTHER).unwrap().len();
    assert!(ranges <= MOST_RANGES, "{ranges}");
    let closed = told.iter().any(|told| matches!(told, Told::Fate { fate: Fate::Unknown, closed: true, .. }));
    assert!(closed, "gaps that were closed are told");
    channel.handle_heads(OTHER, &[(OTHER, 1 << 61)], at(1.0));
    assert_eq!(channel.poll_requests(at(2.0))[0].ranges.len(), 64);
}

#[test]
fn a_broker_that_was_cut_off_fills_its_buffer_without_overwriting_what_is_newer() {
    let mut channel = channel(3);
    let mut receive = |sequence: u64, wall: u64| {
        let stamp = Stamp { published: Hlc::at(1_700_000_000_000 + wall), ..stamp(sequence) };
        channel.receive(stamp, draft(&[1]).finish().unwrap(), Duration::ZERO, now(10.0)).unwrap()
    };
    for sequence in (5..=7).chain(1..=4) {
        receive(sequence, sequence);
    }
    let held = (1..=7).filter(|sequence| channel.find(OTHER, *sequence).is_some());
    assert_eq!(held.collect::<Vec<_>>(), [5, 6, 7]);
    assert!(channel.has_received(OTHER, Range { first: 1, last: 7 }));
}

#[test]
fn regression_a_late_older_message_replaces_no_newer_one() {
    let mut channel = channel(100);
    let cod = |lifetime| Draft { key: Some(b"cod"), lifetime, ..draft(&[1]) }.finish().unwrap();
    let mut receive = |sequence, lifetime, seconds: f64| {
        let published = Hlc::at(1_700_000_000_000 + 10 * sequence);
        let stamp = Stamp { published, ..stamp(sequence) };
        channel.receive(stamp, cod(lifetime), Duration::ZERO, now(seconds)).unwrap()
    };
    receive(2, None, 0.0);
    // The newest of the key ends. The next that comes is older than the one that is left.
    receive(3, Some(Duration::from_secs(1)), 0.0);
    receive(1, None, 2.0);
    let wish = Wish { recover: Recover::NewestPerKey, ..reads_odd(From::Held) };
    let told = read(&mut Reader::attach(&channel, wish, at(3.0)), &channel, 3.0);
    assert!(sequences(&told).contains(&2), "{told:?}");
}

#[test]
fn regression_a_value_retained_while_others_are_told_comes_once() {
    let mut channel = channel(100);
    let retained = |topic| Draft { topic, retain: true, ..draft(&[1]) }.finish().unwrap();
    channel.publish(retained("a"), now(0.0)).unwrap();
    let mut reader = Reader::attach(&channel, reads_odd(From::Live), at(1.0));
    assert!(matches!(reader.read(&channel, at(1.0), true, &mut 2), Read::Told(Told::Delivery(_))));
    channel.publish(retained("b"), now(1.0)).unwrap();
    assert_eq!(sequences(&read(&mut reader, &channel, 1.0)), [2]);
}

#[test]
fn regression_covers_asked_for_too_early_do_not_hide_last_values() {
    let mut channel = channel(100);
    channel.publish(Draft { topic: "a", retain: true, ..draft(&[1]) }.finish().unwrap(), now(0.0)).unwrap();
    let mut reader = Reader::attach(&channel, reads_odd(From::Live), at(1.0));
    reader.tell_covers(&channel);
    let told = read(&mut reader, &channel, 1.0);
    assert!(
        matches!(&told[..], [Told::Delivery(delivery), Told::Covers(_)] if delivery.retained),
        "{told:?}"
    );
}

#[test]
fn settings_and_questions_without_sense_break_nothing() {
    let size = Size { messages: 0, ..Size::default() };
    let nothing = vec![PartitionSettings { size, ..PartitionSettings::default() }];
    for partitions in [Vec::new(), nothing] {
        let settings = ChannelSettings {
            partitions,
            unknown_after: Duration::ZERO,
            ..ChannelSettings::new(ChannelId(0))
        };
        let mut channel = Channel::new(settings, OWN, Time::ZERO);
        publish(&mut channel, &[1, 2, 3], 0.0);
        let range = |first, last| Range { first, last };
        let ranges = vec![range(0, u64::MAX), range(3, 1), range(0, 0), range(u64::MAX, 0), range(2, 2)];
        let answer =
            channel.answer(&GapRequest { to: OWN.broker, origin: OWN, ranges: ranges.clone() }, at(0.0));
        assert!(answer.messages.iter().all(|(stamp, ..)| (1..=3).contains(&stamp.sequence)));
        let answer = GapAnswer { by: OTHER, messages: Vec::new(), gone: ranges.clone(), absent: ranges };
        channel.handle_denials(OWN, &answer, at(1.0));
        assert_eq!(channel.heads(), [(OWN, 3)]);
    }
}

/// Picks what the other does, and counts how often it is asked.
#[derive(Debug)]
struct Counted(Values, AtomicUsize);

impl Picks for Counted {
    fn picks(&self, message: &Message) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.picks(message)
    }
}

#[test]
fn a_selector_is_not_evaluated_where_the_partition_tells() {
    let mut channel = channel(100);
    publish(&mut channel, &[1, 2, 3, 4, 5], 0.0);
    let counted = Arc::new(Counted(Values(ODD), AtomicUsize::new(0)));
    let mut wish = reads_odd(anew());
    wish.wanted.picks = Arc::clone(&counted) as _;
    let mut reader = Reader::attach(&channel, wish, now(1.0).time);
    assert_eq!(sequences(&read(&mut reader, &channel, 1.0)), [1, 3, 5]);
    assert_eq!(counted.1.load(Ordering::Relaxed), 0);
}

#[test]
fn messages_that_are_in_a_partition_against_its_rule_are_selected_by_themselves() {
    let size = Size::default();
    let partition =
        |values| PartitionSettings { rule: Arc::new(Values(values)), size, ..PartitionSettings::default() };
    let settings = ChannelSettings {
        partitions: vec![partition(ODD), partition(&[2])],
        peers: vec![OTHER.broker],
        ..ChannelSettings::new(ChannelId(0))
    };
    let mut channel = Channel::new(settings, OWN, Time::ZERO);
    // No rule picks 4: it goes to the last partition. The other broker has other rules.
    publish(&mut channel, &[2, 4], 0.0);
    let message = draft(&[4]).finish().unwrap();
    assert_eq!(channel.receive(stamp(1), message, Duration::ZERO, now(0.0)), Ok(Received::Taken));
    let mut wish = wish(&[4], anew());
    wish.wanted.reach = vec![Reach::None, Reach::None];
    let mut reader = Reader::attach(&channel, wish, now(1.0).time);
    assert_eq!(sequences(&read(&mut reader, &channel, 1.0)), [2, 1]);
}
