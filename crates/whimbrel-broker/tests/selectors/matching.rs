//! The table of subscriptions finds what trying each finds, and keeps nothing of what was taken out.

use std::collections::BTreeMap;
use std::sync::Arc;

use whimbrel_broker::matching::{Found, Held, Limits, Refused, Subscription, Table};
use whimbrel_broker::selector::Selector;
use whimbrel_pubsub::property::{Properties, Value};
use whimbrel_pubsub::topic::{Topic, TopicFilter};

use crate::random::{Random, properties};
use crate::{message, selector};

fn topic(text: &str) -> Topic {
    Topic::parse(text).expect("a topic")
}

fn filter(text: &str) -> TopicFilter {
    TopicFilter::parse(text).expect("a filter")
}

fn shared(text: &str) -> Option<Arc<Selector>> {
    Some(Arc::new(selector(text)))
}

fn name(client: u64, number: u32) -> Subscription {
    Subscription { client, number }
}

fn found(table: &Table, name: &str, message: &Properties) -> Vec<Subscription> {
    let mut found = Found::default();
    table.matches(&topic(name), message, &mut found);
    found.subscriptions.sort_unstable();
    found.subscriptions
}

/// All subscriptions, to be tried one by one.
type Plain = BTreeMap<Subscription, (TopicFilter, Option<Arc<Selector>>)>;

fn try_each(plain: &Plain, name: &Topic, message: &Properties) -> Vec<Subscription> {
    let takes = |filter: &TopicFilter, selector: &Option<Arc<Selector>>| {
        filter.matches(name) && selector.as_ref().is_none_or(|selector| selector.matches(message))
    };
    plain.iter().filter(|(_, (filter, selector))| takes(filter, selector)).map(|(name, _)| *name).collect()
}

fn random_filter(random: &mut Random) -> TopicFilter {
    let mut levels: Vec<_> = (0..random.below(4)).map(|_| random.one(&["a", "b", "+", "", "$s"])).collect();
    if levels.is_empty() || random.chance(30) {
        levels.push("#");
    }
    let text = levels.join("/");
    filter(if text.is_empty() { "a" } else { &text })
}

fn random_topic(random: &mut Random) -> Topic {
    let levels: Vec<_> = (0..=random.below(3)).map(|_| random.one(&["a", "b", "", "$s"])).collect();
    let text = levels.join("/");
    topic(if text.is_empty() { "a" } else { &text })
}

#[test]
fn finds_what_trying_each_finds() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (mut table, mut plain) = (Table::default(), Plain::new());
        for _ in 0..random.below(200) {
            let subscription = name(random.bits() % 4, random.below(40) as u32);
            if random.chance(25) {
                assert_eq!(table.remove(subscription), plain.remove(&subscription).is_some(), "seed {seed}");
                continue;
            }
            let filter = random_filter(&mut random);
            let selector = random.chance(80).then(|| Arc::new(selector(&random.condition(2).to_string())));
            table.insert(subscription, &filter, selector.clone()).expect("there is room");
            plain.insert(subscription, (filter, selector));
        }
        assert_eq!(table.len(), plain.len());
        for _ in 0..40 {
            let (name, message) = (random_topic(&mut random), properties(&random.message()));
            let expected = try_each(&plain, &name, &message);
            assert_eq!(
                found(&table, name.as_str(), &message),
                expected,
                "seed {seed}: {name} with {message:?}"
            );
        }
        for client in 0..4 {
            let own = plain.keys().filter(|subscription| subscription.client == client).count();
            assert_eq!(table.remove_client(client), own, "seed {seed}");
        }
        assert_eq!(table.held(), Held::default(), "seed {seed}: something is left behind");
    }
}

#[test]
fn ten_thousand_selectors_are_not_tried_one_by_one() {
    let mut table = Table::new(Limits { max_client_subscriptions: 20_000, ..Limits::default() });
    for number in 0..10_000 {
        // Each has a term that all share, and one of its own.
        let text = match number % 4 {
            0 => format!("kind = 'quote' AND symbol = 'S{number}'"),
            1 => format!("kind = 'quote' AND price BETWEEN {number} AND {}", number + 8),
            2 => format!("price > {} AND kind IN ('quote', 'trade')", 20_000 + number),
            _ => format!("kind = 'quote' AND (symbol = 'S{number}' OR symbol = 'T{number}')"),
        };
        table.insert(name(1, number), &filter("market/+"), shared(&text)).expect("there is room");
    }
    let mut found = Found::default();
    let quote = message(&[("kind", "quote".into()), ("symbol", "T4003".into()), ("price", 5005.5.into())]);
    table.matches(&topic("market/xetra"), &quote, &mut found);
    found.subscriptions.sort_unstable();
    assert_eq!(found.subscriptions, [name(1, 4003), name(1, 5001), name(1, 5005)]);
    // A few of the first went by the term that all share, when nothing told that they do.
    assert!(found.evaluated < 100, "{} selectors were evaluated", found.evaluated);
}

