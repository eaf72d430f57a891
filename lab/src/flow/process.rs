//! One side of a flow as a process, and the lines that it prints.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::job::Job;
use crate::testbed::{Side, Testbed};

/// A running side. Dropping it kills the process.
pub(crate) struct Process {
    side: Side,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a side of `peer`. A caller also gets `word`, which the server printed when it was ready.
    pub(crate) fn start(
        testbed: &Testbed,
        side: Side,
        peer: &str,
        job: &Job,
        word: Option<&str>,
    ) -> anyhow::Result<Self> {
        let addresses: Vec<_> = testbed.addresses(side).iter().map(ToString::to_string).collect();
        let (command, address) = match side {
            Side::Server => ("serve", "--at"),
            Side::Caller => ("call", "--from"),
        };
        let (job, addresses) = (job.to_json()?, addresses.join(","));
        let arguments = [command, "--peer", peer, "--job", &job, address, &addresses].into_iter().chain(word);
        Self::run(testbed, side, &arguments.map(str::to_owned).collect::<Vec<_>>())
    }

    /// Starts this program with these arguments on a host.
    pub(crate) fn run(testbed: &Testbed, side: Side, arguments: &[String]) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let program = program.to_str().context("the path of this program is not UTF-8")?;
        let mut child = testbed.spawn(side, program, arguments, Stdio::piped())?;
        let output = child.stdout.take().context("no pipe")?;
        Ok(Self { side, child, lines: BufReader::new(output).lines() })
    }

    /// Reads the next line, which must begin with `word`, and returns the rest of it.
    pub(crate) async fn next(&mut self, word: &str) -> anyhow::Result<String> {
        let line = self.lines.next_line().await?;
        let line = line.ok_or_else(|| anyhow!("the {} ended without printing anything", self.name()))?;
        match line.split_once(' ') {
            Some((first, rest)) if first == word => Ok(rest.to_owned()),
            Some(("failed", why)) => Err(anyhow!("the {}: {why}", self.name())),
            _ => Err(anyhow!("the {} printed `{line}` instead of `{word}`", self.name())),
        }
    }

    /// Like [`Process::next`], with a time limit.
    pub(crate) async fn next_within(&mut self, word: &str, time: Duration) -> anyhow::Result<String> {
        let name = self.name();
        let next = tokio::time::timeout(time, self.next(word)).await;
        next.with_context(|| format!("the {name} did not print `{word}` within {time:?}"))?
    }

    /// Like [`Process::next_within`], for a time of [`crate::clock`].
    pub(crate) async fn clock_within(&mut self, word: &str, time: Duration) -> anyhow::Result<u64> {
        let said = self.next_within(word, time).await?;
        said.parse().with_context(|| format!("`{said}` is not a time"))
    }

    /// Writes a line to its standard input.
    pub(crate) async fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.child.stdin.as_mut().context("no pipe")?;
        input.write_all(line.as_bytes()).await?;
        Ok(input.write_all(b"\n").await?)
    }

    /// Tells the process to end. Returns `said`, or else what it still prints after `word`.
    pub(crate) async fn end(
        &mut self,
        word: &str,
        said: Option<String>,
        time: Duration,
    ) -> anyhow::Result<String> {
        drop(self.child.stdin.take());
        match said {
            Some(said) => Ok(said),
            None => self.next_within(word, time).await,
        }
    }

    fn name(&self) -> &'static str {
        match self.side {
            Side::Server => "server",
            Side::Caller => "caller",
        }
    }
}
