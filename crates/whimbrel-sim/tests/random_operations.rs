//! Random operations on both ends, over links that change, compared with a model: see `whimbrel_sim::checker`.
//!
//! `WHIMBREL_SEEDS=10000` runs this many seeds; `WHIMBREL_SEED=17` runs only that one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use whimbrel_sim::checker::{Coverage, Special, move_seed, run_seed};

/// The number of seeds of a plain `cargo test`; `cargo xtask test` requests 10,000.
const SEEDS: u64 = 2_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

/// Seeds of sessions that move, for every ten seeds of random operations.
const MOVES: u64 = 1;

#[test]
fn sessions_that_move_keep_every_promise() {
    let seeds = number("WHIMBREL_SEEDS").unwrap_or(SEEDS) * MOVES / 10;
    let seeds = number("WHIMBREL_SEED").map_or(0..seeds, |seed| seed..seed + 1);
    for seed in seeds {
        if let Err(complaint) = move_seed(seed) {
            panic!("seed {seed}: {complaint}");
        }
    }
}

#[test]
fn random_operations_keep_every_promise() {
    if let Some(seed) = number("WHIMBREL_SEED") {
        let coverage = run_seed(seed);
        println!("{coverage:#?}");
        coverage.unwrap();
        return;
    }
    let seeds = number("WHIMBREL_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let total = Mutex::new(Coverage::default());
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || failures.lock().unwrap().len() >= 20 {
                        return;
                    }
                    match run_seed(seed) {
                        Ok(coverage) => total.lock().unwrap().add(&coverage),
                        Err(complaint) => failures.lock().unwrap().push((seed, complaint)),
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    println!("{total:?}");
    let failures = failures.into_inner().unwrap();
    for (seed, complaint) in &failures {
        println!("seed {seed}: {}", complaint.chars().take(600).collect::<String>());
        println!("  again: WHIMBREL_SEED={seed} cargo test -p whimbrel-sim --test random_operations");
    }
    assert!(failures.is_empty(), "{} seeds failed, the first is {}", failures.len(), failures[0].0);
    if seeds >= SEEDS {
        went_everywhere(&total);
    }
}

/// Checks the coverage: runs that do not go where faults may be prove nothing.
fn went_everywhere(total: &Coverage) {
    let counts = [
        ("messages read", total.delivered),
        ("byte streams", total.streams),
        ("packets lost", total.lost),
        ("key updates", total.key_updates),
        ("paths", total.paths),
        ("changes of the primary", total.changeovers),
        ("rebindings of the client", total.moves),
        ("rebindings of the server", total.server_moves),
        ("sessions that went on from bytes", total.resumed),
    ];
    for (what, count) in counts {
        assert!(count > 100, "{count} {what}");
    }
    for special in Special::ALL {
        let count = total.specials.get(&special).copied().unwrap_or_default();
        assert!(count > 20, "{count} of {special:?}");
    }
    let outcomes = total.outcomes.iter().map(|(outcome, count)| (format!("{outcome:?}"), *count));
    let drawn = total.drawn.iter().map(|(drawn, count)| (drawn.clone(), *count));
    let all: std::collections::BTreeMap<String, u64> = outcomes.chain(drawn).collect();
    for wanted in [
        "Delivered",
        "Taken",
        "Expired",
        "Cancelled",
        "Replaced",
        "Lost",
        "Unknown",
        "Aggregate",
        "Primary",
        "Redundant",
        "LossAndRtt",
        "MostReceived",
        "Ignore",
        "CheapFirst",
        "NeverAbove(2)",
    ] {
        let count = all.get(wanted).copied().unwrap_or_default();
        assert!(count > 20, "{wanted}: {count} of {all:?}");
    }
}
