//! A subscriber that roams: `whimbrel sub`, stopped and started again at another broker.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::cluster::{Alive, Cluster};
use super::publisher::TOPIC;
use crate::child::{self, said_by};

/// The kind of a subscriber, by the state that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    SemiDurable,
    Nondurable,
}

/// A subscriber.
pub(super) struct Roamer {
    number: usize,
    kind: Kind,
    state: PathBuf,
    rng: ChaCha8Rng,
    process: Option<Running>,
    heard: Heard,
    moves: u32,
}

struct Running {
    child: Child,
    lines: mpsc::UnboundedReceiver<Line>,
}

enum Line {
    Number(u32),
    Recovered(u32),
}

/// How often each number came.
#[derive(Default)]
struct Heard {
    times: Vec<u32>,
    recovered: u32,
}

/// The results of one subscriber.
#[derive(Debug)]
pub(super) struct Roamed {
    pub(super) number: usize,
    pub(super) kind: Kind,
    pub(super) received: u32,
    pub(super) twice: u32,
    pub(super) recovered: u32,
    pub(super) moves: u32,
    /// The share of the time for which it was away.
    pub(super) away: f64,
}

/// How long it stays, and how long it is away, ms.
const STAYS: std::ops::Range<u64> = 1_500..4_000;
const AWAY: std::ops::Range<u64> = 500..2_000;

impl Roamer {
    /// Starts it at one of the brokers, and waits until it is attached.
    pub(super) async fn start(
        number: usize,
        kind: Kind,
        cluster: &Cluster,
        rng: ChaCha8Rng,
    ) -> anyhow::Result<Self> {
        let state = cluster.folder().file(format!("subscriber{number}.state"));
        let mut roamer = Self { number, kind, state, rng, process: None, heard: Heard::default(), moves: 0 };
        roamer.attach(cluster.alive().urls()).await?;
        Ok(roamer)
    }

    async fn attach(&mut self, brokers: &[String]) -> anyhow::Result<()> {
        let first = self.rng.random_range(0..brokers.len());
        let mut arguments: Vec<String> = ["member", "sub", TOPIC].map(str::to_owned).to_vec();
        for broker in brokers[first..].iter().chain(&brokers[..first]) {
            arguments.extend(["--broker".to_owned(), broker.clone()]);
        }
        match self.kind {
            Kind::SemiDurable => arguments.extend(["--state".to_owned(), self.state.display().to_string()]),
            Kind::Nondurable => arguments.push("--nondurable".to_owned()),
        }
        let mut child = child::start(arguments, Stdio::piped(), Stdio::piped())?;
        let mut said = BufReader::new(child.stderr.take().context("a subscriber has no output")?).lines();
        said_by("a subscriber", &mut said, ["attached at broker "]).await?;
        let mut numbers = BufReader::new(child.stdout.take().context("a subscriber has no output")?).lines();
        let (send, lines) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let line = tokio::select! {
                    biased;
                    Ok(Some(line)) = numbers.next_line() => line.parse().ok().map(Line::Number),
                    Ok(Some(line)) = said.next_line() => recovered(&line).map(Line::Recovered),
                    else => return,
                };
                if line.is_some_and(|line| send.send(line).is_err()) {
                    return;
                }
            }
        });
        self.process = Some(Running { child, lines });
        self.moves += 1;
        Ok(())
    }

    /// Stops it. What it had printed is taken.
    async fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut running) = self.process.take() else { return Ok(()) };
        if let Some(id) = running.child.id() {
            // It saves its state and ends.
            let killed = tokio::process::Command::new("kill").arg(id.to_string()).status().await?;
            anyhow::ensure!(killed.success(), "a subscriber cannot be stopped");
        }
        // Without its input it would end before it has saved its state.
        let input = running.child.stdin.take();
        running.child.wait().await?;
        drop(input);
        while let Some(line) = running.lines.recv().await {
            self.heard.take(line);
        }
        Ok(())
    }

    /// Listens for so long, or until all messages have come.
    async fn listen(&mut self, time: Duration, until: Option<u32>) {
        let Some(running) = &mut self.process else { return };
        let heard = &mut self.heard;
        let listening = async {
            while until.is_none_or(|messages| heard.received() < messages) {
                match running.lines.recv().await {
                    Some(line) => heard.take(line),
                    None => return,
                }
            }
        };
        drop(timeout(time, listening).await);
    }

    /// Roams while messages are published, and then stays until it has all of them.
    pub(super) async fn roam(
        mut self,
        alive: Alive,
        published: Duration,
        messages: u32,
        patience: Duration,
    ) -> anyhow::Result<Roamed> {
        let (start, mut away) = (Instant::now(), Duration::ZERO);
        while start.elapsed() < published {
            let stays = Duration::from_millis(self.rng.random_range(STAYS));
            self.listen(stays, None).await;
            self.stop().await?;
            let gone = Instant::now();
            sleep(Duration::from_millis(self.rng.random_range(AWAY))).await;
            self.attach(alive.urls()).await?;
            away += gone.elapsed();
        }
        let roamed = start.elapsed();
        let patience = if self.kind == Kind::Nondurable { Duration::from_secs(2) } else { patience };
        self.listen(patience, Some(messages)).await;
        self.stop().await?;
        let Heard { times, recovered } = &self.heard;
        Ok(Roamed {
            number: self.number,
            kind: self.kind,
            received: self.heard.received(),
            twice: times.iter().map(|times| times.saturating_sub(1)).sum(),
            recovered: *recovered,
            moves: self.moves - 1,
            away: away.as_secs_f64() / roamed.as_secs_f64(),
        })
    }
}

impl Heard {
    fn take(&mut self, line: Line) {
        match line {
            Line::Recovered(number) => self.recovered += number,
            Line::Number(number) => {
                let at = number as usize;
                if at >= self.times.len() {
                    self.times.resize(at + 1, 0);
                }
                self.times[at] += 1;
            }
        }
    }

    fn received(&self) -> u32 {
        self.times.iter().filter(|times| **times > 0).count() as u32
    }
}

/// The number in a line about a recovery that is over.
fn recovered(line: &str) -> Option<u32> {
    line.strip_prefix("recovered ")?.split(';').next()?.parse().ok()
}
