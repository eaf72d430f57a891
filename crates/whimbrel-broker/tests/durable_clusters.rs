//! Simulated clusters with durable subscriptions: what is acknowledged comes to each subscriber, once as its saved state sees it.
//!
//! `SEEDS=100000 cargo test --release -p whimbrel-broker --test durable_clusters` runs more, `SEED=7` one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod durable_cluster;

use durable_cluster::{Tally, run_seed};

const SEEDS: u64 = 500;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn what_is_acknowledged_comes_once() {
    if let Some(seed) = number("SEED") {
        println!("{:#?}", run_seed(seed).unwrap());
        return;
    }
    let (mut sums, mut failures) = (Tally::default(), Vec::new());
    for seed in 0..number("SEEDS").unwrap_or(SEEDS) {
        match run_seed(seed) {
            Ok(tally) => sums.add(&tally),
            Err(why) => failures.push(why),
        }
        if failures.len() == 5 {
            break;
        }
    }
    println!("{sums:#?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(sums.everything_happened(), "something was never tried");
}
