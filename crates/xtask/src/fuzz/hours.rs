//! How long each target ran under a sanitizer: a table that is committed. Its seconds are of the processor, so that they mean the same on a
//! machine that does other things meanwhile.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::process::root;

const HEAD: &str = "\
# What each fuzz target ran with AddressSanitizer, in all: `cargo xtask fuzz --sanitizer address --until 1800`
# target processor-seconds executions inputs-in-the-corpus
";

/// What one target did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) seconds: u64,
    pub(crate) executions: u64,
    pub(crate) corpus: u64,
}

/// See the module.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hours(BTreeMap<String, Row>);

impl Hours {
    fn file() -> PathBuf {
        root().join("fuzz/hours.txt")
    }

    /// What is written there; nothing if there is no such file.
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
            let [target, seconds, executions, corpus] = words[..] else { anyhow::bail!("not so: {line}") };
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

    /// Notes and writes it.
    pub(crate) fn set(&mut self, target: &str, row: Row) -> anyhow::Result<()> {
        self.0.insert(target.to_owned(), row);
        let file = Self::file();
        let half = file.with_extension("half");
        fs::write(&half, self.text())
            .and_then(|()| fs::rename(&half, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }
}

/// A run under way, which may be interrupted at any time: what it did is written again and again.
pub(crate) struct Meter<'a> {
    hours: &'a mut Hours,
    target: &'a str,
    before: Row,
    process: u32,
    /// Processor seconds before it ran.
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

    /// The fuzzer said something: it was built, and runs.
    pub(crate) fn heard(&mut self, executions: u64) -> anyhow::Result<()> {
        let seconds = processor_seconds(self.process);
        let begin = *self.begin.get_or_insert(seconds);
        self.latest = self.latest.max(seconds.saturating_sub(begin));
        if self.kept.elapsed() < Self::EVERY { Ok(()) } else { self.keep(executions) }
    }

    /// It has done so much.
    pub(crate) fn keep(&mut self, executions: u64) -> anyhow::Result<()> {
        self.kept = Instant::now();
        let seconds = self.latest;
        let corpus =
            root().join("fuzz/corpus").join(self.target).read_dir().map_or(0, Iterator::count) as u64;
        let Row { seconds: earlier, executions: done, .. } = self.before;
        self.hours.set(self.target, Row { seconds: earlier + seconds, executions: done + executions, corpus })
    }
}

/// What a process and those it started, as far as they run, have used.
fn processor_seconds(process: u32) -> u64 {
    /// The kernel's unit, whatever its own clock (proc(5)).
    const TICKS: u64 = 100;
    ticks(process) / TICKS
}

fn ticks(process: u32) -> u64 {
    let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
    // A command's name may have spaces, and ends with the last bracket; user and system time are the 12th and 13th words behind it.
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
            assert!(begin.elapsed() < Duration::from_secs(60), "it uses none");
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
