//! The committed table of how long each target ran under a sanitizer. It counts processor seconds, which do not depend
//! on what else the machine does meanwhile.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::process::root;

const HEAD: &str = "\
# The total time of each fuzz target with AddressSanitizer: `cargo xtask fuzz --sanitizer address --until 1800`
# target processor-seconds executions inputs-in-the-corpus
";

/// The totals of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) seconds: u64,
    pub(crate) executions: u64,
    pub(crate) corpus: u64,
}

/// The totals of all targets, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hours(BTreeMap<String, Row>);

impl Hours {
    fn file() -> PathBuf {
        root().join("fuzz/hours.txt")
    }

    /// Reads the table. It is empty if the file does not exist.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let file = Self::file();
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        Self::parse(&text)
            .with_context(|| format!("{}: a line is TARGET SECONDS EXECUTIONS INPUTS", file.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let mut hours = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [target, seconds, executions, corpus] = words[..] else { anyhow::bail!("bad line: {line}") };
            let (seconds, executions, corpus) = (seconds.parse()?, executions.parse()?, corpus.parse()?);
            hours.0.insert(target.to_owned(), Row { seconds, executions, corpus });
        }
        Ok(hours)
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (target, Row { seconds, executions, corpus }) in &self.0 {
            // Writing to a string cannot fail.
            writeln!(text, "{target:<12} {seconds:>6} {executions:>12} {corpus:>5}").ok();
        }
        text
    }

    pub(crate) fn of(&self, target: &str) -> Row {
        self.0.get(target).copied().unwrap_or_default()
    }

    /// Sets the totals of a target and writes the table.
    pub(crate) fn set(&mut self, target: &str, row: Row) -> anyhow::Result<()> {
        self.0.insert(target.to_owned(), row);
        let file = Self::file();
        let half = file.with_extension("half");
        fs::write(&half, self.text())
            .and_then(|()| fs::rename(&half, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }
}

/// Adds a running target to the table. It writes the table every few seconds, since the run may be interrupted at any
/// time.
pub(crate) struct Meter<'a> {
    hours: &'a mut Hours,
    target: &'a str,
    before: Row,
    process: u32,
    /// Processor seconds that the build took, before the target ran.
    begin: Option<u64>,
    latest: u64,
    kept: Instant,
}

impl<'a> Meter<'a> {
    const EVERY: Duration = Duration::from_secs(5);

    pub(crate) fn new(hours: &'a mut Hours, target: &'a str, process: u32) -> Self {
        let before = hours.of(target);
        Self { hours, target, before, process, begin: None, latest: 0, kept: Instant::now() }
    }

    /// Handles output of the fuzzer, which shows that it is built and running.
    pub(crate) fn heard(&mut self, executions: u64) -> anyhow::Result<()> {
        let seconds = processor_seconds(self.process);
        let begin = *self.begin.get_or_insert(seconds);
        self.latest = self.latest.max(seconds.saturating_sub(begin));
        if self.kept.elapsed() < Self::EVERY { Ok(()) } else { self.keep(executions) }
    }

    /// Writes the time and executions so far.
    pub(crate) fn keep(&mut self, executions: u64) -> anyhow::Result<()> {
        self.kept = Instant::now();
        let seconds = self.latest;
        let corpus =
            root().join("fuzz/corpus").join(self.target).read_dir().map_or(0, Iterator::count) as u64;
        let Row { seconds: earlier, executions: done, .. } = self.before;
        self.hours.set(self.target, Row { seconds: earlier + seconds, executions: done + executions, corpus })
    }
}

/// Returns the processor time of a process and its running descendants.
fn processor_seconds(process: u32) -> u64 {
    /// The unit in which the kernel reports, whatever its internal clock (proc(5)).
    const TICKS: u64 = 100;
    ticks(process) / TICKS
}

fn ticks(process: u32) -> u64 {
    let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    // The command's name may contain spaces and ends with the last bracket. User and system time are the 12th and 13th
    // words after it.
    let stat = read("stat");
    let words = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let own: u64 = words.skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    let children = read(&format!("task/{process}/children"));
    own + children.split_whitespace().filter_map(|child| child.parse().ok()).map(ticks).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_its_children_use_the_processor() {
        let mut child =
            std::process::Command::new("sh").args(["-c", "(while :; do :; done) & wait"]).spawn().unwrap();
        let begin = Instant::now();
        while ticks(child.id()) < 10 {
            assert!(begin.elapsed() < Duration::from_secs(60), "no processor time was counted");
            std::thread::sleep(Duration::from_millis(10));
        }
        let loops = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        std::process::Command::new("kill").args(loops.split_whitespace()).status().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut hours = Hours::default();
        hours.0.insert("sack".into(), Row { seconds: 1800, executions: 5_000_000_000, corpus: 126 });
        hours.0.insert("operations".into(), Row { seconds: 17, executions: 5_100, corpus: 260 });
        assert_eq!(Hours::parse(&hours.text()).unwrap(), hours);
        assert!(Hours::parse("sack 1800").is_err());
    }
}
