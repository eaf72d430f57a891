//! One side of a flow as a process: what it says, line by line.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::job::Job;
use crate::testbed::{Side, Testbed};

/// A side that runs. Dropped, it is killed.
pub(super) struct Process {
    side: Side,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a side of `peer`: the caller where it is given the server's word.
    pub(super) fn start(
        testbed: &Testbed,
        side: Side,
        peer: &str,
        job: &Job,
        word: Option<&str>,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let program = program.to_str().context("the path of this program is not UTF-8")?;
        let addresses: Vec<_> = testbed.addresses(side).iter().map(ToString::to_string).collect();
        let (command, address) = match side {
            Side::Server => ("serve", "--at"),
            Side::Caller => ("call", "--from"),
        };
        let (job, addresses) = (job.to_json()?, addresses.join(","));
        let arguments = [command, "--peer", peer, "--job", &job, address, &addresses].into_iter().chain(word);
        let arguments: Vec<_> = arguments.map(str::to_owned).collect();
        let mut child = testbed.spawn(side, program, &arguments, Stdio::piped())?;
        let output = child.stdout.take().context("no pipe")?;
        Ok(Self { side, child, lines: BufReader::new(output).lines() })
    }

    /// What follows `word` in the next line.
    pub(super) async fn next(&mut self, word: &str) -> anyhow::Result<String> {
        let line = self.lines.next_line().await?;
        let line = line.ok_or_else(|| anyhow!("the {} ended without a word", self.name()))?;
        match line.split_once(' ') {
            Some((first, rest)) if first == word => Ok(rest.to_owned()),
            Some(("failed", why)) => Err(anyhow!("the {}: {why}", self.name())),
            _ => Err(anyhow!("the {} said `{line}` instead of `{word}`", self.name())),
        }
    }

    /// As [`Process::next`], in time.
    pub(super) async fn next_within(&mut self, word: &str, time: Duration) -> anyhow::Result<String> {
        let name = self.name();
        let next = tokio::time::timeout(time, self.next(word)).await;
        next.with_context(|| format!("the {name} did not say `{word}` within {time:?}"))?
    }

    /// Tells it to end, and gives what it says after `word` then, if it has not `said` it already.
    pub(super) async fn end(
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
