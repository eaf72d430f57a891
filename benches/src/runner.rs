//! Runs all measurements, trial by trial.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::job::Workload;
use crate::meter::Figures;
use crate::peer;
use crate::report::{Report, Row};

/// How much longer than planned a measurement may take.
const GRACE: Duration = Duration::from_secs(10);

/// The measurements to run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Plan {
    /// Measure only these peers [default: all]
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Measure only these workloads [default: all]
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// The number of trials of each measurement, interleaved peer by peer
    #[arg(long, default_value_t = 5)]
    trials: usize,
    /// The duration of each measurement in seconds, after a warm-up of 0.3 s
    #[arg(long, default_value_t = 1.5)]
    time: f64,
    /// Use multi-threaded runtimes instead of one pinned thread per side
    #[arg(long)]
    threads: bool,
    /// Let the system choose the cores instead of pinning each side to one
    #[arg(long)]
    free: bool,
    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

impl Plan {
    /// Runs all measurements and prints the report. The row of a failed measurement shows the reason.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let mut rows = self.rows()?;
        for trial in 1..=self.trials {
            for row in &mut rows {
                match self.measure(row).await {
                    Ok(figures) => row.figures.push(figures),
                    Err(error) => row.failures.push(format!("{error:#}")),
                }
                eprintln!("trial {trial} of {}: {}", self.trials, row.latest());
            }
        }
        let report = Report {
            trials: self.trials,
            seconds: self.time,
            threads: self.threads,
            pinned: !self.threads && !self.free,
            rows,
        };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            println!("{report}");
        }
        Ok(())
    }

    fn rows(&self) -> anyhow::Result<Vec<Row>> {
        let peers = peer::all();
        if let Some(unknown) = self.peers.iter().find(|name| !peers.iter().any(|peer| peer.name() == **name))
        {
            let names: Vec<_> = peers.iter().map(|peer| peer.name()).collect();
            bail!("there is no peer {unknown}; choose from {}", names.join(", "));
        }
        let wanted = |workload| self.workloads.is_empty() || self.workloads.contains(&workload);
        let mut rows = Vec::new();
        for workload in Workload::ALL.into_iter().filter(|workload| wanted(*workload)) {
            for peer in peers.iter().filter(|peer| peer.workloads().contains(&workload)) {
                if self.peers.is_empty() || self.peers.iter().any(|name| name == peer.name()) {
                    rows.push(Row::new(peer.name(), workload));
                }
            }
        }
        Ok(rows)
    }

    async fn measure(&self, row: &Row) -> anyhow::Result<Figures> {
        let limit = Duration::from_secs_f64(self.time) + GRACE;
        let measured = tokio::time::timeout(limit, self.measure_unlimited(row)).await;
        measured.with_context(|| format!("not done within {limit:?}"))?
    }

    async fn measure_unlimited(&self, row: &Row) -> anyhow::Result<Figures> {
        let (mut server, mut from_server) = self.side("serve", row, None)?;
        let address = line(&mut from_server, "ready ").await?;
        let (mut client, mut from_client) = self.side("run", row, Some(&address))?;
        let figures = match row.workload {
            Workload::Latency => line(&mut from_client, "figures ").await?,
            _ => line(&mut from_server, "figures ").await?,
        };
        client.kill().await?;
        server.kill().await?;
        Ok(serde_json::from_str(&figures)?)
    }

    fn side(
        &self,
        side: &str,
        row: &Row,
        address: Option<&str>,
    ) -> anyhow::Result<(Child, Lines<BufReader<ChildStdout>>)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([side, "--peer", row.peer, "--workload", row.workload.name()]);
        command.args(["--time", &self.time.to_string()]).args(address);
        command.args(self.threads.then_some("--threads")).args(self.free.then_some("--free"));
        // A side that is killed at the end, or finds the other gone, prints errors that mean nothing.
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
        let output = child.stdout.take().context("no output")?;
        Ok((child, BufReader::new(output).lines()))
    }
}

async fn line(output: &mut Lines<BufReader<ChildStdout>>, start: &str) -> anyhow::Result<String> {
    let line = output.next_line().await?.context("a side has ended early")?;
    line.strip_prefix(start).map(str::to_owned).with_context(|| format!("unexpected: {line}"))
}
