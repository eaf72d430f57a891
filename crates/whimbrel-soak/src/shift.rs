//! Runs seeds on several threads, and reports progress and failures.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};
use whimbrel_sim::checker::{Coverage, Kind, Tape};

use crate::failures::{Classes, Limits, shorten};
use crate::state::{Failure, SoakState};
use crate::trial::{self, Planted};

/// The number of seeds that a thread takes at a time.
const PIECE: u64 = 50;
/// One of this many seeds also runs a session that moves between hosts.
const MOVES: u64 = 10;
/// How often the record of seeds is written.
const KEEP: Duration = Duration::from_secs(2);
/// How often progress is printed if there is no terminal for a bar.
const SHOW: Duration = Duration::from_secs(60);

/// The seeds to run, and the settings of the runs.
pub(crate) struct Shift {
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) threads: usize,
    pub(crate) fresh: bool,
    pub(crate) effort: u32,
    /// The most time for shortening one failure.
    pub(crate) patience: Duration,
    pub(crate) planted: Planted,
}

/// The state that the threads share.
struct Desk {
    state: SoakState,
    classes: Classes,
    coverage: Coverage,
    kept: Instant,
    shown: Instant,
}

impl Shift {
    /// Runs the seeds. Returns whether any of them failed.
    pub(crate) fn work(&self) -> anyhow::Result<bool> {
        let begin = Instant::now();
        let all = self.from..self.from.saturating_add(self.seeds);
        let state = SoakState::open(&self.name(), self.fresh)?;
        let pieces = state.done.missing(all.clone(), PIECE);
        let left: u64 = pieces.iter().map(|piece| piece.end - piece.start).sum();
        let bar = self.bar(left);
        let (next, now) = (AtomicUsize::new(0), Instant::now());
        let (classes, coverage) = (Classes::default(), Coverage::default());
        let desk = Mutex::new(Desk { state, classes, coverage, kept: now, shown: now });
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    trial::plant(self.planted);
                    while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                        self.piece(piece, &desk, &bar);
                    }
                });
            }
        });
        bar.finish_and_clear();
        let desk = desk.into_inner().unwrap_or_else(PoisonError::into_inner);
        desk.state.keep()?;
        Ok(self.conclude(&desk, &all, left, begin.elapsed()))
    }

    /// Returns the name of the file that records the seeds.
    fn name(&self) -> String {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        let planted = self.planted.map(|mutant| format!("-{mutant:?}")).unwrap_or_default();
        kinds.join("-") + &planted
    }

    fn bar(&self, left: u64) -> ProgressBar {
        if left < self.seeds {
            println!(
                "{} of {} seeds were done before.",
                HumanCount(self.seeds - left),
                HumanCount(self.seeds)
            );
        }
        let style = "{wide_bar} {human_pos} of {human_len} seeds, {per_sec}, {eta} left  {msg}";
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::new(left).with_style(style);
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    }

    fn piece(&self, piece: &Range<u64>, desk: &Mutex<Desk>, bar: &ProgressBar) {
        let mut coverage = Coverage::default();
        for seed in piece.clone() {
            for kind in &self.kinds {
                if *kind == Kind::Moves && self.kinds.len() > 1 && seed % MOVES != MOVES - 1 {
                    continue;
                }
                match trial::run(&Tape::of_seed(*kind, seed)) {
                    Ok(one) => coverage.add(&one),
                    Err(complaint) => self.failed(*kind, seed, &complaint, desk, bar),
                }
            }
            bar.inc(1);
        }
        self.done(piece, &coverage, desk, bar);
    }

    fn failed(&self, kind: Kind, seed: u64, complaint: &str, desk: &Mutex<Desk>, bar: &ProgressBar) {
        let line: String = complaint.replace('\n', " ").chars().take(300).collect();
        say(bar, &format!("FAILED: {} seed {seed}: {line}", kind.name()));
        let mut shared = desk.lock().unwrap_or_else(PoisonError::into_inner);
        shared.state.failures.retain(|failure| (failure.kind, failure.seed) != (kind, seed));
        shared.state.failures.push(Failure { kind, seed, complaint: line });
        bar.set_message(format!("{} FAILED", shared.state.failures.len()));
        let is_new = shared.classes.is_new(kind, complaint);
        drop(shared);
        if is_new && self.effort > 0 {
            let limits = Limits { runs: self.effort, time: self.patience };
            say(bar, &shorten(&Tape::of_seed(kind, seed), &seed.to_string(), complaint, limits));
        }
    }

    fn done(&self, piece: &Range<u64>, coverage: &Coverage, desk: &Mutex<Desk>, bar: &ProgressBar) {
        let mut desk = desk.lock().unwrap_or_else(PoisonError::into_inner);
        desk.state.done.insert(piece.clone());
        desk.coverage.add(coverage);
        if desk.kept.elapsed() >= KEEP {
            desk.kept = Instant::now();
            if let Err(error) = desk.state.keep() {
                say(bar, &format!("{error:#}"));
            }
        }
        if bar.is_hidden() && desk.shown.elapsed() >= SHOW {
            desk.shown = Instant::now();
            let (done, all) = (HumanCount(bar.position()), HumanCount(bar.length().unwrap_or_default()));
            let left = HumanDuration(bar.eta());
            println!("{done} of {all} seeds, {:.0} a second, {left} left", bar.per_sec());
        }
    }

    /// Prints the results. Returns whether any seed failed.
    fn conclude(&self, desk: &Desk, all: &Range<u64>, ran: u64, time: Duration) -> bool {
        let rate = ran as f64 / time.as_secs_f64().max(0.001);
        println!("Coverage: {:?}", desk.coverage);
        if ran == all.end - all.start {
            println!("Digest of packets, events and states: {:016x}", desk.coverage.digest);
        }
        println!("{} seeds in {}: {rate:.0} a second", HumanCount(ran), HumanDuration(time));
        let failures = desk.state.failures.iter().filter(|failure| all.contains(&failure.seed));
        let failures: Vec<&Failure> = failures.collect();
        for Failure { kind, seed, complaint } in &failures {
            println!("FAILED: {} seed {seed}: {complaint}", kind.name());
        }
        println!("Seeds {} to {}: {} failed", all.start, all.end.saturating_sub(1), failures.len());
        !failures.is_empty()
    }
}

/// Prints text above the bar, if there is one.
fn say(bar: &ProgressBar, text: &str) {
    if bar.is_hidden() {
        println!("{text}");
    } else {
        bar.println(text);
    }
}
