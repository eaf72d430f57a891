//! A client of an echo server, with few connections or many.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout, timeout_at};

use super::connect;
use crate::clock;
use crate::peer::side;
use crate::stats::{percentile, sorted};

/// Payload bytes of an exchange, in each direction.
const SIZE: usize = 64;
/// Longest time that an exchange of [`Load::Reach`], [`Load::Hold`] and [`Load::Open`] may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two tries to reach the server.
const AGAIN: Duration = Duration::from_millis(100);

/// The load that the program makes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "load")]
pub(crate) enum Load {
    /// One exchange, tried until it works.
    Reach,
    /// This many exchanges over one connection, one after the other.
    Ping { count: usize },
    /// This many connections with one exchange each, held until standard input is closed.
    Hold { connections: usize },
    /// This many new connections a second, each with one exchange.
    Open { rate: f64, seconds: f64 },
    /// This many connections with an exchange every so many milliseconds. An exchange may take as long as it wants, but
    /// no longer than `last_ms` after the end.
    Beat { connections: usize, every_ms: u64, seconds: f64, last_ms: u64 },
}

/// The result of an exchange.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Exchanged {
    /// Connections that did all they should.
    pub(crate) done: u64,
    /// Errors of the others, counted.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Median time of an exchange, us. It includes connecting for [`Load::Open`].
    pub(crate) median_us: f64,
    /// Time that all of it took, seconds.
    pub(crate) seconds: f64,
    /// Times of the replies on each connection of [`Load::Beat`], in nanoseconds of [`crate::clock`].
    pub(crate) replies: Vec<Vec<u64>>,
}

#[derive(clap::Args)]
pub(crate) struct Exchange {
    /// Addresses of the server, which take turns
    #[arg(long, value_delimiter = ',', required = true)]
    to: Vec<SocketAddr>,
    /// SOCKS5 proxy to go through
    #[arg(long)]
    socks: Option<SocketAddr>,
    /// The load, as JSON
    #[arg(long)]
    load: String,
}

