//! Subscriptions that select the same share what they read, and are told what each would be told alone.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use whimbrel_broker::hub::{
    Attach, Attachment, BrokerName, ChannelRules, Finding, Form, Hub, Progress, Sink,
};
use whimbrel_broker::matching::Limits;
use whimbrel_broker::selection::Selection;
use whimbrel_pubsub::coverage::{ClusterId, Told};
use whimbrel_pubsub::frame::{Recover, Slow, Start, Telling, parse_telling};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Hlc, Message, Origin, PartitionId, Stamp};

const OTHERS: [Origin; 2] =
    [Origin { broker: BrokerId(2), epoch: 5 }, Origin { broker: BrokerId(3), epoch: 6 }];
const CHANNEL: ChannelId = ChannelId(0);

fn hub() -> Arc<Hub> {
    let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(1), name: "test".to_owned() };
    let mut rules = ChannelRules::all_topics();
    rules.settings.peers = OTHERS.iter().map(|origin| origin.broker).collect();
    Hub::new(name, vec![rules], Limits::default())
}

fn attach(hub: &Arc<Hub>, client: u64, filter: &str) -> Attachment {
    let selection = Selection::new(filter.parse().unwrap(), None);
    let (recover, slow, start) = (Recover::First, Slow::Wait, Start::Live);
    hub.attach(client, Attach { selection, recover, slow, start, state: None, form: Form(1) }).unwrap()
}

fn message(topic: &str, number: u64, lifetime: Option<Duration>) -> Message {
    Draft { topic, lifetime, payload: &number.to_le_bytes(), ..Draft::default() }.finish().unwrap()
}

/// Takes frames, and shares them, three things to a frame.
#[derive(Default)]
struct Sharing {
    frames: Vec<Bytes>,
    open: Vec<Told>,
    shared: usize,
    /// The things it was told itself, and those that came from others.
    itself: usize,
    others: usize,
}

impl Sharing {
    fn close(&mut self) {
        if !self.open.is_empty() {
            let mut telling = Telling::new(CHANNEL);
            self.open.drain(..).for_each(|told| telling.push(&told));
            self.frames.push(telling.finish());
        }
    }

    fn told(mut self) -> Vec<Told> {
        self.close();
        self.frames.iter().flat_map(|frame| parse_telling(frame).unwrap().1).collect()
    }
}

impl Sink for Sharing {
    fn tell(&mut self, _: ChannelId, told: Told) -> bool {
        self.itself += 1;
        self.open.push(told);
        true
    }

    fn shares(&self) -> bool {
        true
    }

    fn begin(&mut self) {
        self.close();
        self.shared = self.frames.len();
    }

    fn is_whole(&self) -> bool {
        self.open.len() >= 3
    }

    fn end(&mut self) -> Option<Vec<Bytes>> {
        self.close();
        Some(self.frames[self.shared..].to_vec())
    }

    fn repeat(&mut self, bytes: &[Bytes]) -> bool {
        self.close();
        self.others += bytes.len();
        self.frames.extend_from_slice(bytes);
        true
    }
}

