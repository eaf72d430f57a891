//! Semi-durable subscribers that were away, and come back all together, beside live traffic.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use whimbrel::{Endpoint, MessageStream, Mocket};
use whimbrel_pubsub::coverage::{Coverage, SubscriptionState, Told};
use whimbrel_pubsub::frame::{Kind, Start, SubscriptionFrame};
use whimbrel_pubsub::message::{ChannelId, Draft};

use crate::brokers::{Brokers, Make};
use crate::client::{self, Outlet};
use crate::live::Live;
use crate::walk::walk;

/// Live traffic has a channel of its own, so that nobody reads over it.
const CHANNELS: &str =
    "[[channel]]\nname = 'live'\ntopics = 'live'\n[[channel]]\nname = 'rest'\ntopics = '#'\n";
/// The topics of what they missed. Each subscriber wants one.
const TOPICS: u64 = 100;
/// Messages of each topic that they missed.
const MISSED: u64 = 10;
/// The most that come at a time.
const AT_ONCE: usize = 512;
/// Sessions of one key, on one socket.
const SESSIONS: usize = 1_000;
/// How long a recovery may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Brings semi-durable subscribers back that were away, beside live traffic
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Returning {
    /// Subscribers that come back
    #[arg(long, default_value_t = 100_000)]
    count: usize,
    /// Seconds within which they try to connect, evenly
    #[arg(long, default_value_t = 55.0)]
    within: f64,
    /// Live subscribers
    #[arg(long, default_value_t = 10)]
    subscribers: usize,
    /// Live messages a second
    #[arg(long, default_value_t = 200.0)]
    live: f64,
    /// Seconds of live traffic before they come
    #[arg(long, default_value_t = 5.0)]
    quiet: f64,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Seconds until the last has what it missed.
    pub(crate) seconds: f64,
    /// Messages that did not come back, and messages that came again.
    pub(crate) lost: f64,
    pub(crate) twice: f64,
    /// Live p99 without them and while they come, ms.
    pub(crate) p99_quiet_ms: f64,
    pub(crate) p99_ms: f64,
    /// The second over the first.
    pub(crate) p99_ratio: f64,
    /// Memory of the broker for each while they are away, and once they are back, bytes.
    pub(crate) away_bytes: f64,
    pub(crate) back_bytes: f64,
    /// Processor time of the broker for each, microseconds.
    pub(crate) broker_us: f64,
}

/// One that is back, and how many messages it has recovered.
type Back = (Mocket, MessageStream, u64);

impl Returning {
    pub(crate) async fn run(&self) -> anyhow::Result<Figures> {
        let brokers = Brokers::start(Make::Whimbrel, 1, CHANNELS).await?;
        let url = brokers.addresses[0].clone();
        let empty = brokers.usage()?.resident as f64;
        let coverage = self.go_away(&url).await?;
        let away = brokers.usage()?.resident as f64;
        let live = Live::start(&url, self.subscribers, self.live).await?;
        let (quiet, idle) = (live.begin(), brokers.usage()?);
        sleep(Duration::from_secs_f64(self.quiet)).await;
        let (quiet, before) = (live.end(quiet), brokers.usage()?);
        let (busy, began) = (live.begin(), Instant::now());
        let (_endpoints, all) = self.come_back(&url, coverage).await?;
        let (seconds, busy) = (began.elapsed().as_secs_f64(), live.end(busy));
        let after = brokers.usage()?;
        let came = |of: &dyn Fn(u64) -> u64| all.iter().map(|(.., came)| of(*came)).sum::<u64>() as f64;
        let (p99_quiet_ms, p99_ms) = (live.p99(quiet)?, live.p99(busy)?);
        Ok(Figures {
            seconds,
            lost: came(&|came| MISSED.saturating_sub(came)),
            twice: came(&|came| came.saturating_sub(MISSED)),
            p99_quiet_ms,
            p99_ms,
            p99_ratio: p99_ms / p99_quiet_ms,
            // What the buffer holds is not for them, and is not small beside nothing.
            away_bytes: (away - empty).max(0.0) / self.count as f64,
            back_bytes: (after.resident as f64 - before.resident as f64).max(0.0) / self.count as f64,
            // What live traffic takes is not theirs.
            broker_us: ((after.cpu - before.cpu).as_secs_f64()
                - (before.cpu - idle.cpu).as_secs_f64() / self.quiet * seconds)
                .max(0.0)
                * 1e6
                / self.count as f64,
        })
    }

