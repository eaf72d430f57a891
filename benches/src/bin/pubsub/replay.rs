//! How fast one subscriber gets all that a buffer holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use tokio::time::timeout;
use whimbrel_broker::buffer::{Channel, ChannelSettings, PartitionSettings, Size};
use whimbrel_broker::roaming::{From, Read, Reader, Recover, Slow, Wanted, Wish};
use whimbrel_broker::selection::Selection;
use whimbrel_broker::selector::Selector;
use whimbrel_broker::{Now, Time};
use whimbrel_pubsub::coverage::Told;
use whimbrel_pubsub::frame::{Kind, Start};
use whimbrel_pubsub::message::{BrokerId, ChannelId, Draft, Message, Origin};
use whimbrel_pubsub::property::{Properties, Value};

use crate::brokers::{Brokers, Make};
use crate::client::{self, Outlet};
use crate::walk::walk;

const TOPIC: &str = "replayed";
/// The selector of a subscriber that wants a tenth.
const TENTH: &str = "v = 3";
/// Bytes of a payload.
const SIZE: usize = 128;
/// Arrivals that a reader looks at before it looks at anything else.
const STEPS: u32 = 4_096;
/// How long a replay may take to go on.
const PATIENCE: Duration = Duration::from_secs(10);

/// Replays a full buffer to one subscriber
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Replay {
    /// Messages in the buffer
    #[arg(long, default_value_t = 1_000_000)]
    messages: u64,
    /// In this process, from the buffer to a reader, without a broker and a network
    #[arg(long)]
    in_process: bool,
    /// Only a tenth of the messages is wanted, by a selector
    #[arg(long)]
    tenth: bool,
    /// Replays, of which the median counts
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

/// The median of the replays.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Messages of the buffer that were passed, millions a second.
    pub(crate) passed: f64,
    /// Messages that were delivered, millions a second.
    pub(crate) delivered: f64,
}

impl Replay {
    pub(crate) async fn run(&self) -> anyhow::Result<Figures> {
        let mut seconds = if self.in_process { self.in_process()? } else { self.over_loopback().await? };
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        let millions = |messages: u64| messages as f64 / median / 1e6;
        Ok(Figures { passed: millions(self.messages), delivered: millions(self.wanted()) })
    }

    fn wanted(&self) -> u64 {
        if self.tenth { self.messages / 10 } else { self.messages }
    }

    fn selector(&self) -> Option<String> {
        self.tenth.then(|| TENTH.to_owned())
    }

    fn in_process(&self) -> anyhow::Result<Vec<f64>> {
        let size = Size { messages: self.messages, bytes: u64::MAX, ..Size::default() };
        let partitions = vec![PartitionSettings { size, ..PartitionSettings::default() }];
        let settings = ChannelSettings { partitions, ..ChannelSettings::new(ChannelId(0)) };
        let mut channel = Channel::new(settings, Origin { broker: BrokerId(1), epoch: 1 }, Time::ZERO);
        let values = values()?;
        for number in 0..self.messages {
            let now = Now { time: Time::ZERO, wall_ms: number };
            let published = channel.publish(message(&values, number)?, now);
            published.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
        }
        let selector = self.selector().map(|text| Selector::parse(&text).map(Arc::new)).transpose()?;
        let selection = Arc::new(Selection::new(TOPIC.parse()?, selector));
        let replay = |_| {
            let wanted = Wanted { picks: selection.clone(), reach: Vec::new() };
            let wish = Wish { wanted, from: From::Held, recover: Recover::First, slow: Slow::Wait };
            let began = Instant::now();
            let delivered = read_all(&channel, wish);
            anyhow::ensure!(delivered == self.wanted(), "{delivered} of {} came", self.wanted());
            Ok(began.elapsed().as_secs_f64())
        };
        (0..self.rounds).map(replay).collect()
    }

    async fn over_loopback(&self) -> anyhow::Result<Vec<f64>> {
        let settings = format!(
            "[[channel]]\nname = 'all'\ntopics = '#'\n[[channel.partition]]\nmessages = {}\nbytes = '8 GiB'\n",
            self.messages
        );
        let brokers = Brokers::start(Make::Whimbrel, 1, &settings).await?;
        let url = &brokers.addresses[0];
        let mut outlet = Outlet::connect(url).await?;
        let values = values()?;
        for number in 0..self.messages {
            outlet.publish(message(&values, number)?).await?;
        }
        outlet.finish().await?;
        let mut seconds = Vec::new();
        for number in 0..self.rounds {
            seconds.push(self.replay(url, number).await?);
        }
        Ok(seconds)
    }

    /// Lets a new subscriber have all that is held. Returns the seconds until it has it.
    async fn replay(&self, url: &str, number: usize) -> anyhow::Result<f64> {
        let endpoint = client::endpoint().await?;
        let (mocket, welcome) = client::connect(&endpoint, url).await?;
        let began = Instant::now();
        let kind = Kind::SemiDurable {
            id: client::subscription_id(number as u64),
            generation: 1,
            cluster: Some(welcome.cluster),
            start: Start::Held,
        };
        let (mut stream, ..) = client::subscribe(&mocket, TOPIC, self.selector(), kind).await?;
        let mut delivered = 0;
        while delivered < self.wanted() {
            let mut next = Some(timeout(PATIENCE, stream.recv()).await.context("the replay stands still")??);
            while let Some(message) = next {
                walk(&message.payload, |_| delivered += 1).map_err(|_| anyhow::anyhow!("no frame"))?;
                next = stream.try_recv();
            }
        }
        let took = began.elapsed().as_secs_f64();
        anyhow::ensure!(delivered == self.wanted(), "{delivered} of {} came", self.wanted());
        mocket.begin_close(0, "");
        Ok(took)
    }
}

fn read_all(channel: &Channel, wish: Wish) -> u64 {
    let (mut reader, mut delivered) = (Reader::attach(channel, wish, Time::ZERO), 0);
    loop {
        match reader.read(channel, Time::ZERO, true, &mut { STEPS }) {
            Read::Told(Told::Delivery(_)) => delivered += 1,
            Read::Told(_) | Read::More => {}
            Read::Idle | Read::TooSlow => return delivered,
        }
    }
}

/// The properties of messages: of ten, each has another value.
fn values() -> anyhow::Result<Vec<Properties>> {
    Ok((0..10).map(|value| Properties::new([("v", Value::Integer(value))])).collect::<Result<_, _>>()?)
}

fn message(values: &[Properties], number: u64) -> anyhow::Result<Message> {
    let properties = values[number as usize % values.len()].as_bytes();
    Ok(Draft { topic: TOPIC, properties, payload: &[7; SIZE], ..Draft::default() }.finish()?)
}
