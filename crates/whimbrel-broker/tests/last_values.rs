//! Last values: what other brokers are told of them, and what a broker finds on its disk.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use whimbrel_broker::buffer::{
    Channel, ChannelSettings, GapRequest, PartitionSettings, Picks, Published, Reach, Restored, Size,
};
use whimbrel_broker::hub::{BrokerName, ChannelRules, Finding, Hub, StorePlace};
use whimbrel_broker::matching::Limits;
use whimbrel_broker::roaming::{From, Read, Reader, Recover, Slow, Wanted, Wish};
use whimbrel_broker::store::{Entry, Store, StoreSettings};
use whimbrel_broker::{Now, Time};
use whimbrel_pubsub::coverage::{ChannelCoverage, ClusterId, Range, Told};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Message, Origin, Stamp};

const A: Origin = Origin { broker: BrokerId(1), epoch: 1 };
/// A later run of the same broker.
const LATER: Origin = Origin { broker: BrokerId(1), epoch: 2 };
const B: Origin = Origin { broker: BrokerId(2), epoch: 3 };
const CHANNEL: ChannelId = ChannelId(0);
const HOUR: Duration = Duration::from_secs(3_600);
/// The time of day when the tests begin, ms.
const BEGIN: u64 = 1_700_000_000_000;

/// So many seconds after the tests began. The monotonic clock began long before.
fn now(seconds: u64) -> Now {
    Now { time: Time::at(Duration::from_secs(1_000_000 + seconds)), wall_ms: BEGIN + seconds * 1_000 }
}

/// A channel whose buffer holds two messages.
fn channel(own: Origin, peers: &[Origin]) -> Channel {
    let size = Size { messages: 2, ..Size::default() };
    let partitions = vec![PartitionSettings { size, ..PartitionSettings::default() }];
    let peers = peers.iter().map(|peer| peer.broker).collect();
    let settings = ChannelSettings { partitions, peers, ..ChannelSettings::new(CHANNEL) };
    Channel::new(settings, own, now(0).time)
}

fn value(topic: &str, payload: &[u8]) -> Message {
    Draft { topic, payload, retain: true, ..Draft::default() }.finish().unwrap()
}

fn publish(channel: &mut Channel, message: Message, seconds: u64) -> Stamp {
    match channel.publish(message, now(seconds)).unwrap() {
        Published::Taken(stamp) | Published::Repeated(stamp) => stamp,
    }
}

/// Publishes what is no last value, so that the buffer holds nothing else.
fn overwrite(channel: &mut Channel, seconds: u64) {
    for _ in 0..2 {
        publish(channel, Draft { topic: "other", ..Draft::default() }.finish().unwrap(), seconds);
    }
}

/// The last value of a topic.
fn last(channel: &Channel, topic: &str, seconds: u64) -> Option<Vec<u8>> {
    let value = channel.retained().find(topic.as_bytes())?;
    value.message(now(seconds).time).map(|message| message.payload().to_vec())
}

/// Has one broker ask another for all that it misses.
fn fill(channel: &mut Channel, from: &Channel, seconds: u64) {
    channel.handle_heads(from.own(), &from.heads(), now(seconds).time);
    for (origin, highest) in from.heads() {
        let ranges = vec![Range { first: 1, last: highest }];
        let request = GapRequest { to: from.own().broker, origin, ranges };
        let answer = from.answer(&request, now(seconds).time);
        for (stamp, message, age) in &answer.messages {
            channel.receive(*stamp, message.clone(), *age, now(seconds)).unwrap();
        }
        channel.handle_denials(origin, &answer, now(seconds).time);
    }
}

#[derive(Debug)]
struct Everything;

impl Picks for Everything {
    fn picks(&self, _: &Message) -> bool {
        true
    }
}

/// All that a subscription is told when it comes.
fn told(channel: &Channel, from: From, seconds: u64) -> Vec<Told> {
    let wanted = Wanted { picks: Arc::new(Everything), reach: vec![Reach::Whole] };
    let wish = Wish { wanted, from, recover: Recover::First, slow: Slow::Wait };
    let mut reader = Reader::attach(channel, wish, now(seconds).time);
    let mut all = Vec::new();
    while let Read::Told(told) = reader.read(channel, now(seconds).time, true, &mut 1_000) {
        all.push(told);
    }
    all
}

fn payloads(told: &[Told]) -> Vec<Vec<u8>> {
    let deliveries = told.iter().filter_map(|told| match told {
        Told::Delivery(delivery) => Some(delivery.message.payload().to_vec()),
        _ => None,
    });
    deliveries.collect()
}

fn covered(origin: Origin, last: u64) -> From {
    let mut coverage = ChannelCoverage::default();
    coverage.insert(origin, Range { first: 1, last }).unwrap();
    From::Coverage(coverage)
}

