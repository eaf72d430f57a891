//! Durable publishing through a broker, beside its log alone and a bare loop of write and fdatasync; and the return of a broker that was killed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::timeout;
use whimbrel::{Endpoint, MessageStream, Mocket};
use whimbrel_broker::store::{Entry, Log, Store, StoreSettings};
use whimbrel_pubsub::coverage::Coverage;
use whimbrel_pubsub::frame::Kind;
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Hlc, Message, Origin, PartitionId, Stamp};

use crate::brokers::{Brokers, Make};
use crate::client::{self, Outlet};
use crate::walk::walk;

/// How long the first message may take to come.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of a payload.
const SIZE: usize = 128;
const CHANNEL: &str = "[[channel]]\nname = 'all'\ntopics = '#'\ndurable = true\n";

/// Publishes to a durable channel
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Durable {
    /// Turns of each: the broker, the log, the bare loop
    #[arg(long, default_value_t = 10)]
    turns: u32,
    /// Seconds of a turn
    #[arg(long, default_value_t = 0.3)]
    time: f64,
    /// Messages in flight; the broker gives a publisher credit for 1,000
    #[arg(long, default_value_t = 1_000)]
    in_flight: usize,
    /// Publishers of the broker, each with so many in flight
    #[arg(long, default_value_t = 1)]
    publishers: usize,
    /// Instead, kill the broker once so many messages are stored, and start it again
    #[arg(long)]
    kill_after: Option<u64>,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Messages acknowledged a second through a broker, by its log alone, and by the bare loop with groups as large as the log's.
    pub(crate) broker: f64,
    pub(crate) log: f64,
    pub(crate) bare: f64,
    /// The first two over the third, percent.
    pub(crate) broker_share: f64,
    pub(crate) log_share: f64,
    /// Messages of a group of the log alone.
    pub(crate) group: f64,
}

/// The figures of either run.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Outcome {
    Published(Figures),
    Returned(Returned),
}

/// The return of a broker that was killed.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Returned {
    /// Milliseconds from its start until it serves.
    pub(crate) recovery_ms: f64,
    /// Milliseconds from its start until a durable subscriber has the first message that was stored before.
    pub(crate) first_ms: f64,
}

/// How many of something took how long.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    number: u64,
    seconds: f64,
}

impl Sum {
    fn add(&mut self, number: u64, began: Instant) {
        self.number += number;
        self.seconds += began.elapsed().as_secs_f64();
    }

    fn rate(&self) -> f64 {
        self.number as f64 / self.seconds
    }
}

impl Durable {
    pub(crate) async fn run(&self) -> anyhow::Result<Outcome> {
        let mut brokers = Brokers::start(Make::Whimbrel, 1, CHANNEL).await?;
        // What nobody has subscribed to need not be kept.
        let endpoint = client::endpoint().await?;
        attach(&endpoint, &brokers.addresses[0]).await?;
        match self.kill_after {
            Some(number) => Ok(Outcome::Returned(returned(&mut brokers, &endpoint, number).await?)),
            None => Ok(Outcome::Published(self.rates(&brokers).await?)),
        }
    }

    async fn rates(&self, brokers: &Brokers) -> anyhow::Result<Figures> {
        let store = Store::open(brokers.folder(), StoreSettings::default())?;
        let log = Arc::new(store.log(ChannelId(0))?);
        let mut file = File::create(brokers.folder().join("bare"))?;
        let mut outlets = Vec::new();
        for _ in 0..self.publishers {
            outlets.push(Outlet::connect(&brokers.addresses[0]).await?);
        }
        let (mut through, mut alone, mut bare) = (Sum::default(), Sum::default(), Sum::default());
        let (mut sequence, mut group, turn) = (0, 1, Duration::from_secs_f64(self.time));
        for _ in 0..self.turns {
            let began = Instant::now();
            let number = self.publish(&mut outlets, turn).await?;
            through.add(number, began);

            let (began, before) = (Instant::now(), log.figures());
            let appending = Arc::clone(&log);
            let in_flight = self.in_flight * self.publishers;
            let (number, next) =
                tokio::task::spawn_blocking(move || append(&appending, sequence, in_flight, turn)).await??;
            alone.add(number, began);
            sequence = next;
            let after = log.figures();
            group = ((after.end.0 - before.end.0) / (after.groups - before.groups).max(1)).max(1);

            let bytes = vec![7; ((after.bytes - before.bytes) / number.max(1) * group) as usize];
            let (began, mut written) = (Instant::now(), 0);
            while began.elapsed() < turn {
                file.write_all(&bytes)?;
                file.sync_data()?;
                written += group;
            }
            bare.add(written, began);
        }
        let (broker, log, bare) = (through.rate(), alone.rate(), bare.rate());
        let (broker_share, log_share) = (100.0 * broker / bare, 100.0 * log / bare);
        Ok(Figures { broker, log, bare, broker_share, log_share, group: group as f64 })
    }

