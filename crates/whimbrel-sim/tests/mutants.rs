//! Tests that the checkers find what they are meant to find: each of these planted faults makes some seed fail.
//!
//! `cargo test -p whimbrel-sim --features mutants --test mutants`

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use whimbrel_proto::mutants::{Mutant, plant};
use whimbrel_sim::checker::{Kind, Tape, class, move_seed, reduce, run_seed};

/// The number of seeds tried for each fault.
const SEEDS: u64 = 400;
/// The most runs for shortening a failure.
const EFFORT: u32 = 600;

/// How a seed fails that passes without the fault.
fn complaint(mutant: Mutant, seed: u64) -> Option<String> {
    let run = |seed| move_seed(seed).and_then(|()| run_seed(seed).map(drop));
    plant(Some(mutant));
    let why = run(seed).err();
    plant(None);
    why.filter(|_| run(seed).is_ok())
}

#[test]
fn every_mutant_is_caught() {
    // Failures are expected here, so they are not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(Vec::new());
    let survivors = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(mutant) = Mutant::ALL.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                    let caught = (0..SEEDS).find_map(|seed| Some((seed, complaint(mutant, seed)?)));
                    match caught {
                        Some((seed, why)) => {
                            let why: String = why.chars().take(90).collect();
                            lines.lock().unwrap().push(format!("{mutant:?}: seed {seed}: {why}"));
                        }
                        None => survivors.lock().unwrap().push(mutant),
                    }
                }
            });
        }
    });
    drop(std::panic::take_hook());
    println!("{}", lines.lock().unwrap().join("\n"));
    assert_eq!(*survivors.lock().unwrap(), [], "not caught in {SEEDS} seeds");
}

/// A person who mends a fault reads a few operations, not two hundred.
#[test]
fn a_failed_run_is_shortened_to_few_operations() {
    plant(Some(Mutant::DuplicateDelivered));
    let failed = (0..SEEDS).find_map(|seed| {
        let tape = Tape::of_seed(Kind::Operations, seed);
        Some((tape.run().err()?, tape))
    });
    let (complaint, tape) = failed.expect("the fault is found");
    let mut runs = 0;
    let reduced = reduce(&tape, &complaint, &mut || {
        runs += 1;
        runs <= EFFORT
    });
    let again = reduced.tape.run().expect_err("it still fails");
    plant(None);
    println!("{} of {} operations in {} runs: {again}", reduced.tape.len(), tape.len(), reduced.runs);
    assert_eq!(class(&again), class(&complaint), "in the same way");
    assert!(reduced.tape.len() * 5 <= tape.len(), "{} of {}", reduced.tape.len(), tape.len());
    reduced.tape.run().expect("without the fault, it passes");
}
