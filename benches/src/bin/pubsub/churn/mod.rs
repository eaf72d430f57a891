//! Clients that connect and disconnect, many a second, beside live traffic.

mod native;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::brokers::{Brokers, Make};
use crate::live::Live;
use crate::usage::usage;

/// The most clients that connect at a time.
const AT_ONCE: usize = 256;
/// The time between two looks at what is due.
const TICK: Duration = Duration::from_millis(1);

/// Connects and disconnects clients, beside live traffic
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Churn {
    #[arg(long, value_enum, default_value = "key")]
    by: By,
    /// Connects a second. Each disconnects at once
    #[arg(long, default_value_t = 3_000.0)]
    rate: f64,
    /// Seconds without and with them
    #[arg(long, default_value_t = 5.0)]
    time: f64,
    /// Live subscribers
    #[arg(long, default_value_t = 10)]
    subscribers: usize,
    /// Live messages a second
    #[arg(long, default_value_t = 200.0)]
    live: f64,
}

/// How a client shows who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Natively by its key, with a ticket; it attaches a semi-durable subscription
    Key,
    /// By MQTT over TLS, resumed, with user and password
    Tls,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Connects a second that succeeded.
    pub(crate) connects: f64,
    /// Connects that failed.
    pub(crate) failed: f64,
    /// Connects that were resumed, percent. Known of TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resumed: Option<f64>,
    /// Live p99 without them and with them, ms.
    pub(crate) p99_quiet_ms: f64,
    pub(crate) p99_ms: f64,
    /// The second over the first.
    pub(crate) p99_ratio: f64,
    /// Processor time of a connect at the broker and at the client, without that of live traffic, microseconds.
    pub(crate) broker_us: f64,
    pub(crate) client_us: f64,
}

/// Clients that can connect.
enum Clients {
    Native(native::Clients),
    Tls(tls::Clients),
}

impl Clients {
    /// Connects a client, and disconnects it. Returns whether it was resumed, if that is known.
    async fn connect(&self, number: usize) -> anyhow::Result<Option<bool>> {
        match self {
            Self::Native(clients) => clients.connect(number).await,
            Self::Tls(clients) => clients.connect(number).await,
        }
    }
}

/// The results of connects.
#[derive(Debug, Default)]
struct Counts {
    succeeded: u64,
    failed: u64,
    resumed: u64,
    is_known: bool,
}

impl Counts {
    fn note(&mut self, result: anyhow::Result<Option<bool>>) {
        match result {
            Ok(resumed) => {
                self.succeeded += 1;
                self.resumed += u64::from(resumed == Some(true));
                self.is_known |= resumed.is_some();
            }
            Err(error) => {
                if self.failed == 0 {
                    eprintln!("a connect failed: {error:#}");
                }
                self.failed += 1;
            }
        }
    }
}

/// The processor time of the brokers and of this process so far, in seconds.
fn cpu(brokers: &Brokers) -> anyhow::Result<[f64; 2]> {
    Ok([brokers.usage()?.cpu, usage("self")?.cpu].map(|time| time.as_secs_f64()))
}

impl Churn {
    pub(crate) async fn run(&self) -> anyhow::Result<Figures> {
        let files = tls::Files::new()?;
        let settings = if self.by == By::Tls { files.settings().await? } else { String::new() };
        let brokers = Brokers::start(Make::Whimbrel, 1, &settings).await?;
        let clients = Arc::new(match self.by {
            By::Key => Clients::Native(native::Clients::new(&brokers.addresses[0]).await?),
            By::Tls => Clients::Tls(tls::Clients::new(&files, brokers.mqtts()?)?),
        });
        let live = Live::start(&brokers.addresses[0], self.subscribers, self.live).await?;
        let time = Duration::from_secs_f64(self.time);
        // Whoever connects for the first time has no ticket yet.
        self.connect(&clients, time / 4).await?;
        sleep(time / 4).await;
        let (quiet, before) = (live.begin(), cpu(&brokers)?);
        sleep(time).await;
        let (quiet, idle) = (live.end(quiet), cpu(&brokers)?);
        let busy = live.begin();
        let began = Instant::now();
        let counts = self.connect(&clients, time).await?;
        let seconds = began.elapsed().as_secs_f64();
        let busy = live.end(busy);
        let after = cpu(&brokers)?;
        // What live traffic takes is not theirs.
        let each = |place: usize| {
            let live = (idle[place] - before[place]) / self.time * seconds;
            (after[place] - idle[place] - live).max(0.0) * 1e6 / counts.succeeded.max(1) as f64
        };
        let (p99_quiet_ms, p99_ms) = (live.p99(quiet)?, live.p99(busy)?);
        Ok(Figures {
            connects: counts.succeeded as f64 / seconds,
            failed: counts.failed as f64,
            resumed: counts.is_known.then(|| 100.0 * counts.resumed as f64 / counts.succeeded.max(1) as f64),
            p99_quiet_ms,
            p99_ms,
            p99_ratio: p99_ms / p99_quiet_ms,
            broker_us: each(0),
            client_us: each(1),
        })
    }

    /// Connects clients at the rate for so long.
    async fn connect(&self, clients: &Arc<Clients>, time: Duration) -> anyhow::Result<Counts> {
        let (room, mut under_way) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
        let (mut counts, began, mut number) = (Counts::default(), Instant::now(), 0);
        while began.elapsed() < time {
            let due = (began.elapsed().as_secs_f64() * self.rate) as usize;
            while number < due {
                let (permit, clients) = (Arc::clone(&room).acquire_owned().await?, Arc::clone(clients));
                under_way.spawn(async move {
                    let _permit = permit;
                    clients.connect(number).await
                });
                number += 1;
                if began.elapsed() >= time {
                    break;
                }
            }
            while let Some(ended) = under_way.try_join_next() {
                counts.note(ended?);
            }
            sleep_until(Instant::now() + TICK).await;
        }
        while let Some(ended) = under_way.join_next().await {
            counts.note(ended?);
        }
        Ok(counts)
    }
}
