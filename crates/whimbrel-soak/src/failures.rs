//! Shortens failed runs. Every failure is listed, but only one of each class is shortened.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use whimbrel_sim::checker::{Kind, Tape, class, reduce};

use crate::state::FOLDER;
use crate::trial;

/// The most runs and time that shortening one failure may take.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) runs: u32,
    pub(crate) time: Duration,
}

/// The classes of complaints of which a run was shortened already.
#[derive(Default)]
pub(crate) struct Classes(BTreeSet<(Kind, String)>);

impl Classes {
    /// Adds the class of a complaint. Returns whether it is new.
    pub(crate) fn is_new(&mut self, kind: Kind, complaint: &str) -> bool {
        self.0.insert((kind, class(complaint)))
    }
}

/// Shortens a failed run and writes it to a file of its kind and `name`. Returns the text to print.
pub(crate) fn shorten(tape: &Tape, name: &str, complaint: &str, limits: Limits) -> String {
    let kind = tape.kind.name();
    let (begin, mut runs) = (Instant::now(), 0);
    let reduced = reduce(tape, complaint, &mut || {
        runs += 1;
        runs <= limits.runs && begin.elapsed() < limits.time
    });
    let file = PathBuf::from(FOLDER).join(format!("{kind}-{name}.txt"));
    // Runs it once more to learn where the failure was noticed.
    let complaint = trial::run(&reduced.tape).err().unwrap_or(reduced.complaint);
    let comment: String = complaint.lines().map(|line| format!("# {line}\n")).collect();
    let text = format!("{comment}{}", reduced.tape);
    let written = fs::create_dir_all(FOLDER).and_then(|()| fs::write(&file, &text));
    let kept = match written {
        Ok(()) => format!("to repeat it: cargo xtask soak --replay {}", file.display()),
        Err(error) => format!("{} cannot be written: {error}", file.display()),
    };
    format!(
        "{kind} {name}: {} of {} operations suffice, found in {} runs and {:.0} s\n{text}{kept}",
        reduced.tape.len(),
        tape.len(),
        reduced.runs,
        begin.elapsed().as_secs_f64(),
    )
}
