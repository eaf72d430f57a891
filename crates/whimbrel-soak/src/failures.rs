//! Runs that failed: each is listed, one of each class is made short.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use whimbrel_sim::checker::{Kind, Tape, class, reduce};

use crate::state::FOLDER;
use crate::trial;

/// How much may be spent on each.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) runs: u32,
    pub(crate) time: Duration,
}

/// Classes of complaints of which one was made short.
#[derive(Default)]
pub(crate) struct Classes(BTreeSet<(Kind, String)>);

impl Classes {
    /// True of the first of its class.
    pub(crate) fn is_new(&mut self, kind: Kind, complaint: &str) -> bool {
        self.0.insert((kind, class(complaint)))
    }
}

/// Makes a run short that failed, writes it to a file, and says all this in words.
pub(crate) fn shorten(kind: Kind, seed: u64, complaint: &str, limits: Limits) -> String {
    let tape = Tape::of_seed(kind, seed);
    let (begin, mut runs) = (Instant::now(), 0);
    let reduced = reduce(&tape, complaint, &mut || {
        runs += 1;
        runs <= limits.runs && begin.elapsed() < limits.time
    });
    let file = PathBuf::from(FOLDER).join(format!("{}-{seed}.txt", kind.name()));
    // Once more, for where it was noticed.
    let complaint = trial::run(&reduced.tape).err().unwrap_or(reduced.complaint);
    let comment: String = complaint.lines().map(|line| format!("# {line}\n")).collect();
    let text = format!("{comment}{}", reduced.tape);
    let kept = match fs::write(&file, &text) {
        Ok(()) => format!("again: cargo xtask soak --replay {}", file.display()),
        Err(error) => format!("{} cannot be written: {error}", file.display()),
    };
    format!(
        "{} seed {seed}: {} of {} operations are enough, found in {} runs and {:.0} s\n{text}{kept}",
        kind.name(),
        reduced.tape.len(),
        tape.len(),
        reduced.runs,
        begin.elapsed().as_secs_f64(),
    )
}
