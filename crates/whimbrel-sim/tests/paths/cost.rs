//! Paths that have a cost.

use whimbrel_proto::{CostPolicy, Event, PathId};
use whimbrel_sim::pair::{End, Pair};

use super::{ALIKE, DARK, SECOND, bulk, config, two};

/// Two equal paths, the second with a cost of 5.
fn dear(policy: CostPolicy) -> Pair {
    let mut transport = config();
    transport.cost_policy = policy;
    let mut pair = two(1, transport, ALIKE, ALIKE);
    let (client, handle) = (pair.client, pair.handle(End::Client));
    pair.world.announce_at_cost(client, handle, &[0, 5]);
    pair
}

/// The bytes that arrive in a second of bulk.
fn second(pair: &mut Pair) -> u64 {
    bulk(pair, SECOND).0
}

fn lose_the_free_one(pair: &mut Pair) {
    pair.relink_over(0, DARK);
    bulk(pair, SECOND);
}

fn asked(pair: &mut Pair) -> Option<PathId> {
    pair.events(End::Client).into_iter().find_map(|event| match event {
        Event::PathCostAsked { path, cost: 5 } => Some(path),
        _ => None,
    })
}

#[test]
fn cost_is_minded_as_the_policy_says() {
    let mut pair = dear(CostPolicy::Ignore);
    bulk(&mut pair, SECOND);
    assert!(second(&mut pair) > 2_000_000, "both carry");
    for policy in [CostPolicy::CheapFirst, CostPolicy::NeverAbove(5)] {
        let mut pair = dear(policy);
        bulk(&mut pair, SECOND);
        assert!(second(&mut pair) < 1_300_000, "{policy:?}: the free one alone");
        lose_the_free_one(&mut pair);
        assert!(second(&mut pair) > 900_000, "{policy:?}: the dear one when nothing else works");
    }
    let mut pair = dear(CostPolicy::NeverAbove(4));
    bulk(&mut pair, SECOND);
    lose_the_free_one(&mut pair);
    assert_eq!(second(&mut pair), 0, "never above");
}

#[test]
fn the_application_is_asked_and_may_change_its_mind() {
    let mut pair = dear(CostPolicy::Ask);
    bulk(&mut pair, SECOND);
    let path = asked(&mut pair).expect("it is asked");
    lose_the_free_one(&mut pair);
    assert_eq!(second(&mut pair), 0, "no answer is none");
    let now = pair.now();
    pair.connection(End::Client).allow_path(now, path, true);
    bulk(&mut pair, SECOND);
    assert!(second(&mut pair) > 900_000);
    let now = pair.now();
    pair.connection(End::Client).allow_path(now, path, false);
    bulk(&mut pair, SECOND);
    assert_eq!(second(&mut pair), 0);
}