#[test]
fn regression_a_broker_that_was_away_learns_of_values_whose_messages_were_overwritten() {
    let mut first = channel(A, &[B]);
    publish(&mut first, value("a", b"old"), 0);
    publish(&mut first, value("b", b"old"), 0);
    let mut other = channel(B, &[A]);
    fill(&mut other, &first, 1);
    publish(&mut first, value("a", b"new"), 2);
    publish(&mut first, value("b", b""), 2);
    overwrite(&mut first, 3);
    fill(&mut other, &first, 10);
    assert_eq!((last(&other, "a", 10), last(&other, "b", 10)), (Some(b"new".to_vec()), None));
    assert_eq!(other.retained().len(), 2, "it remembers that one was removed");
    let age = other.retained().find(b"a").unwrap().age(now(10).time);
    assert_eq!(age, Duration::from_secs(8));
    // What it asked for and did not get is gone.
    let (_, log) = other.log_of(A).unwrap();
    assert_eq!(log.missing().count(), 0);
}

#[test]
fn regression_a_value_that_is_published_replaces_one_from_a_clock_that_was_ahead() {
    let mut channel = channel(A, &[]);
    let ahead = Now { wall_ms: BEGIN + 86_400_000, ..now(0) };
    channel.publish(value("a", b"ahead"), ahead).unwrap();
    let mut later = restarted(&channel, LATER, &[], 5);
    let stamp = publish(&mut later, value("a", b"new"), 6);
    assert_eq!(last(&later, "a", 6), Some(b"new".to_vec()));
    let other = publish(&mut later, value("b", b"x"), 6);
    assert!(other.published < stamp.published, "nothing else is moved by it");
}

