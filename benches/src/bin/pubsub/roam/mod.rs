//! A roaming load: one publisher, and subscribers that follow the mobility model from broker to broker.

pub(crate) mod course;
pub(crate) mod ledger;
pub(crate) mod native;
mod publisher;
mod roamer;
pub(crate) mod stamp;
mod stream;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::brokers::{Brokers, Make};
use crate::mobility::Mobility;
use course::{Course, Stage, tenth_of};
use ledger::Ledger;
use publisher::{Pace, Published, Task};
use roamer::Roamer;
use stamp::TENTHS;
use wire::Wire;

/// How long a broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// For how long nothing may come, once nothing more is published, before what did not come is lost. It is longer than JetStream's wait for an
/// acknowledgement.
const QUIET: Duration = Duration::from_millis(1_500);

/// Publishes to subscribers that roam, and accounts for what they receive
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Roam {
    #[arg(long, value_enum, default_value = "whimbrel")]
    make: Make,
    #[arg(long, value_enum, default_value = "semi-durable")]
    promise: Promise,
    #[arg(long, default_value_t = 2)]
    brokers: usize,
    #[arg(long, default_value_t = 200)]
    subscribers: usize,
    /// Messages a second. Without it, as many as subscribers keep up with
    #[arg(long)]
    rate: Option<f64>,
    /// Without a rate: the messages of its tenth by which a subscriber may lag that is connected and up to date
    #[arg(long, default_value_t = 500)]
    window: u64,
    /// Bytes of a payload
    #[arg(long, default_value_t = 50)]
    size: usize,
    /// Seconds for which messages are published
    #[arg(long, default_value_t = 5.0)]
    time: f64,
    /// How much faster than in the paper subscribers come and go
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// Mean signal-down interval, in seconds of the paper
    #[arg(long, default_value_t = 12.0)]
    absence: f64,
    /// Coefficient of variation of the signal-down intervals
    #[arg(long, default_value_t = 1.0)]
    variation: f64,
    /// Share of the time for which a subscriber is away
    #[arg(long, default_value_t = Mobility::default().share)]
    share: f64,
    /// Messages that a buffer of ours holds
    #[arg(long, default_value_t = 30_000)]
    slots: u64,
    /// The overwriting policy of our buffers
    #[arg(long, default_value = "lrp")]
    policy: String,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The state that is kept for a subscriber while it is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Promise {
    /// None
    Nondurable,
    /// Its coverage, by itself
    SemiDurable,
    /// All that it has not acknowledged, by the broker: a persistent session of MQTT, or a consumer of JetStream
    Durable,
}

/// The figures of a load.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// Messages a second that the publisher delivered to the system: X_P.
    pub(crate) published: f64,
    /// Messages a second that the subscribers received, over the fan-out: X_S.
    pub(crate) received: f64,
    /// The payloads of these, kilobytes a second.
    pub(crate) kilobytes: f64,
    /// Messages that subscribers lost, percent: L.
    pub(crate) lost: f64,
    /// Messages lost of which the subscriber was not told, where it is promised to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) untold: Option<f64>,
    /// Messages that came again.
    pub(crate) twice: f64,
    /// Connects a second, after the first of each subscriber.
    pub(crate) reconnects: f64,
    /// Processor time of the brokers for each published message, microseconds.
    pub(crate) broker_us: f64,
    /// Memory of the brokers at the end, bytes.
    pub(crate) memory: f64,
}