impl Exchange {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        side::run("exchanged", async {
            let (load, start) = (serde_json::from_str(&self.load)?, Instant::now());
            let mut exchanged = self.exchange(load).await?;
            exchanged.seconds = start.elapsed().as_secs_f64();
            Ok(exchanged)
        })
    }

    fn target(&self, number: usize) -> SocketAddr {
        self.to[number % self.to.len()]
    }

    async fn exchange(&self, load: Load) -> anyhow::Result<Exchanged> {
        let mut found = Exchanged::default();
        match load {
            Load::Reach => {
                while let Err(error) = opened(self.target(0), self.socks).await {
                    found.count(Err(error));
                    sleep(AGAIN).await;
                }
                found.count(Ok(()));
            }
            Load::Ping { count } => {
                let (mut stream, mut times) = (connect(self.target(0), self.socks).await?, Vec::new());
                for _ in 0..count {
                    let start = Instant::now();
                    turn(&mut stream).await?;
                    times.push(start.elapsed().as_secs_f64() * 1e6);
                }
                found.count(Ok(()));
                found.median_us = median(times);
            }
            Load::Hold { connections } => self.hold(connections, &mut found).await?,
            Load::Open { rate, seconds } => self.open(rate, seconds, &mut found).await?,
            Load::Beat { connections, every_ms, seconds, last_ms } => {
                let (every, last) = (Duration::from_millis(every_ms), Duration::from_millis(last_ms));
                let lasting = Duration::from_secs_f64(seconds);
                self.beat(connections, every, (lasting, last), &mut found).await?;
            }
        }
        Ok(found)
    }

    /// Opens connections, not all at the same moment, and keeps them.
    async fn hold(&self, connections: usize, found: &mut Exchanged) -> anyhow::Result<()> {
        const AT_ONCE: usize = 64;
        let (mut tasks, mut held) = (JoinSet::new(), Vec::new());
        for number in 0..connections {
            if tasks.len() == AT_ONCE {
                self.keep(tasks.join_next().await, found, &mut held)?;
            }
            tasks.spawn(opened(self.target(number), self.socks));
        }
        while !tasks.is_empty() {
            self.keep(tasks.join_next().await, found, &mut held)?;
        }
        side::say("held", &held.len().to_string())?;
        side::ended().await;
        Ok(())
    }

    fn keep(
        &self,
        joined: Option<Result<anyhow::Result<TcpStream>, tokio::task::JoinError>>,
        found: &mut Exchanged,
        held: &mut Vec<TcpStream>,
    ) -> anyhow::Result<()> {
        let stream = joined.context("no connection is being made")??;
        found.count(stream.map(|stream| held.push(stream)));
        Ok(())
    }

    /// Opens connections at a steady rate, whether the earlier ones are done or not.
    async fn open(&self, rate: f64, seconds: f64, found: &mut Exchanged) -> anyhow::Result<()> {
        let (start, mut tasks, mut times) = (Instant::now(), JoinSet::new(), Vec::new());
        for number in 0..(rate * seconds) as usize {
            sleep_until(start + Duration::from_secs_f64(number as f64 / rate)).await;
            let (to, socks) = (self.target(number), self.socks);
            tasks.spawn(async move {
                let start = Instant::now();
                opened(to, socks).await.map(|_| start.elapsed())
            });
        }
        while let Some(done) = tasks.join_next().await {
            found.count(done?.map(|time| times.push(time.as_secs_f64() * 1e6)));
        }
        found.median_us = median(times);
        Ok(())
    }

    async fn beat(
        &self,
        connections: usize,
        every: Duration,
        (lasting, last): (Duration, Duration),
        found: &mut Exchanged,
    ) -> anyhow::Result<()> {
        let mut streams = Vec::new();
        for number in 0..connections {
            streams.push(connect(self.target(number), self.socks).await?);
        }
        side::say("started", &clock::now().to_string())?;
        let end = Instant::now() + lasting;
        let mut tasks: JoinSet<_> =
            streams.into_iter().map(|stream| beat(stream, every, end, last)).collect();
        while let Some(done) = tasks.join_next().await {
            let (done, replies) = done?;
            found.count(done);
            found.replies.push(replies);
        }
        Ok(())
    }
}

impl Exchanged {
    fn count(&mut self, done: anyhow::Result<()>) {
        match done {
            Ok(()) => self.done += 1,
            Err(error) => *self.errors.entry(format!("{error:#}")).or_default() += 1,
        }
    }

    /// Returns the errors in words, or nothing if there were none.
    pub(crate) fn failures(&self) -> Option<String> {
        let words: Vec<_> = self.errors.iter().map(|(error, count)| format!("{count} x {error}")).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }
}

/// Makes exchanges until `end`. The reply to the last may take `last` longer. Returns the times of the replies too.
async fn beat(
    mut stream: TcpStream,
    every: Duration,
    end: Instant,
    last: Duration,
) -> (anyhow::Result<()>, Vec<u64>) {
    let (mut replies, mut ticks) = (Vec::new(), interval(every));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let beating = async {
        while Instant::now() < end {
            ticks.tick().await;
            turn(&mut stream).await?;
            replies.push(clock::now());
        }
        anyhow::Ok(())
    };
    let done = timeout_at(end + last, beating).await.context("no reply").flatten();
    (done, replies)
}

/// Connects and makes one exchange.
async fn opened(to: SocketAddr, socks: Option<SocketAddr>) -> anyhow::Result<TcpStream> {
    let work = async {
        let mut stream = connect(to, socks).await?;
        turn(&mut stream).await?;
        anyhow::Ok(stream)
    };
    timeout(PATIENCE, work).await.context("it took too long")?
}

/// Makes one exchange.
async fn turn(stream: &mut TcpStream) -> anyhow::Result<()> {
    let mut reply = [0; SIZE];
    stream.write_all(&[b'?'; SIZE]).await?;
    stream.read_exact(&mut reply).await?;
    ensure!(reply == [b'?'; SIZE], "the reply is not what was sent");
    Ok(())
}

fn median(times: Vec<f64>) -> f64 {
    percentile(&sorted(times), 0.5).unwrap_or_default()
}
