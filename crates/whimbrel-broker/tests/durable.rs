//! A broker with a durable channel: what its log answers, and what a subscriber hears of a damaged one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use whimbrel_broker::buffer::GapRequest;
use whimbrel_broker::hub::{
    AttachDurable, BrokerName, ChannelRules, Client, Dug, Durability, DurableAttachment, Finding, Hub,
    Progress, StorePlace,
};
use whimbrel_broker::matching::Limits;
use whimbrel_broker::selection::Selection;
use whimbrel_broker::store::StoreSettings;
use whimbrel_pubsub::coverage::{ClusterId, Coverage, Fate, Range, Told};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft};

const CHANNEL: ChannelId = ChannelId(0);

/// A folder of its own for a test, which is removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("whimbrel-durable-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A broker whose buffer holds 20 messages, and whose segments are small.
fn hub(folder: &Path) -> Arc<Hub> {
    let mut rules = ChannelRules::all_topics();
    rules.durable.when = Durability::Always;
    rules.durable.log.segment_bytes = 4 << 10;
    rules.settings.partitions[0].size.messages = 20;
    let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(2), name: "b1".to_owned() };
    let place = StorePlace { folder: Ok(folder.to_owned()), settings: StoreSettings::default() };
    let hub = Hub::with_store(name, vec![rules], Limits::default(), place);
    hub.open_store().unwrap();
    hub
}

async fn publish(hub: &Hub, topic: &str, messages: usize) {
    for _ in 0..messages {
        let message = Draft { topic, payload: &[7; 100], ..Draft::default() }.finish().unwrap();
        let (_, storing) = hub.take_safely(message, &mut Finding::default()).map_err(|_| "refused").unwrap();
        storing.await.unwrap();
    }
}

async fn attach(hub: &Arc<Hub>, filter: &str) -> DurableAttachment {
    let selection = Selection::new(filter.parse().unwrap(), None);
    let (owner, name, coverage) = (vec![1; 32], "board".to_owned(), Coverage::default());
    let attach = AttachDurable { owner, name, generation: 0, coverage, selection: selection.clone() };
    let mut attachment = hub.attach_durable(attach).await.unwrap();
    attachment.introduce(&Arc::new(Client::new("client", None)), &selection);
    attachment
}

/// All that is told until the end.
async fn all(attachment: &mut DurableAttachment) -> Vec<Told> {
    let mut all = Vec::new();
    while attachment
        .read(|_, told| {
            all.push(told);
            true
        })
        .await
        .unwrap()
        == Progress::More
    {}
    all
}

#[tokio::test]
async fn a_log_answers_what_the_buffer_has_overwritten() {
    let folder = Folder::new("answers");
    let hub = hub(&folder.0);
    publish(&hub, "t", 100).await;
    let origin = hub.own().unwrap();
    let request = GapRequest { to: BrokerId(2), origin, ranges: vec![Range { first: 1, last: 100 }] };
    let answer = hub.answer(CHANNEL, &request).unwrap();
    assert_eq!(answer.gone, [Range { first: 1, last: 80 }]);
    let Dug { messages, gone } = hub.dig(CHANNEL, origin, &[Range { first: 1, last: 80 }]);
    let sequences: Vec<_> = messages.iter().map(|(stamp, ..)| stamp.sequence).collect();
    assert_eq!((sequences, gone), ((1..=80).collect(), Vec::new()));
    let Dug { messages, gone } = hub.dig(CHANNEL, origin, &[Range { first: 100, last: 110 }]);
    assert_eq!((messages.len(), gone), (1, vec![Range { first: 101, last: 110 }]));
}

#[tokio::test]
async fn a_filter_that_matches_nothing_reads_a_slice_at_a_time() {
    let folder = Folder::new("slices");
    let hub = hub(&folder.0);
    let mut attachment = attach(&hub, "nothing").await;
    publish(&hub, "t", 5_000).await;
    let mut slices = 1;
    while attachment.read(|_, told| panic!("{told:?}")).await.unwrap() == Progress::More {
        slices += 1;
    }
    assert!(slices > 1, "all at once");
    attachment.tell_covers();
    assert!(matches!(&all(&mut attachment).await[..], [Told::Covers(cover)] if cover.range.last == 5_000));
    let records = hub.register().subscribers();
    let kinds: Vec<_> = records.iter().map(|record| record.kind().name()).collect();
    assert_eq!((kinds, records[0].lag(|_| 5_000)), (vec!["durable"], 0));
}

#[tokio::test]
async fn a_subscriber_hears_what_damage_has_taken() {
    let folder = Folder::new("damage");
    {
        let hub = hub(&folder.0);
        drop(attach(&hub, "#").await);
        publish(&hub, "t", 100).await;
        hub.close_store();
    }
    // Somewhere in the records of the first segment.
    let log = folder.0.join(format!("log-{}", CHANNEL.0));
    let mut segments: Vec<_> = std::fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.sort();
    assert!(segments.len() > 2);
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    bytes[2_000] ^= 1;
    std::fs::write(&segments[0], bytes).unwrap();
    let hub = hub(&folder.0);
    let mut attachment = attach(&hub, "#").await;
    let told = all(&mut attachment).await;
    let (mut delivered, mut gone, mut covered) = (0, 0, Coverage::default());
    for told in &told {
        match told {
            Told::Delivery(_) => delivered += 1,
            Told::Fate { fate: Fate::Gone, count, closed: true, .. } => {
                assert!(count.exact);
                gone += count.number;
            }
            _ => {}
        }
        if let Some(cover) = told.cover() {
            covered.entry(CHANNEL).unwrap().insert(cover.origin, cover.range).unwrap();
        }
    }
    assert!(gone > 0 && delivered + gone == 100, "{delivered} and {gone}");
    assert_eq!(hub.logs()[0].unreadable, gone);
    attachment.acknowledge(&covered).unwrap();
    assert_eq!(hub.durable_subscriptions()[0].lag, 0, "the damage holds nothing back");
}