    /// Publishes through the broker for a turn. Returns how many it has acknowledged.
    async fn publish(&self, outlets: &mut Vec<Outlet>, turn: Duration) -> anyhow::Result<u64> {
        let (began, mut publishing, mut all) = (Instant::now(), JoinSet::new(), 0);
        for mut outlet in outlets.drain(..) {
            publishing.spawn(async move {
                let before = outlet.answered();
                while began.elapsed() < turn {
                    outlet.publish(message()?).await?;
                }
                outlet.finish().await?;
                anyhow::Ok((outlet.answered() - before, outlet))
            });
        }
        while let Some(ended) = publishing.join_next().await {
            let (number, outlet) = ended??;
            all += number;
            outlets.push(outlet);
        }
        Ok(all)
    }
}

/// Attaches the durable subscription.
async fn attach(endpoint: &Endpoint, url: &str) -> anyhow::Result<(Mocket, MessageStream)> {
    let (mocket, _) = client::connect(endpoint, url).await?;
    let kind = Kind::Durable { name: "keeper".to_owned(), generation: 0, coverage: Coverage::default() };
    let (stream, ..) = client::subscribe(&mocket, "#", None, kind).await?;
    Ok((mocket, stream))
}

/// Kills the broker once so many messages are stored, and starts it again.
async fn returned(brokers: &mut Brokers, endpoint: &Endpoint, number: u64) -> anyhow::Result<Returned> {
    let mut outlet = Outlet::connect(&brokers.addresses[0]).await?;
    for _ in 0..number {
        outlet.publish(message()?).await?;
    }
    outlet.finish().await?;
    let (began, took) = brokers.kill_and_restart(0).await?;
    let (_mocket, mut stream) = attach(endpoint, &brokers.addresses[0]).await?;
    let mut came = 0;
    while came == 0 {
        let frame = timeout(PATIENCE, stream.recv()).await.context("nothing stored comes")??;
        walk(&frame.payload, |_| came += 1).map_err(|_| anyhow::anyhow!("no frame"))?;
    }
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Returned { recovery_ms: millis(took), first_ms: millis(began.elapsed()) })
}

/// Appends to the log for a turn, with so many in flight. Returns how many were stored, and the next sequence.
fn append(log: &Log, mut sequence: u64, in_flight: usize, turn: Duration) -> anyhow::Result<(u64, u64)> {
    let (mut waiting, mut done, began) = (VecDeque::new(), 0, Instant::now());
    while began.elapsed() < turn || !waiting.is_empty() {
        while waiting.len() < in_flight && began.elapsed() < turn {
            sequence += 1;
            waiting.push_back(log.append(&entry(sequence)?)?);
        }
        if let Some(ticket) = waiting.pop_front() {
            ticket.wait().context("the log is closed")?;
            done += 1;
        }
    }
    Ok((done, sequence))
}

fn message() -> anyhow::Result<Message> {
    Ok(Draft { topic: "t", payload: &[7; SIZE], ..Draft::default() }.finish()?)
}

fn entry(sequence: u64) -> anyhow::Result<Entry> {
    let origin = Origin { broker: BrokerId(1), epoch: 1 };
    let partition = PartitionId(0);
    let stamp = Stamp { origin, sequence, partition, ordinal: sequence, published: Hlc(sequence) };
    Ok(Entry { stamp, arrived_ms: sequence, age: Duration::ZERO, message: message()? })
}