#[derive(Clone, Debug)]
enum Op {
    Publish {
        topic: bool,
        lifetime: bool,
    },
    /// A message of another broker, by its place among those that did not come yet.
    Receive {
        origin: usize,
        ahead: u64,
    },
    Read {
        reader: usize,
        steps: u32,
    },
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any::<bool>(), prop::bool::weighted(0.1)).prop_map(|(topic, lifetime)| Op::Publish { topic, lifetime }),
        4 => (0_usize..2, prop_oneof![8 => Just(0), 1 => 1_u64..4])
            .prop_map(|(origin, ahead)| Op::Receive { origin, ahead }),
        5 => (0_usize..4, 1_u32..20).prop_map(|(reader, steps)| Op::Read { reader, steps }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whoever_shares_is_told_what_it_would_be_told_alone(
        ops in proptest::collection::vec(any_op(), 1..120), filter in prop_oneof![Just("#"), Just("a")],
    ) {
        let hub = hub();
        let mut alone = attach(&hub, 1, filter);
        let mut expected = Vec::new();
        let mut hear = |_: ChannelId, told: Told| { expected.push(told); true };
        let mut alike: Vec<_> = (0..4).map(|at| (attach(&hub, 2 + at, filter), Sharing::default())).collect();
        let mut finding = Finding::default();
        let mut missing = [(1..200_u64).collect::<Vec<_>>(), (1..200).collect()];
        for (number, op) in ops.iter().enumerate() {
            match *op {
                Op::Publish { topic, lifetime } => {
                    // Long enough not to end within the test.
                    let lifetime = lifetime.then_some(Duration::from_secs(3600));
                    let message = message(if topic { "a" } else { "b" }, number as u64, lifetime);
                    hub.publish(message, &mut finding).unwrap();
                }
                Op::Receive { origin, ahead } => {
                    let sequence = missing[origin].remove(ahead as usize);
                    let (partition, published) = (PartitionId(0), Hlc::at(sequence));
                    let stamp = Stamp { origin: OTHERS[origin], sequence, partition, ordinal: sequence, published };
                    let message = message("a", number as u64, None);
                    hub.receive(CHANNEL, (stamp, message, Duration::ZERO), &mut finding).unwrap().unwrap();
                }
                Op::Read { reader, steps } => {
                    let (attachment, sharing) = &mut alike[reader];
                    attachment.read(true, steps, sharing);
                }
            }
        }
        while alone.read(true, 100, &mut hear) != Progress::Idle {}
        for (mut attachment, mut sharing) in alike {
            while attachment.read(true, 100, &mut sharing) != Progress::Idle {}
            prop_assert_eq!(attachment.coverage(), alone.coverage());
            prop_assert_eq!(sharing.told(), expected.clone());
        }
    }
}

#[test]
fn a_message_is_looked_at_about_once_for_all_who_are_alike() {
    let hub = hub();
    let mut alike: Vec<_> = (0..50).map(|at| (attach(&hub, at, "a"), Sharing::default())).collect();
    let mut finding = Finding::default();
    for round in 0..20 {
        let mut take =
            |number: u64| hub.take(message("a", 100 * round + number, None), &mut finding).unwrap();
        (0..100).for_each(|number| _ = take(number));
        hub.wake_for_taken(&mut finding);
        for (attachment, sharing) in &mut alike {
            assert!(attachment.is_ready());
            assert_eq!(attachment.read(true, 1_000, sharing), Progress::Idle);
        }
    }
    let itself: usize = alike.iter().map(|(_, sharing)| sharing.itself).sum();
    // Besides what each is told when it comes.
    assert!(itself < 2_000 + 50 * 4, "{itself} of 100,000");
    for (_, sharing) in alike {
        let deliveries = sharing.told().iter().filter(|told| matches!(told, Told::Delivery(_))).count();
        assert_eq!(deliveries, 2_000);
    }
}

#[test]
fn who_comes_while_messages_are_taken_misses_none() {
    let hub = hub();
    let mut finding = Finding::default();
    hub.take(message("a", 1, None), &mut finding).unwrap();
    let mut late = attach(&hub, 1, "a");
    let mut told = Vec::new();
    let mut hear = |_: ChannelId, told_now: Told| {
        told.push(told_now);
        true
    };
    while late.read(true, 100, &mut hear) != Progress::Idle {}
    hub.take(message("a", 2, None), &mut finding).unwrap();
    hub.wake_for_taken(&mut finding);
    assert!(late.is_ready(), "it is woken though the topic was known before it came");
    while late.read(true, 100, &mut hear) != Progress::Idle {}
    let deliveries = told.iter().filter(|told| matches!(told, Told::Delivery(_))).count();
    assert_eq!(deliveries, 1, "{told:?}");
}