#[test]
fn a_subscription_takes_the_place_of_its_former_self() {
    let mut table = Table::default();
    let fish = message(&[("n", 3.into())]);
    table.insert(name(1, 1), &filter("a"), None).expect("there is room");
    table.insert(name(1, 1), &filter("b"), shared("n = 3")).expect("there is room");
    assert_eq!(found(&table, "a", &fish), []);
    assert_eq!(found(&table, "b", &fish), [name(1, 1)]);
    table.insert(name(1, 1), &filter("b"), shared("n = 4")).expect("there is room");
    assert_eq!(found(&table, "b", &fish), []);
    assert_eq!(table.held(), Held { subscriptions: 1, clients: 1, nodes: 1, entries: 1 });
}

#[test]
fn one_client_cannot_fill_the_table() {
    let mut table = Table::default();
    let most = Limits::default().max_client_subscriptions;
    let mut refused = 0;
    for number in 0..1_000_000 {
        match table.insert(name(1, number), &filter("a/b/c"), None) {
            Ok(()) => {}
            Err(Refused::ClientSubscriptions(limit)) => {
                assert_eq!((limit, table.len()), (most, most));
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(refused, 1_000_000 - most);
    table.insert(name(2, 0), &filter("a/b/c"), None).expect("another client has room");
    assert_eq!(table.remove_client(1), most);
    assert_eq!(table.held(), Held { subscriptions: 1, clients: 1, nodes: 3, entries: 1 });
}

#[test]
fn levels_selectors_and_evaluations_are_limited_for_each_client() {
    let limits = Limits {
        max_client_levels: 10,
        max_client_selectors: 4000,
        max_client_scanned: 2,
        max_subscriptions: 8,
        ..Limits::default()
    };
    let mut table = Table::new(limits);
    let insert = |table: &mut Table, client, number, text: &str, selector| {
        table.insert(name(client, number), &filter(text), selector)
    };
    assert_eq!(insert(&mut table, 1, 0, "a/a/a/a/a/a/a/a/a/a/a", None), Err(Refused::ClientLevels(10)));
    let long = format!("s = 'a' AND t = '{}'", "x".repeat(3900));
    assert_eq!(insert(&mut table, 1, 1, "a", shared(&long)), Err(Refused::ClientSelectors(4000)));
    for number in 0..2 {
        insert(&mut table, 1, number, "a", shared("a <> b")).expect("there is room");
    }
    assert_eq!(insert(&mut table, 1, 2, "a", shared("a <> b")), Err(Refused::ClientScanned(2)));
    insert(&mut table, 1, 2, "a", shared("a <> b AND a = 1")).expect("it has a term");
    insert(&mut table, 1, 1, "a", shared("a > b")).expect("it takes the place of one");
    assert_eq!(insert(&mut table, 1, 1, "a", shared(&long)), Err(Refused::ClientSelectors(4000)));
    for client in 2..7 {
        insert(&mut table, client, 0, "a", None).expect("there is room");
    }
    assert_eq!(insert(&mut table, 8, 0, "a", None), Err(Refused::Subscriptions(8)));
    insert(&mut table, 2, 0, "b", None).expect("it takes the place of one");
    for client in 1..9 {
        table.remove_client(client);
    }
    assert_eq!(table.held(), Held::default());
}

#[test]
fn a_term_is_found_whatever_the_type_of_the_number() {
    let mut table = Table::default();
    let texts =
        ["n = 9007199254740993", "n = 9007199254740992.0", "n >= 9007199254740993", "n = -0.0", "n < 0"];
    for (number, text) in (0..).zip(texts) {
        table.insert(name(1, number), &filter("a"), shared(text)).expect("there is room");
    }
    let with = |value: Value<'_>| {
        let found = found(&table, "a", &message(&[("n", value)]));
        found.iter().map(|subscription| subscription.number).collect::<Vec<_>>()
    };
    assert_eq!(with(9_007_199_254_740_993.into()), [0, 1, 2]);
    assert_eq!(with(9_007_199_254_740_992.into()), [1]);
    assert_eq!(with(9_007_199_254_740_992.0.into()), [0, 1, 2]);
    assert_eq!(with(0.into()), [3]);
    assert_eq!(with((-1.0).into()), [4]);
    assert_eq!(with(f64::NAN.into()), [0_u32; 0]);
}
