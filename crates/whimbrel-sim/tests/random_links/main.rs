//! Links drawn from a seed: what arrives of what each leaves. `table.txt` has the figures of 200 of them, and a test holds
//! it, so that a change for the worse is a diff. After a change for the better, or one that is worth its price:
//!
//! `WHIMBREL_TABLES=write cargo test -p whimbrel-sim --test random_links`
//!
//! More draws, on request: `SEEDS=2000 cargo test --release -p whimbrel-sim --test random_links -- --ignored --nocapture`. `FROM`
//! is the first seed, and `MBIT` the highest rate. With `SEEDS=1`, the bulk of one draw is shown from moment to moment.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod table;
mod trial;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use table::Table;
use trial::Trial;

/// The highest rate of what is run in each test, in bit/s.
const MOST: u64 = 20_000_000;
const DRAWS: u64 = 200;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs the draws of these seeds, on two threads.
fn run(from: u64, draws: u64, most: u64) -> Vec<Trial> {
    let (next, done) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= draws {
                        return;
                    }
                    let trial = Trial::run(from + at, most);
                    done.lock().unwrap().push(trial);
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|trial| trial.seed);
    done
}

#[test]
fn links_drawn_from_a_seed_give_what_they_gave() {
    let table = Table(run(1, DRAWS, MOST)).to_string();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/random_links/table.txt");
    if std::env::var("WHIMBREL_TABLES").is_ok_and(|what| what == "write") {
        return std::fs::write(path, table).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    if table == kept {
        return;
    }
    for (new, old) in table.lines().zip(kept.lines()).filter(|(new, old)| new != old) {
        println!("was {old}\nnow {new}\n");
    }
    panic!(
        "the figures of random links have changed: see the comment at the head of tests/random_links/main.rs"
    );
}

#[test]
#[ignore = "runs for long, and prints a table"]
fn many_links() {
    let (from, draws, most) = (number("FROM", 1), number("SEEDS", 2000), number("MBIT", 20) * 1_000_000);
    let trials = run(from, draws, most);
    if let [trial] = trials.as_slice() {
        println!("{}", trial.drawn);
        trial::show_bulk(trial.seed, &trial.drawn);
    }
    println!("{}", Table(trials));
}
