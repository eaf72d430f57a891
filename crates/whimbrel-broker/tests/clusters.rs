//! Simulated clusters: every subscription gets exactly what its guarantee says.
//!
//! `SEEDS=100000 cargo test --release -p whimbrel-broker --test clusters` runs more, `SEED=7` one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cluster;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use cluster::{Tally, run_seed};

const SEEDS: u64 = 2_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_subscription_gets_what_its_guarantee_says() {
    if let Some(seed) = number("SEED") {
        println!("{:#?}", run_seed(seed).unwrap());
        return;
    }
    let (next, end) = (AtomicU64::new(0), number("SEEDS").unwrap_or(SEEDS));
    let (failures, sums) = (Mutex::new(Vec::new()), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || failures.lock().unwrap().len() >= 5 {
                        return;
                    }
                    match run_seed(seed) {
                        Ok(tally) => sums.lock().unwrap().add(&tally),
                        Err(why) => failures.lock().unwrap().push(why),
                    }
                }
            });
        }
    });
    let sums = sums.into_inner().unwrap();
    println!("{sums:#?}");
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(sums.everything_happened(), "something was never tried");
}
