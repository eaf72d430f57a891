//! Two brokers that tell each other about durable subscriptions, with no network between them: they agree, and then fall silent.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use whimbrel_broker::durable::Life;
use whimbrel_broker::hub::{
    AttachDurable, BrokerName, ChannelRules, Durability, DurableAttachment, Finding, Hub, NotTaken, Sharing,
    StorePlace, Word,
};
use whimbrel_broker::matching::Limits;
use whimbrel_broker::selection::{PartitionRule, Selection};
use whimbrel_broker::store::{DurableSubscription, Fact, StoreSettings, SubscriptionName};
use whimbrel_pubsub::coverage::{ClusterId, Coverage, Range};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Message, Origin};
use whimbrel_pubsub::topic::TopicFilter;

/// More exchanges than any agreement takes.
const ROUNDS: usize = 40;
const ONE: ChannelId = ChannelId(1);
const TWO: ChannelId = ChannelId(2);

/// A broker, in a folder of its own, which is removed at its end.
struct Broker {
    hub: Arc<Hub>,
    folder: PathBuf,
}

impl Broker {
    /// One with the channels 1 (`one/#`) and 2 (`two/#`). Its id is `at`, and the other's is 3 less that.
    fn new(test: &str, at: u64, when: Durability) -> Self {
        let folder =
            std::env::temp_dir().join(format!("whimbrel-agreeing-{test}-{at}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let rules = |id: ChannelId, name: &str| {
            let mut rules = ChannelRules::all_topics();
            let filter: TopicFilter = format!("{name}/#").parse().unwrap();
            rules.name = name.to_owned();
            rules.topics = vec![filter.clone()];
            rules.partitions = vec![PartitionRule::new(filter, None)];
            rules.settings.id = id;
            rules.settings.peers = vec![BrokerId(3 - at)];
            rules.durable.when = when;
            rules
        };
        let name = BrokerName { cluster: ClusterId(1), broker: BrokerId(at), name: format!("b{at}") };
        let place = StorePlace { folder: Ok(folder.clone()), settings: StoreSettings::default() };
        let channels = vec![rules(ONE, "one"), rules(TWO, "two")];
        let hub = Hub::with_store(name, channels, Limits::default(), place);
        hub.open_store().unwrap();
        Self { hub, folder }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

fn attach(name: &str, filter: &str, generation: u64, coverage: Coverage) -> AttachDurable {
    let selection = Selection::new(filter.parse().unwrap(), None);
    AttachDurable { owner: vec![1; 32], name: name.to_owned(), generation, coverage, selection }
}

fn some_coverage() -> Coverage {
    let (origin, range) = (Origin { broker: BrokerId(9), epoch: 1 }, Range { first: 1, last: 5 });
    let mut coverage = Coverage::default();
    coverage.entry(ONE).unwrap().insert(origin, range).unwrap();
    coverage
}

fn message(topic: &str) -> Message {
    Draft { topic, payload: b"x", ..Draft::default() }.finish().unwrap()
}

/// Two brokers with a link that carries some channels.
struct Pair<'a> {
    brokers: [&'a Broker; 2],
    sharings: [Sharing; 2],
    /// All that the first has said.
    said: RefCell<Vec<Word>>,
}

impl<'a> Pair<'a> {
    fn new(brokers: [&'a Broker; 2], carries: impl Fn(ChannelId) -> bool) -> Self {
        let share = |at: usize| {
            let (own, other) = (&brokers[at].hub, &brokers[1 - at].hub);
            let (ours, theirs) = (own.map(&carries), other.map(&carries));
            let kept = other.kept(&theirs);
            let id = other.name().broker;
            let shared = own.meet(id, "the other".to_owned(), &ours, (theirs, Some(kept))).unwrap();
            own.share_with(id, &shared)
        };
        Self { brokers, sharings: [share(0), share(1)], said: RefCell::default() }
    }

    fn hub(&self, at: usize) -> &'a Arc<Hub> {
        &self.brokers[at].hub
    }

    /// Each hears what the other has to say, until both are silent.
    async fn talk(&self) {
        for _ in 0..ROUNDS {
            let mut is_silent = true;
            for from in [0, 1] {
                let words = self.sharings[from].next();
                is_silent &= words.is_empty();
                if from == 0 {
                    self.said.borrow_mut().extend(words.iter().cloned());
                }
                let by = self.hub(from).name().broker;
                self.hub(1 - from).learn(by, words).await.unwrap();
            }
            if is_silent {
                return;
            }
        }
        panic!("they talk for ever");
    }

    /// Attaches while both talk.
    async fn attach(&self, at: usize, attach: AttachDurable) -> DurableAttachment {
        let is_done = Cell::new(false);
        let attaching = async {
            let attachment = self.hub(at).attach_durable(attach).await.unwrap();
            is_done.set(true);
            attachment
        };
        let talking = async {
            while !is_done.get() {
                self.talk().await;
                tokio::task::yield_now().await;
            }
        };
        let (attachment, ()) = tokio::join!(attaching, talking);
        self.talk().await;
        attachment
    }

    async fn end(&self, at: usize, name: &str) {
        assert!(self.hub(at).end_durable(&[1; 32], name).await.unwrap());
        self.talk().await;
    }
}

/// The facts of which the other may hear, each with the name of its subscription.
fn facts(words: &[Word]) -> impl Iterator<Item = (&Fact, &str)> {
    words.iter().filter_map(|word| match word {
        Word::Fact(fact) => Some((fact, fact.name().as_str().rsplit('/').next().unwrap())),
        _ => None,
    })
}

/// Both knew it only by their subscribers' word, so no birth told the later. Each corrected the other for ever.
#[tokio::test]
async fn regression_two_that_made_one_name_agree_and_fall_silent() {
    for generations in [(1, 1), (2, 1), (1, 2)] {
        let test = format!("name{}{}", generations.0, generations.1);
        let brokers = [1, 2].map(|at| Broker::new(&test, at, Durability::Always));
        let first = attach("board", "one/a", generations.0, some_coverage());
        let second = attach("board", "one/b", generations.1, some_coverage());
        let (first, second) =
            tokio::join!(brokers[0].hub.attach_durable(first), brokers[1].hub.attach_durable(second));
        let (first, second) = (first.unwrap(), second.unwrap());
        let pair = Pair::new([&brokers[0], &brokers[1]], |_| true);
        pair.talk().await;
        let filters = brokers.each_ref().map(|broker| {
            let known = broker.hub.durable_subscriptions();
            known.into_iter().map(|report| report.filter).collect::<Vec<_>>()
        });
        let first_wins = generations.0 > generations.1;
        let filter = if first_wins { "one/a" } else { "one/b" };
        assert_eq!(filters, [[filter], [filter]]);
        assert_eq!((first.is_superseded(), second.is_superseded()), (!first_wins, first_wins));
        let why = if first_wins { second.end() } else { first.end() }.reason;
        assert!(why.contains(&format!("with the filter `{filter}`")), "{why}");
        let again = attach("board", "one/c", 0, Coverage::default());
        let refused = pair.hub(usize::from(first_wins)).attach_durable(again).await.unwrap_err();
        assert!(refused.reason.contains(&format!("has the filter `{filter}`")), "{refused:?}");
    }
}

/// Two devices with one state attached at two brokers, and both were served.
#[tokio::test]
async fn regression_of_two_attachments_in_one_generation_one_goes_on() {
    let brokers = [1, 2].map(|at| Broker::new("tie", at, Durability::Always));
    let pair = Pair::new([&brokers[0], &brokers[1]], |_| true);
    let attach = |generation| attach("board", "one/#", generation, Coverage::default());
    let first = pair.attach(0, attach(0)).await;
    let second = pair.attach(1, attach(0)).await;
    assert_eq!((first.generation(), second.generation()), (1, 2));
    assert!(first.is_superseded() && !second.is_superseded(), "the later goes on");
    let tied = pair.attach(0, attach(2)).await;
    assert!(tied.is_superseded() && !second.is_superseded(), "the broker with the larger id goes on");
    assert!(tied.end().reason.contains("was attached elsewhere"));
    let third = pair.attach(0, attach(0)).await;
    assert!(second.is_superseded() && !third.is_superseded());
    let tied = pair.attach(1, attach(3)).await;
    assert!(third.is_superseded() && !tied.is_superseded());
}

/// The first part of it was on disk, so it was taken for done.
#[tokio::test]
async fn regression_what_a_failed_fact_left_undone_is_done_when_it_is_heard_again() {
    let brokers = [1, 2].map(|at| Broker::new("undone", at, Durability::WhenWanted));
    let pair = Pair::new([&brokers[0], &brokers[1]], |_| true);
    let (hub, by) = (pair.hub(1), BrokerId(1));
    // What came before it was made is covered, so there is news of coverage.
    hub.publish(message("one/x"), &mut Finding::default()).unwrap();
    let attachment = pair.attach(1, attach("board", "one/#", 0, Coverage::default())).await;
    assert_eq!((hub.durable_subscriptions().len(), hub.logs().len()), (1, 1));
    // It goes on at the first broker, where it also has the other channel. The log of that cannot be made.
    let of_name = pair.said.borrow().iter().find_map(|word| match word {
        Word::Confirmed { name, life } => Some((name.clone(), *life)),
        _ => None,
    });
    let (name, life) = of_name.unwrap();
    let told = DurableSubscription {
        name,
        owner: vec![1; 32],
        filter: "one/#".to_owned(),
        selector: None,
        channels: vec![ONE, TWO],
        generation: life.generation + 1,
        born: life.born,
    };
    let told = || vec![Word::Fact(Fact::Kept(told.clone()))];
    let blocked = brokers[1].folder.join("log-2");
    std::fs::write(&blocked, "no folder").unwrap();
    for _ in 0..2 {
        hub.learn(by, told()).await.unwrap_err();
        assert!(!attachment.is_superseded());
        assert_eq!(pair.sharings[1].next(), [Word::TellAll], "nothing is confirmed");
    }
    std::fs::remove_file(&blocked).unwrap();
    hub.learn(by, told()).await.unwrap();
    assert!(attachment.is_superseded());
    assert_eq!(hub.logs().len(), 2, "it is appended to both logs now");
    let words = pair.sharings[1].next();
    let [Word::Fact(Fact::Covered { coverage, .. }), Word::Confirmed { life: of, .. }] = &words[..] else {
        panic!("what was acknowledged here comes before: {words:?}")
    };
    assert!(!coverage.is_empty() && of.generation == life.generation + 1);
}

/// `channels` of [[peer]] kept messages from a link, but not what is known of their subscriptions.
#[tokio::test]
async fn regression_words_are_about_channels_that_the_link_carries() {
    let brokers = [1, 2].map(|at| Broker::new("scope", at, Durability::WhenWanted));
    let pair = Pair::new([&brokers[0], &brokers[1]], |channel| channel == ONE);
    for topic in ["one/x", "two/x"] {
        pair.hub(0).publish(message(topic), &mut Finding::default()).unwrap();
    }
    let mut attached = Vec::new();
    for (name, filter) in [("first", "one/#"), ("second", "two/#"), ("both", "#")] {
        attached.push(pair.attach(0, attach(name, filter, 0, Coverage::default())).await);
        let unconfirmed = attached.last().unwrap().unconfirmed();
        assert!(unconfirmed.is_empty(), "who is not told is not waited for: {unconfirmed:?}");
    }
    let names: Vec<_> = pair.hub(1).durable_subscriptions().into_iter().map(|report| report.name).collect();
    assert_eq!(names, ["both", "first"]);
    pair.end(0, "first").await;
    pair.end(0, "second").await;
    let said = pair.said.borrow().clone();
    let all: Vec<_> = facts(&said).collect();
    assert!(all.iter().all(|(_, name)| *name != "second"), "{all:?}");
    assert!(all.iter().any(|(fact, name)| *name == "first" && matches!(fact, Fact::Ended { .. })));
    let covered: Vec<_> = all
        .iter()
        .filter_map(|(fact, name)| match fact {
            Fact::Covered { coverage, .. } if *name == "both" => Some(coverage),
            _ => None,
        })
        .collect();
    assert!(!covered.is_empty());
    assert!(covered.iter().all(|coverage| coverage.of(ONE).is_some() && coverage.of(TWO).is_none()));

    // Nor does it hear of them what is not the other's to say.
    let third = pair.attach(0, attach("third", "two/#", 0, Coverage::default())).await;
    let name = SubscriptionName::new(&format!("{}/third", "01".repeat(32))).unwrap();
    let life = Life { born: u64::MAX >> 1, generation: 9 };
    let ended = Word::Fact(Fact::Ended { name, life, left: Duration::from_secs(60) });
    pair.hub(0).learn(BrokerId(2), vec![ended]).await.unwrap();
    assert!(!third.is_superseded());
    assert!(pair.hub(0).durable_subscriptions().iter().any(|report| report.name == "third"));
}

/// A publisher was accepted, and then waited for a copy that nobody would make.
#[tokio::test]
async fn regression_a_broker_that_keeps_nothing_is_no_possible_copy() {
    let keeping = Broker::new("copies", 1, Durability::Always);
    let other = Broker::new("copies", 2, Durability::Never);
    assert!(other.hub.kept(&other.hub.map(|_| true)).is_empty());
    let refused = |pair: &Pair<'_>| match pair.hub(0).take_safely(message("one/x"), &mut Finding::default()) {
        Err(NotTaken::Busy(refusal)) => refusal.reason,
        other => panic!("{other:?}"),
    };
    let pair = Pair::new([&keeping, &other], |_| true);
    let why = refused(&pair);
    assert!(why.contains("only this broker is within reach") && why.contains("1 that are linked"), "{why}");
    drop(pair);
    drop(other);
    let without = Broker::new("copies", 2, Durability::Always);
    let pair = Pair::new([&keeping, &without], |channel| channel == TWO);
    let why = refused(&pair);
    assert!(why.contains("1 that are linked"), "it does not have the channel: {why}");
    drop(pair);
    let pair = Pair::new([&keeping, &without], |_| true);
    let taken = pair.hub(0).take_safely(message("one/x"), &mut Finding::default());
    assert!(taken.is_ok(), "it keeps the channel");
}
