//! One process of a pair of proxies.

use std::collections::VecDeque;
use std::fs;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use super::scratch::Scratch;
use crate::testbed::{Side, Testbed};

/// Longest time that a proxy may take to start.
const START: Duration = Duration::from_secs(20);
/// Script that runs a program with one output, and with as many files as the system allows.
const ALONE: &str = "ulimit -n $(ulimit -H -n); exec \"$@\" 2>&1";
/// Last lines of a proxy that are kept.
const KEPT: usize = 3;

/// The last lines that a proxy printed.
type Said = Arc<Mutex<VecDeque<String>>>;
type Output = Lines<BufReader<ChildStdout>>;

/// A running proxy. Dropping it kills it.
pub(crate) struct Proxy {
    child: Child,
    said: Said,
    /// Its files. The pair shares them.
    _files: Arc<Scratch>,
}

impl Proxy {
    /// Starts a program on a host.
    pub(super) fn start(
        testbed: &Testbed,
        side: Side,
        words: &[&str],
        files: &Arc<Scratch>,
    ) -> anyhow::Result<Self> {
        let (child, lines) = spawn(testbed, side, words)?;
        Ok(Self::running(child, lines, Arc::default(), files))
    }

    /// Like [`Proxy::start`], and waits for a line with `word` in it. Returns the rest of that line too.
    pub(super) async fn start_until(
        testbed: &Testbed,
        side: Side,
        words: &[&str],
        word: &str,
        files: &Arc<Scratch>,
    ) -> anyhow::Result<(Self, String)> {
        let (child, mut lines) = spawn(testbed, side, words)?;
        let said = Said::default();
        let ready = tokio::time::timeout(START, until(&mut lines, word, &said)).await;
        let rest = ready.map_err(|_| anyhow!("it did not print `{word}` within {START:?}")).flatten();
        let rest = rest.with_context(|| format!("{} did not start", words.join(" ")))?;
        Ok((Self::running(child, lines, said, files), rest))
    }

    fn running(child: Child, mut lines: Output, said: Said, files: &Arc<Scratch>) -> Self {
        let kept = Arc::clone(&said);
        // The output is read to its end, so that the program never waits for it.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                keep(&kept, line);
            }
        });
        Self { child, said, _files: Arc::clone(files) }
    }

    pub(super) fn processor_time(&self) -> anyhow::Result<f64> {
        let stat = fs::read_to_string(self.file("stat")?)?;
        // The second field is the name in parentheses. The 14th and 15th are user and system time, in ticks.
        let after = stat.rsplit_once(") ").context("no name in stat")?.1;
        let ticks: u64 =
            after.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Ok(ticks as f64 / 100.0)
    }

    pub(super) fn peak_memory(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(self.file("status")?)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }

    /// Waits until it has ended by itself.
    pub(super) async fn ended(mut self) -> anyhow::Result<()> {
        let ended = tokio::time::timeout(START, self.child.wait()).await;
        let status = ended.map_err(|_| anyhow!("a proxy that was replaced does not end"))??;
        anyhow::ensure!(
            status.success(),
            "a proxy that was replaced failed: {}",
            self.last_lines().join("; ")
        );
        Ok(())
    }

    pub(super) fn last_lines(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn file(&self, name: &str) -> anyhow::Result<String> {
        Ok(format!("/proc/{}/{name}", self.child.id().context("a proxy has ended")?))
    }
}

fn spawn(testbed: &Testbed, side: Side, words: &[&str]) -> anyhow::Result<(Child, Output)> {
    let arguments: Vec<String> =
        ["-c", ALONE, "sh"].iter().chain(words).map(|&word| word.to_owned()).collect();
    let mut child = testbed.spawn(side, "sh", &arguments, Stdio::piped())?;
    let output = child.stdout.take().context("no pipe")?;
    Ok((child, BufReader::new(output).lines()))
}

async fn until(lines: &mut Output, word: &str, said: &Said) -> anyhow::Result<String> {
    while let Some(line) = lines.next_line().await? {
        if let Some((_, rest)) = line.split_once(word) {
            return Ok(rest.to_owned());
        }
        keep(said, line);
    }
    let said: Vec<_> = said.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
    Err(anyhow!("it ended: {}", said.join("; ")))
}

fn keep(said: &Said, line: String) {
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    said.push_back(line);
    if said.len() > KEPT {
        said.pop_front();
    }
}
