//! Child processes of this program, and what they take.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// One of this program's own processes; killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
}

/// What the server has counted.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) bytes: u64,
    /// SYNs answered, and dropped for their number.
    pub(crate) syns: [u64; 2],
    /// Datagrams received by each receive loop.
    pub(crate) loops: Vec<u64>,
}

/// What a process takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident memory, bytes.
    pub(crate) resident: u64,
    /// Processor time so far.
    pub(crate) cpu: Duration,
}

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start_program(std::env::current_exe()?, arguments)
    }

    /// Another program, which runs this one in the end.
    pub(crate) fn start_program(program: impl AsRef<OsStr>, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("no standard output")?;
        let stdin = child.stdin.take().context("no standard input")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines(), stdin })
    }

    /// The server, and its URL.
    pub(crate) async fn server() -> anyhow::Result<(Self, String)> {
        Self::server_of("whimbrel").await
    }

    /// That of a peer.
    pub(crate) async fn server_of(peer: &str) -> anyhow::Result<(Self, String)> {
        Self::server_with(&["serve", "--peer", peer]).await
    }

    /// The server, started so, and its URL.
    pub(crate) async fn server_with(arguments: &[&str]) -> anyhow::Result<(Self, String)> {
        let mut server = Self::start(arguments)?;
        let url = server.line().await?;
        Ok((server, url))
    }

    /// The next line it prints.
    pub(crate) async fn line(&mut self) -> anyhow::Result<String> {
        self.lines.next_line().await?.context("it has ended")
    }

    /// Asks the server.
    pub(crate) async fn counts(&mut self) -> anyhow::Result<Counts> {
        self.stdin.write_all(b"\n").await?;
        let line = self.line().await?;
        let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [connections, bytes, answered, dropped, ref loops @ ..] = numbers[..] else {
            bail!("not counts: {line}")
        };
        Ok(Counts { connections, bytes, syns: [answered, dropped], loops: loops.to_vec() })
    }

    /// Returns the processor time of all its threads.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        let id = self.child.id().context("it has ended")?;
        let mut all = Duration::ZERO;
        for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
            let schedstat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let nanos = schedstat.split(' ').next().context("no schedstat")?.parse()?;
            all += Duration::from_nanos(nanos);
        }
        Ok(all)
    }

    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let id = self.child.id().context("it has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse()?;
        let schedstat = std::fs::read_to_string(format!("/proc/{id}/schedstat"))?;
        // Of the main thread, which does all the work: nanoseconds, where `stat` counts ticks.
        let cpu = schedstat.split(' ').next().context("no schedstat")?.parse()?;
        Ok(Usage { resident: kilobytes << 10, cpu: Duration::from_nanos(cpu) })
    }
}
