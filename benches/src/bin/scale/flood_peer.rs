//! Measures the round trips of quiet peers while another peer sends as fast as it can.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use tokio::task::{JoinSet, LocalSet};
use whimbrel::{Config, Endpoint, Mocket};

use crate::flooder::Kind;
use crate::process::Process;
use crate::server::ECHO;

/// The options of the measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FloodPeer {
    /// The number of quiet peers, each with a socket of its own
    #[arg(long, default_value_t = 100)]
    peers: usize,
    /// The number of round trips a second of each quiet peer
    #[arg(long, default_value_t = 10)]
    rate: u64,
    /// The duration of each measurement in seconds, without and with each flood
    #[arg(long, default_value_t = 3)]
    time: u64,
    /// Measure only these floods [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    floods: Vec<Kind>,
    /// The number of trials, each without and with each flood
    #[arg(long, default_value_t = 3)]
    trials: usize,
    /// The command that starts the flooder, so that it yields to the quiet peers, which share its core
    #[arg(long, default_value = "chrt -i 0")]
    flooder: String,
}

/// The time before measuring starts, in which connections settle and the flooder reaches its rate.
const WARM_UP: Duration = Duration::from_millis(700);
/// The size of a request in bytes.
const QUESTION: usize = 64;

impl FloodPeer {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (_server, url) = Process::server_with(&["serve", "--read-all"]).await?;
        let mut peers = Vec::with_capacity(self.peers);
        for _ in 0..self.peers {
            let endpoint = Endpoint::bind(Config::default(), "127.0.0.1:0").await?;
            peers.push(Rc::new(endpoint.connect(&url).await?));
        }
        tokio::time::sleep(WARM_UP).await;
        let floods = if self.floods.is_empty() { Kind::ALL.to_vec() } else { self.floods.clone() };
        println!(
            "| flood | sent a second | round trip: median | p90 | p99 | longest | of the median without | worst peer's median, of its own without |"
        );
        println!("|---|---|---|---|---|---|---|---|");
        for _ in 0..self.trials {
            let quiet = self.measure(&peers).await?;
            println!("| none | | {quiet} | | |");
            for flood in &floods {
                let mut flooder = self.start(*flood, &url)?;
                flooder.line().await?;
                tokio::time::sleep(WARM_UP).await;
                let flooded = self.measure(&peers).await?;
                let sent = flooder.line().await?;
                let (all, worst) = flooded.beside(&quiet);
                println!("| {} | {sent} | {flooded} | {all:.2} | {worst:.2} |", flood.name());
                drop(flooder);
                tokio::time::sleep(WARM_UP).await;
            }
        }
        Ok(())
    }

    fn start(&self, flood: Kind, url: &str) -> anyhow::Result<Process> {
        let time = (self.time + 2).to_string();
        let arguments = ["flooder", "--url", url, "--kind", flood.name(), "--time", &time];
        Process::start_by(&self.flooder, &arguments)
    }

    async fn measure(&self, peers: &[Rc<Mocket>]) -> anyhow::Result<Trips> {
        let (local, mut asking) = (LocalSet::new(), JoinSet::new());
        let (end, pause) =
            (Instant::now() + Duration::from_secs(self.time), Duration::from_secs(1) / self.rate as u32);
        for (number, peer) in peers.iter().enumerate() {
            let first = pause * number as u32 / peers.len() as u32;
            let asked = ask(Rc::clone(peer), Instant::now() + first, pause, end);
            asking.spawn_local_on(async move { asked.await.map(|trips| (number, trips)) }, &local);
        }
        let mut each = vec![Vec::new(); peers.len()];
        local
            .run_until(async {
                while let Some(asked) = asking.join_next().await {
                    let (number, trips) = asked??;
                    each[number] = trips;
                }
                anyhow::Ok(())
            })
            .await?;
        Ok(Trips::new(each))
    }
}

/// Sends a request every `pause`, but not before the last answer has arrived. Returns the round trips.
async fn ask(
    peer: Rc<Mocket>,
    first: Instant,
    pause: Duration,
    end: Instant,
) -> anyhow::Result<Vec<Duration>> {
    let question = Bytes::from([&[ECHO], &[0; QUESTION - 1][..]].concat());
    let (mut trips, mut due) = (Vec::new(), first);
    while due < end {
        tokio::time::sleep_until(due.into()).await;
        let asked = Instant::now();
        peer.send(question.clone()).await?;
        peer.recv().await?;
        trips.push(asked.elapsed());
        due = (due + pause).max(Instant::now());
    }
    Ok(trips)
}

/// All round trips in ascending order, and the median of each peer.
struct Trips {
    all: Vec<Duration>,
    medians: Vec<Duration>,
}

impl Trips {
    fn new(mut each: Vec<Vec<Duration>>) -> Self {
        let mut all = each.concat();
        all.sort_unstable();
        each.iter_mut().for_each(|trips| trips.sort_unstable());
        Self { all, medians: each.iter().map(|trips| at(trips, 0.5)).collect() }
    }

    /// Compares these round trips with those without a flood. Returns the ratio of the medians, and the highest ratio
    /// of a single peer.
    fn beside(&self, quiet: &Self) -> (f64, f64) {
        let worst = self.medians.iter().zip(&quiet.medians).map(|(flooded, quiet)| times(*flooded, *quiet));
        (times(at(&self.all, 0.5), at(&quiet.all, 0.5)), worst.fold(0.0, f64::max))
    }
}

impl std::fmt::Display for Trips {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = [0.5, 0.9, 0.99, 1.0].map(|quantile| at(&self.all, quantile).as_secs_f64() * 1e6);
        write!(f, "{:.0} | {:.0} | {:.0} | {:.0} µs", micros[0], micros[1], micros[2], micros[3])
    }
}

fn times(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64().max(1e-9)
}

fn at(sorted: &[Duration], quantile: f64) -> Duration {
    let index = (sorted.len().saturating_sub(1) as f64 * quantile).round() as usize;
    sorted.get(index).copied().unwrap_or(Duration::MAX)
}

impl Process {
    /// Starts this program as [`Process::start`] does, but with a command that sets how the process is scheduled.
    fn start_by(by: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let own = std::env::current_exe()?;
        let own = own.to_str().context("this program's path is no text")?;
        let words: Vec<&str> = by.split_whitespace().chain([own]).chain(arguments.iter().copied()).collect();
        Self::start_program(words[0], &words[1..])
    }
}
