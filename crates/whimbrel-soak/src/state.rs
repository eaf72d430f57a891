//! The record of seeds that are done and of runs that failed. It is kept in a file, so that it outlives Ctrl-C.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use whimbrel_sim::checker::Kind;

use crate::ranges::Ranges;

/// The folder of all files, relative to the workspace's root.
pub(crate) const FOLDER: &str = "target/soak";

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    /// The complaint, in one line.
    pub(crate) complaint: String,
}

/// The record, and the file that keeps it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SoakState {
    file: PathBuf,
    /// The fingerprint of the program that ran the seeds.
    program: u64,
    pub(crate) done: Ranges,
    pub(crate) failures: Vec<Failure>,
}

impl SoakState {
    /// Opens the record with this name. It is empty if `fresh`, or if another program wrote it.
    pub(crate) fn open(name: &str, fresh: bool) -> anyhow::Result<Self> {
        fs::create_dir_all(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
        let file = PathBuf::from(FOLDER).join(format!("{name}.state"));
        let state = Self::new(file, fingerprint()?);
        let Some(text) = fs::read_to_string(&state.file).ok().filter(|_| !fresh) else { return Ok(state) };
        let program = state.program;
        let kept = Self::parse(&text, state.file.clone());
        match kept.filter(|kept| kept.program == program) {
            Some(kept) => Ok(kept),
            None => {
                println!("{} is the record of another program: starting over.", state.file.display());
                Ok(state)
            }
        }
    }

    fn new(file: PathBuf, program: u64) -> Self {
        Self { file, program, done: Ranges::default(), failures: Vec::new() }
    }

    fn parse(text: &str, file: PathBuf) -> Option<Self> {
        let mut state = Self::new(file, 0);
        for line in text.lines() {
            let mut words = line.splitn(4, ' ');
            let (name, second) = (words.next()?, words.next()?);
            match name {
                "program" => state.program = second.parse().ok()?,
                "done" => state.done.insert(second.parse().ok()?..words.next()?.parse().ok()?),
                "failed" => state.failures.push(Failure {
                    kind: second.parse().ok()?,
                    seed: words.next()?.parse().ok()?,
                    complaint: words.next().unwrap_or_default().to_owned(),
                }),
                _ => return None,
            }
        }
        Some(state)
    }

    fn text(&self) -> String {
        let mut text = format!("program {}\n", self.program);
        for range in self.done.iter() {
            writeln!(text, "done {} {}", range.start, range.end).ok();
        }
        for Failure { kind, seed, complaint } in &self.failures {
            writeln!(text, "failed {} {seed} {complaint}", kind.name()).ok();
        }
        text
    }

    /// Writes the file atomically.
    pub(crate) fn keep(&self) -> anyhow::Result<()> {
        let half = self.file.with_extension("half");
        fs::write(&half, self.text())
            .and_then(|()| fs::rename(&half, &self.file))
            .with_context(|| format!("cannot write {}", self.file.display()))
    }
}

/// Returns the fingerprint of this program. Another program may behave differently on the same seeds.
fn fingerprint() -> anyhow::Result<u64> {
    let program = std::env::current_exe().and_then(fs::read).context("cannot read this program")?;
    let words = program.chunks(8).map(|word| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    Ok(words.fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| (hash ^ word).wrapping_mul(0x0100_0000_01b3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let mut state = SoakState::new(PathBuf::new(), 17);
        state.done.insert(5..9);
        let complaint = "message 3 was lost".into();
        state.failures.push(Failure { kind: Kind::Moves, seed: 7, complaint });
        assert_eq!(SoakState::parse(&state.text(), PathBuf::new()), Some(state));
        assert_eq!(SoakState::parse("done 5", PathBuf::new()), None);
        assert_eq!(SoakState::parse("half a wo", PathBuf::new()), None);
    }
}
