//! Allocations of evaluating and matching, and the memory that a table leaves behind.

use std::hint::black_box;
use std::sync::Arc;

use whimbrel_broker::matching::{Found, Subscription, Table};
use whimbrel_broker::selector::Selector;
use whimbrel_pubsub::topic::{Topic, TopicFilter};
use whimbrel_testing::counting;

use crate::random::{Random, properties};

/// Runs something, and returns the allocations and the bytes that are left of them.
fn counted(run: impl FnOnce()) -> (u64, i64) {
    let before = (counting::calls(), counting::bytes());
    counting::switch(true);
    run();
    counting::switch(false);
    (counting::calls() - before.0, counting::bytes() - before.1)
}

#[test]
fn evaluating_allocates_nothing() {
    for seed in 0..2000 {
        let mut random = Random::new(seed);
        let selector = Selector::parse(&random.condition(4).to_string()).expect("a selector");
        let message = properties(&random.message());
        let (calls, _) = counted(|| _ = black_box(selector.matches(&message)));
        assert_eq!(calls, 0, "seed {seed}: {selector}");
    }
}

#[test]
fn a_table_allocates_nothing_to_match_and_keeps_nothing_of_what_was_removed() {
    let mut random = Random::new(1);
    let selectors: Vec<_> = (0..1000)
        .map(|_| Arc::new(Selector::parse(&random.condition(2).to_string()).expect("a selector")))
        .collect();
    let filters: Vec<_> =
        ["a/b", "a/+", "a/#", "+/b", "c/d/e"].map(|text| TopicFilter::parse(text).expect("a filter")).into();
    let topic = Topic::parse("a/b").expect("a topic");
    let message = properties(&random.message());
    let (mut table, mut found) = (Table::default(), Found::default());
    let enter = |table: &mut Table| {
        for (number, selector) in (0..).zip(&selectors) {
            let name = Subscription { client: u64::from(number) % 7, number };
            table.insert(name, &filters[number as usize % 5], Some(selector.clone())).expect("there is room");
        }
    };
    let mut enter_and_remove = || {
        counted(|| {
            enter(&mut table);
            (0..7).for_each(|client| _ = table.remove_client(client));
        })
    };
    // The table's own maps keep a few hundred bytes when they become empty, whatever was in them.
    let (calls, left) = enter_and_remove();
    assert!(calls > 1000, "only {calls} allocations were counted");
    assert!(left < 1024, "{left} bytes are left behind");
    assert_eq!(enter_and_remove().1, 0);
    enter(&mut table);
    table.matches(&topic, &message, &mut found);
    assert!(found.subscriptions.len() > 10);
    assert_eq!(counted(|| table.matches(&topic, &message, &mut found)).0, 0);
}