    /// Publishes something that all have, and something that all miss. Returns the coverage of all.
    async fn go_away(&self, url: &str) -> anyhow::Result<Coverage> {
        let endpoint = client::endpoint().await?;
        let (mocket, welcome) = client::connect(&endpoint, url).await?;
        let subscription =
            whimbrel_pubsub::coverage::Subscription { filter: "missed/#".to_owned(), selector: None };
        let id = client::subscription_id(0);
        let mut state = SubscriptionState::new(id, welcome.cluster, subscription);
        let kind =
            Kind::SemiDurable { id, generation: 1, cluster: Some(welcome.cluster), start: Start::Live };
        let (mut stream, subscribed, _) = client::subscribe(&mocket, "missed/#", None, kind).await?;
        state.note_channels(&subscribed.channels);
        let mut outlet = Outlet::connect(url).await?;
        outlet.publish(message(0)?).await?;
        outlet.finish().await?;
        let mut has_it = false;
        while !has_it {
            let frame = timeout(PATIENCE, stream.recv()).await.context("nothing comes")??;
            if let SubscriptionFrame::Told(channel, all) = SubscriptionFrame::parse(&frame.payload)? {
                has_it = hear(&mut state, channel, &all)?;
            }
        }
        mocket.begin_close(0, "");
        for number in 0..TOPICS * MISSED {
            outlet.publish(message(number)?).await?;
        }
        outlet.finish().await?;
        Ok(state.coverage().clone())
    }

    /// Brings them back, evenly. Returns once each has what it missed.
    async fn come_back(&self, url: &str, coverage: Coverage) -> anyhow::Result<(Vec<Endpoint>, Vec<Back>)> {
        let mut endpoints = Vec::new();
        for _ in 0..self.count.div_ceil(SESSIONS) {
            endpoints.push(client::endpoint().await?);
        }
        let (room, mut coming) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
        let (mut back, began) = (Vec::with_capacity(self.count), Instant::now());
        for number in 0..self.count {
            let due = Duration::from_secs_f64(self.within * number as f64 / self.count as f64);
            while began.elapsed() < due {
                sleep(Duration::from_millis(1)).await;
            }
            let permit = Arc::clone(&room).acquire_owned().await?;
            let (endpoint, url) = (endpoints[number / SESSIONS].clone(), url.to_owned());
            let coverage = coverage.clone();
            coming.spawn(async move {
                let _permit = permit;
                come(&endpoint, &url, number as u64, coverage).await
            });
            while let Some(ended) = coming.try_join_next() {
                back.push(ended??);
            }
        }
        while let Some(ended) = coming.join_next().await {
            back.push(ended??);
        }
        Ok((endpoints, back))
    }
}

/// Brings one back. Returns it once it has what it missed.
async fn come(endpoint: &Endpoint, url: &str, number: u64, coverage: Coverage) -> anyhow::Result<Back> {
    let (mocket, welcome) = client::connect(endpoint, url).await?;
    let kind = Kind::SemiDurable {
        id: client::subscription_id(1 + number),
        generation: 2,
        cluster: Some(welcome.cluster),
        start: Start::Coverage(coverage),
    };
    let topic = format!("missed/{}", number % TOPICS);
    let (mut stream, ..) = client::subscribe(&mocket, &topic, None, kind).await?;
    let mut came = 0;
    while came < MISSED {
        let frame = timeout(PATIENCE, stream.recv()).await.context("a recovery stands still")??;
        walk(&frame.payload, |_| came += 1).map_err(|_| anyhow::anyhow!("no frame"))?;
    }
    Ok((mocket, stream, came))
}

fn hear(state: &mut SubscriptionState, channel: ChannelId, all: &[Told]) -> anyhow::Result<bool> {
    let mut has_it = false;
    for told in all {
        state.hear(channel, told)?;
        has_it |= matches!(told, Told::Delivery(_));
    }
    Ok(has_it)
}

fn message(number: u64) -> anyhow::Result<whimbrel_pubsub::message::Message> {
    let topic = format!("missed/{}", number % TOPICS);
    Ok(Draft { topic: &topic, payload: &[7; 50], ..Draft::default() }.finish()?)
}
