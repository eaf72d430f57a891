//! Child processes of this program, and the memory and processor time that they use.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A child process. It is killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    stdin: ChildStdin,
}

/// The server's counters.
#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pub(crate) connections: u64,
    pub(crate) bytes: u64,
    /// SYNs answered, and SYNs dropped because there were too many.
    pub(crate) syns: [u64; 2],
    /// Datagrams received by each receive loop.
    pub(crate) loops: Vec<u64>,
}

/// The resources that a process uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// The resident memory in bytes.
    pub(crate) resident: u64,
    /// The processor time so far.
    pub(crate) cpu: Duration,
}

impl Process {
    pub(crate) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        Self::start_program(std::env::current_exe()?, arguments)
    }

    /// Starts another program, which in turn runs this one.
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

    /// Starts the server. Returns it with its URL.
    pub(crate) async fn server() -> anyhow::Result<(Self, String)> {
        Self::server_of("whimbrel").await
    }

    /// Starts the server of a transport. Returns it with its address.
    pub(crate) async fn server_of(peer: &str) -> anyhow::Result<(Self, String)> {
        Self::server_with(&["serve", "--peer", peer]).await
    }

    /// Starts the server with these arguments. Returns it with its URL.
    pub(crate) async fn server_with(arguments: &[&str]) -> anyhow::Result<(Self, String)> {
        let mut server = Self::start(arguments)?;
        let url = server.line().await?;
        Ok((server, url))
    }

    /// Returns the next line that the process prints.
    pub(crate) async fn line(&mut self) -> anyhow::Result<String> {
        self.lines.next_line().await?.context("the child process has ended")
    }

    /// Requests the server's counters.
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
        let id = self.child.id().context("the child process has ended")?;
        let mut all = Duration::ZERO;
        for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
            let schedstat = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let nanos = schedstat.split(' ').next().context("no schedstat")?.parse()?;
            all += Duration::from_nanos(nanos);
        }
        Ok(all)
    }

    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        let id = self.child.id().context("the child process has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse()?;
        let schedstat = std::fs::read_to_string(format!("/proc/{id}/schedstat"))?;
        // The file is about the main thread, which does all the work. It counts nanoseconds, while `stat` counts ticks.
        let cpu = schedstat.split(' ').next().context("no schedstat")?.parse()?;
        Ok(Usage { resident: kilobytes << 10, cpu: Duration::from_nanos(cpu) })
    }
}