impl Roam {
    pub(crate) async fn run(&self) -> anyhow::Result<Figures> {
        let brokers = Brokers::start(self.make, self.brokers, &self.settings()).await?;
        let wire = match self.make {
            Make::Whimbrel => None,
            Make::Mosquitto => Some(Wire::Mqtt),
            Make::Nats => Some(Wire::Nats),
        };
        if let Some(wire) = wire {
            stream::prepare(wire, &brokers.addresses[0], 60.0 + self.time).await?;
        }
        let course = Arc::new(Course::new(self.subscribers));
        let mut roaming = self.attach(wire, &brokers, &course).await?;
        let before = brokers.usage()?;
        let time = Duration::from_secs_f64(self.time);
        let pace = self.rate.map_or(Pace::Window(self.window), Pace::Rate);
        let task = Task { pace, time, size: self.size, seed: self.seed };
        let began = course.now();
        let mut publishing = publisher::start(wire, &brokers.addresses[0], task, &course)?;
        course.enter(Stage::Running);
        let published = loop {
            // A subscriber that fails ends the load.
            tokio::select! {
                published = &mut publishing => break published.context("the publisher has ended")??,
                Some(ended) = roaming.join_next() => {
                    let (number, _) = ended??;
                    anyhow::bail!("subscriber {number} ended early")
                }
            }
        };
        course.enter(Stage::Over);
        let mut ledgers = Vec::new();
        while let Some(ended) = roaming.join_next().await {
            ledgers.push(ended??);
        }
        let after = brokers.usage()?;
        let mut figures = self.figures(&course, &ledgers, published, began);
        figures.broker_us = (after.cpu - before.cpu).as_secs_f64() * 1e6 / published.messages.max(1) as f64;
        figures.memory = after.resident as f64;
        Ok(figures)
    }

    async fn attach(
        &self,
        wire: Option<Wire>,
        brokers: &Brokers,
        course: &Arc<Course>,
    ) -> anyhow::Result<JoinSet<anyhow::Result<(usize, Ledger)>>> {
        let model = Mobility {
            absence: Duration::from_secs_f64(self.absence),
            variation: self.variation,
            share: self.share,
            brokers: self.brokers,
            speed: self.speed,
        };
        let mut roaming = JoinSet::new();
        for number in 0..self.subscribers {
            let (walk, course) = (model.walk(number, self.seed), Arc::clone(course));
            let how = (wire, self.promise);
            let (roamer, leg) =
                Roamer::new(number, how, walk, &brokers.addresses, course, self.window / 2).await?;
            roaming.spawn(roamer.roam(leg));
        }
        Ok(roaming)
    }

    fn figures(
        &self,
        course: &Course,
        ledgers: &[(usize, Ledger)],
        published: Published,
        began: u64,
    ) -> Figures {
        let sum = |of: &dyn Fn(&(usize, Ledger)) -> u64| ledgers.iter().map(of).sum::<u64>() as f64;
        let missed = |(number, ledger): &(usize, Ledger)| {
            course.published(tenth_of(*number)).saturating_sub(ledger.received)
        };
        let wanted = sum(&|(number, _)| course.published(tenth_of(*number)));
        let last = ledgers.iter().map(|(_, ledger)| ledger.last).max().unwrap_or(0);
        let seconds = (last.saturating_sub(began) as f64 / 1e9).max(published.seconds);
        let received = sum(&|(_, ledger)| ledger.received);
        let received = received / (self.subscribers as f64 / TENTHS as f64) / seconds;
        Figures {
            published: published.messages as f64 / published.seconds,
            received,
            kilobytes: received * self.size as f64 / 1e3,
            lost: 100.0 * sum(&missed) / wanted.max(1.0),
            untold: (self.promise != Promise::Nondurable)
                .then(|| sum(&|one| missed(one).saturating_sub(one.1.told))),
            twice: sum(&|(_, ledger)| ledger.twice),
            reconnects: sum(&|(_, ledger)| ledger.connects.saturating_sub(1)) / published.seconds,
            ..Figures::default()
        }
    }

    /// The settings of our brokers: ten partitions, each for a tenth of the selector's values.
    fn settings(&self) -> String {
        let durable = self.promise == Promise::Durable;
        let mut text = format!("[[channel]]\nname = 'all'\ntopics = '#'\ndurable = {durable}\n");
        let messages = self.slots / TENTHS as u64;
        for tenth in 0..TENTHS {
            let (from, to) = (tenth * native::VALUES, (tenth + 1) * native::VALUES);
            text += &format!(
                "[[channel.partition]]\nkey = '{}'\nfrom = {from}.0\nto = {to}.0\nmessages = {messages}\nbytes = '1 GiB'\npolicy = '{}'\n",
                native::PROPERTY,
                self.policy
            );
        }
        text
    }
}
