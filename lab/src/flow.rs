//! A peer's flow from caller to server: both processes, their output and the figures that result.

mod moved;
mod process;
mod single;

use std::time::Duration;

use anyhow::Context;

pub(crate) use self::moved::Moved;
pub(crate) use self::process::Process;
pub(crate) use self::single::Try;
use crate::clock;
use crate::job::{Figures, Job, Sent};
use crate::testbed::{Side, Testbed};

/// Longest time that a process may take to start.
const START: Duration = Duration::from_secs(20);
/// Longest time that a side may take to end after it was told to.
const END: Duration = Duration::from_secs(10);

/// Outcome of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Time of the connect call, in nanoseconds of [`crate::clock`].
    pub(crate) started: u64,
    /// The receiver's figures.
    pub(crate) figures: Figures,
    /// The sender's figures.
    pub(crate) sent: Sent,
}

impl Flow {
    /// Starts the server, waits until it is ready, and starts the caller. Ends both when the job is done, or after
    /// `seconds` from the connect call.
    ///
    /// A transfer that is not complete by then has failed. Of messages, those that have arrived by then count.
    pub(crate) async fn run(testbed: &Testbed, peer: &str, job: &Job, seconds: f64) -> anyhow::Result<Self> {
        Running::start(testbed, peer, job).await?.finish(seconds).await
    }
}

/// A flow in progress. Several may share a testbed, and links may change meanwhile:
///
/// ```ignore
/// let ours = Running::start(&testbed, "whimbrel", &job).await?;
/// let theirs = Running::start(&testbed, "tcp-bbr", &job).await?;
/// let event = async { sleep(after).await; testbed.reconfigure(0, plan) };
/// let (ours, theirs, ()) = tokio::join!(ours.finish(30.0), theirs.finish(30.0), event);
/// ```
///
/// Dropping it ends both processes.
pub(crate) struct Running {
    job: Job,
    server: Process,
    caller: Process,
    started: u64,
}

impl Running {
    /// Starts both sides. Returns once the caller has called connect.
    pub(crate) async fn start(testbed: &Testbed, peer: &str, job: &Job) -> anyhow::Result<Self> {
        let mut server = Process::start(testbed, Side::Server, peer, job, None)?;
        let word = server.next_within("ready", START).await?;
        let mut caller = Process::start(testbed, Side::Caller, peer, job, Some(&word))?;
        let started = caller.clock_within("started", START).await?;
        Ok(Self { job: job.clone(), server, caller, started })
    }

    /// Returns the time of the connect call, in nanoseconds of [`crate::clock`].
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// Waits as [`Flow::run`] does, and ends both sides.
    pub(crate) async fn finish(self, seconds: f64) -> anyhow::Result<Flow> {
        self.finish_early(seconds, std::future::pending()).await
    }

    /// Like [`Running::finish`], but also ends both sides when `enough` completes.
    pub(crate) async fn finish_early(
        mut self,
        seconds: f64,
        enough: impl Future<Output = ()>,
    ) -> anyhow::Result<Flow> {
        let passed = Duration::from_nanos(clock::now().saturating_sub(self.started));
        let left = Duration::from_secs_f64(seconds).saturating_sub(passed);
        let limit = tokio::time::sleep(left);
        tokio::pin!(limit, enough);
        let (mut figures, mut sent) = (None, None);
        while figures.is_none() {
            tokio::select! {
                said = self.server.next("figures") => figures = Some(said?),
                said = self.caller.next("sent"), if sent.is_none() => sent = Some(said?),
                () = &mut limit => break,
                () = &mut enough => break,
            }
        }
        let figures = self.server.end("figures", figures, END).await?;
        let sent = self.caller.end("sent", sent, END).await?;
        let flow = Self::flow(self.started, &figures, &sent)?;
        match self.job {
            Job::Transfer { bytes } if flow.figures.bytes < bytes => {
                anyhow::bail!("{} of {bytes} bytes in {seconds} s", flow.figures.bytes)
            }
            _ => Ok(flow),
        }
    }

    fn flow(started: u64, figures: &str, sent: &str) -> anyhow::Result<Flow> {
        let figures = serde_json::from_str(figures).context("reading the server's figures")?;
        let sent = serde_json::from_str(sent).context("reading the caller's figures")?;
        Ok(Flow { started, figures, sent })
    }
}
