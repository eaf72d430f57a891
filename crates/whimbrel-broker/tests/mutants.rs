//! Tests that the checker of the simulated clusters finds what it is meant to find: each of these planted faults makes some seed fail.
//!
//! `cargo test -p whimbrel-broker --features mutants --test mutants`

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, unused_imports, reason = "only the outcome matters here")]
mod cluster;
#[allow(dead_code, unused_imports, reason = "only the outcome matters here")]
mod durable_cluster;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use whimbrel_broker::mutants::{Mutant, plant};

/// The number of seeds tried for each fault.
const SEEDS: u64 = 400;

/// How a seed fails that passes without the fault.
fn complaint(mutant: Mutant, seed: u64) -> Option<String> {
    let why = || match mutant {
        Mutant::OneCopyCountsTwice
        | Mutant::SegmentDroppedTooEarly
        | Mutant::OlderGenerationWins
        | Mutant::RivalsStay
        | Mutant::TiesStay => durable_cluster::run_seed(seed).err(),
        _ => cluster::run_seed(seed).err(),
    };
    plant(Some(mutant));
    let planted = why();
    plant(None);
    planted.filter(|_| why().is_none())
}

#[test]
fn every_mutant_is_caught() {
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(Vec::new());
    let survivors = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(mutant) = Mutant::ALL.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                    match (0..SEEDS).find_map(|seed| complaint(mutant, seed)) {
                        Some(why) => {
                            let why: String = why.chars().take(130).collect();
                            lines.lock().unwrap().push(format!("{mutant:?}: {why}"));
                        }
                        None => survivors.lock().unwrap().push(mutant),
                    }
                }
            });
        }
    });
    println!("{}", lines.lock().unwrap().join("\n"));
    assert_eq!(*survivors.lock().unwrap(), [], "not caught in {SEEDS} seeds");
}