/// The entries that a broker keeps, as it keeps them.
fn entries(channel: &Channel, seconds: u64) -> Vec<Entry> {
    let mut after = None;
    let entries = std::iter::from_fn(|| {
        let (topic, value) = channel.retained().after(after.as_ref())?;
        after = Some(topic.clone());
        let age = value.age(now(seconds).time);
        let message = value.written(now(seconds).time)?.clone();
        Some(Entry { stamp: value.stamp, arrived_ms: now(seconds).wall_ms, age, message })
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort_unstable_by_key(|entry| entry.stamp.published);
    entries
}

/// A later run of a broker, which finds its last values on disk.
fn restarted(former: &Channel, own: Origin, peers: &[Origin], seconds: u64) -> Channel {
    let mut channel = channel(own, peers);
    for Entry { stamp, age, message, .. } in entries(former, seconds) {
        let restored = channel.restore_value(stamp, message, (Duration::ZERO, age), now(seconds));
        assert_eq!(restored, Restored::Taken);
    }
    channel.end_restoring();
    channel
}

#[test]
fn values_on_disk_come_to_whoever_subscribes_after_a_restart() {
    let mut former = channel(A, &[]);
    for topic in ["a", "b", "c", "d"] {
        publish(&mut former, value(topic, topic.as_bytes()), 0);
    }
    publish(&mut former, value("b", b""), 1);
    overwrite(&mut former, 1);
    let mut channel = restarted(&former, LATER, &[], 100);
    let values = [b"a", b"c", b"d"];
    let live = told(&channel, From::Live, 101);
    assert_eq!(payloads(&live), values);
    let covers = live.iter().filter_map(Told::cover).collect::<Vec<_>>();
    assert!(covers.iter().any(|cover| cover.range == Range { first: 1, last: 5 }), "{covers:?}");
    // Who had some gets the others, and hears that little is known of that run.
    let back = told(&channel, covered(A, 3), 101);
    assert_eq!(payloads(&back), [b"d".to_vec(), vec![]], "and what removed b");
    assert!(back.contains(&Told::UnknownOrigin(A)), "{back:?}");
    // Later values take their place.
    publish(&mut channel, value("a", b"new"), 102);
    assert_eq!(payloads(&told(&channel, From::Live, 103)), [b"new".to_vec(), b"c".to_vec(), b"d".to_vec()]);
}

#[test]
fn two_brokers_agree_after_a_restart_whichever_knew_the_newer_value() {
    let mut first = channel(A, &[B]);
    publish(&mut first, value("a", b"old"), 0);
    publish(&mut first, value("b", b"old"), 0);
    let mut other = channel(B, &[A]);
    fill(&mut other, &first, 1);
    // The first is away, having told nobody of its last value.
    publish(&mut first, value("a", b"last"), 2);
    publish(&mut other, value("b", b"newer"), 3);
    overwrite(&mut other, 4);
    let mut first = restarted(&first, LATER, &[B], 60);
    fill(&mut first, &other, 61);
    fill(&mut other, &first, 61);
    for channel in [&first, &other] {
        assert_eq!(last(channel, "a", 62), Some(b"last".to_vec()));
        assert_eq!(last(channel, "b", 62), Some(b"newer".to_vec()));
    }
}

#[test]
fn lifetimes_and_memories_go_on_over_a_restart() {
    let second = Duration::from_secs(1);
    let mut channel = channel(A, &[]);
    let stamp = publish(&mut channel, value("a", b"x"), 0);
    let short = |payload: &[u8]| {
        let draft =
            Draft { topic: "a", payload, retain: true, lifetime: Some(10 * second), ..Draft::default() };
        draft.finish().unwrap()
    };
    // It was 2 s old when it arrived, 5 s ago.
    let fresh = || self::channel(LATER, &[]);
    let mut later = fresh();
    let times = (5 * second, 2 * second);
    assert_eq!(later.restore_value(stamp, short(b"x"), times, now(100)), Restored::Taken);
    assert_eq!((last(&later, "a", 102), last(&later, "a", 103)), (Some(b"x".to_vec()), None));
    // One that ended is remembered for an hour, and so is what was removed, and the memory of one that has ended.
    let ended = Draft { topic: "a", ..Draft::default() }.finish().unwrap();
    for (message, end) in
        [(short(b"x"), 8 * second), (value("a", b""), Duration::ZERO), (ended, Duration::ZERO)]
    {
        let mut later = fresh();
        let times = |since| (since, 2 * second);
        assert_eq!(later.restore_value(stamp, message.clone(), times(HOUR + end), now(100)), Restored::Over);
        assert!(later.retained().is_empty());
        let since = HOUR + end - second;
        assert_eq!(later.restore_value(stamp, message, times(since), now(100)), Restored::Taken);
        assert_eq!((later.retained().len(), last(&later, "a", 100)), (1, None));
        later.expire(now(101).time);
        assert!(later.retained().is_empty());
    }
    let none = ChannelSettings { most_retained: 0, ..ChannelSettings::new(CHANNEL) };
    let mut none = Channel::new(none, LATER, now(0).time);
    assert_eq!(none.restore_value(stamp, value("a", b"x"), times, now(100)), Restored::NoRoom);
}

/// A folder of its own for a test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("whimbrel-values-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A broker whose messages are in memory.
fn hub(folder: &Path, keeps: bool, most: usize) -> (Arc<Hub>, Vec<String>) {
    let mut rules = ChannelRules::all_topics();
    rules.durable.when = whimbrel_broker::hub::Durability::Never;
    rules.durable.last_values = keeps;
    rules.settings.most_retained = most;
    let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(2), name: "b1".to_owned() };
    let place = StorePlace { folder: Ok(folder.to_owned()), settings: StoreSettings::default() };
    let hub = Hub::with_store(name, vec![rules], Limits::default(), place);
    let notices = hub.open_store().unwrap();
    (hub, notices)
}

/// The last values in a store that nobody uses.
fn on_disk(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let store = Store::open(folder, StoreSettings::default()).unwrap();
    let entries = store.meta().retained(CHANNEL).unwrap().into_iter();
    entries.map(|entry| (entry.message.topic().to_owned(), entry.message.payload().to_vec())).collect()
}

#[test]
fn a_hub_keeps_its_last_values_and_no_more_than_it_may() {
    let folder = Folder::new("hub");
    let (first, _) = hub(&folder.0, true, 100);
    let publish = |hub: &Hub, topic: &str, payload: &[u8], lifetime| {
        let draft = Draft { topic, payload, retain: true, lifetime, ..Draft::default() };
        hub.publish(draft.finish().unwrap(), &mut Finding::default()).unwrap();
    };
    publish(&first, "a", b"old", None);
    publish(&first, "a", b"1", None);
    publish(&first, "b", b"2", None);
    publish(&first, "c", b"3", None);
    publish(&first, "c", b"", None);
    publish(&first, "d", b"4", Some(Duration::from_millis(1)));
    std::thread::sleep(Duration::from_millis(2));
    first.tick();
    first.close_store();
    drop(first);
    let pair = |topic: &str, payload: &[u8]| (topic.to_owned(), payload.to_vec());
    // What was removed or has ended is remembered.
    assert_eq!(on_disk(&folder.0), [pair("a", b"1"), pair("b", b"2"), pair("c", b""), pair("d", b"")]);
    let (second, notices) = hub(&folder.0, true, 3);
    assert_eq!(second.report()[0].retained, 3);
    assert!(notices[0].contains("1 of 4") && notices[0].contains("`retained`"), "{notices:?}");
    second.close_store();
    drop(second);
    assert_eq!(on_disk(&folder.0).len(), 4, "the others stay");
    let (third, notices) = hub(&folder.0, false, 3);
    assert_eq!((third.report()[0].retained, notices.len()), (0, 0), "they are not wanted");
}
