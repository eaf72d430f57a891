//! A whimbrel flow whose caller suspends its session in mid-transfer. Another process resumes it from the host's other
//! address.

use anyhow::Context;

use super::process::Process;
use super::{Flow, Running, START};
use crate::job::Job;
use crate::peer::Left;
use crate::testbed::{Side, Testbed};

/// Outcome of such a flow.
pub(crate) struct Moved {
    /// The flow of both callers together, from the first one's connect call on.
    pub(crate) flow: Flow,
    /// State that the first caller left.
    pub(crate) left: Left,
    /// Time of the second caller's resume call, in nanoseconds of [`crate::clock`].
    pub(crate) resumed: u64,
}

impl Moved {
    /// Runs a job with two callers. The first sends this many `messages` from the address on the first link. The second
    /// sends the rest from the address on the second link.
    pub(crate) async fn run(
        testbed: &Testbed,
        job: &Job,
        messages: u64,
        seconds: f64,
    ) -> anyhow::Result<Self> {
        let caller = |command: &str, link: usize| {
            let (job, from) = (job.to_json()?, testbed.addresses(Side::Caller)[link].to_string());
            let messages = messages.to_string();
            let arguments = [command, "--job", &job, "--from", &from, "--messages", &messages];
            anyhow::Ok(arguments.map(str::to_owned).to_vec())
        };
        let mut server = Process::start(testbed, Side::Server, "whimbrel", job, None)?;
        let word = server.next_within("ready", START).await?;
        let mut arguments = caller("leave", 0)?;
        arguments.push(word);
        let mut first = Process::run(testbed, Side::Caller, &arguments)?;
        let started = first.clock_within("started", START).await?;
        let left = first.next("left").await?;
        let left: Left = serde_json::from_str(&left).context("reading the first caller's state")?;
        drop(first);
        let mut second = Process::run(testbed, Side::Caller, &caller("arrive", 1)?)?;
        second.tell(&left.state).await?;
        let resumed = second.clock_within("started", START).await?;
        let running = Running { job: job.clone(), server, caller: second, started };
        Ok(Self { flow: running.finish(seconds).await?, left, resumed })
    }
}
