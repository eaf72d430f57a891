//! `whimbrel pub`: publishes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use whimbrel_pubsub::client::{Acknowledgement, Client, ClientError, Publish, PublishError};
use whimbrel_pubsub::message::Index;

use super::brokers::BrokerOptions;
use super::property::{Property, properties};
use crate::output::note;
use crate::process::{Misused, RuntimeOptions, interrupted};
use crate::units;

/// Publishes messages to a topic: the lines of standard input, or one message or file.
///
/// The exit code is 0 once a broker has acknowledged all of them.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  whimbrel pub prices/fish --broker whimbrel://KEY@127.0.0.1:4433 --message 4.20 --property price=4.2 --key-of-message cod
  tail -f log | whimbrel pub logs/web --broker whimbrel://KEY@broker:4433")]
pub struct PubCommand {
    /// The topic.
    topic: String,
    #[command(flatten)]
    brokers: BrokerOptions,
    /// Publish this text, instead of lines.
    #[arg(long, value_name = "TEXT", conflicts_with = "file")]
    message: Option<String>,
    /// Publish this file as one message, instead of lines. `-` is standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A property of the messages, which selectors read: price=4.2, fresh=true or sector=fish. Quotation marks make text of a number. May
    /// be repeated.
    #[arg(long = "property", value_name = "NAME=VALUE")]
    properties: Vec<Property>,
    /// The importance, 1 to 10, by which brokers with the policy pwp keep messages.
    #[arg(long, value_name = "1..10", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=10))]
    index: u8,
    /// The key. A newer message of the same topic and key may replace an older one.
    #[arg(long, value_name = "KEY")]
    key_of_message: Option<String>,
    /// Brokers discard the messages after this time [default: never].
    #[arg(long, value_name = "TIME", value_parser = units::wait)]
    lifetime: Option<Duration>,
    /// Brokers keep the message as the last value of its topic. An empty one removes it.
    #[arg(long)]
    retain: bool,
    #[command(flatten)]
    runtime: RuntimeOptions,
}

impl PubCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// No broker is reached, one refuses a message, or standard input cannot be read.
    pub fn run(self) -> anyhow::Result<()> {
        let runtime = self.runtime;
        runtime.block_on(async move {
            tokio::select! {
                published = self.publish() => published,
                signal = interrupted()? => Err(signal.into()),
            }
        })
    }

    async fn publish(self) -> anyhow::Result<()> {
        let template = self.template()?;
        let (endpoint, client) = self.brokers.connect(true).await?;
        client.connected().await?;
        let published = self.publish_all(&client, &template).await;
        // The broker is told that this was all.
        drop(client);
        endpoint.close(0, "done", Duration::from_secs(5)).await;
        published
    }

    async fn publish_all(&self, client: &Client, template: &Publish) -> anyhow::Result<()> {
        let is_one = self.message.is_some() || self.file.is_some();
        let mut waiting = Waiting { is_one, ..Waiting::default() };
        let mut publish = async |payload: Bytes| {
            let publish = with(template, payload);
            let acknowledgement = client.publish(publish).await.map_err(explained)?;
            waiting.add(acknowledgement).await
        };
        match (&self.message, &self.file) {
            (Some(text), _) => publish(text.clone().into_bytes().into()).await?,
            (None, Some(file)) => publish(read(file).await?).await?,
            (None, None) => {
                let mut lines = BufReader::new(tokio::io::stdin()).split(b'\n');
                while let Some(line) = lines.next_segment().await.context("cannot read standard input")? {
                    publish(line.into()).await?;
                }
            }
        }
        waiting.finish().await
    }

    fn template(&self) -> anyhow::Result<Publish> {
        let mut template = Publish::new(&*self.topic, Bytes::new());
        template.properties = properties(&self.properties).map_err(|error| Misused(error.to_string()))?;
        template.key = self.key_of_message.clone().map(|key| key.into_bytes().into());
        template.index = Index::new(self.index).map_err(|error| Misused(error.to_string()))?;
        template.lifetime = self.lifetime;
        template.retain = self.retain;
        template.check().map_err(|error| Misused(error.to_string()))?;
        Ok(template)
    }
}

fn with(template: &Publish, payload: Bytes) -> Publish {
    let mut publish = template.clone();
    publish.payload = payload;
    publish
}

async fn read(file: &std::path::Path) -> anyhow::Result<Bytes> {
    if file == std::path::Path::new("-") {
        let mut bytes = Vec::new();
        tokio::io::stdin().read_to_end(&mut bytes).await.context("cannot read standard input")?;
        return Ok(bytes.into());
    }
    let bytes = tokio::fs::read(file).await;
    Ok(bytes.with_context(|| format!("cannot read {}", file.display()))?.into())
}

fn explained(error: PublishError) -> anyhow::Error {
    match error {
        PublishError::Refused(refusal) => anyhow::anyhow!("the broker refuses the message: {refusal}"),
        PublishError::Client(ClientError::NoBroker(why)) => anyhow::anyhow!("no broker answers: {why}"),
        other => other.into(),
    }
}

/// Messages that were not acknowledged yet.
#[derive(Default)]
struct Waiting {
    /// Whether there is one message only, whose refusal is the command's error.
    is_one: bool,
    all: std::collections::VecDeque<Acknowledgement>,
    refused: u64,
    first: Option<PublishError>,
}

/// The most that are remembered.
const MOST: usize = 4_096;

impl Waiting {
    async fn add(&mut self, acknowledgement: Acknowledgement) -> anyhow::Result<()> {
        self.all.push_back(acknowledgement);
        if self.all.len() > MOST { self.take().await } else { Ok(()) }
    }

    async fn take(&mut self) -> anyhow::Result<()> {
        let Some(first) = self.all.pop_front() else { return Ok(()) };
        match first.await {
            Ok(()) => Ok(()),
            // Another message may be taken.
            Err(error @ PublishError::Refused(_)) => {
                if self.refused == 0 && !self.is_one {
                    note(format_args!("{}", explained(error.clone())));
                }
                self.refused += 1;
                self.first.get_or_insert(error);
                Ok(())
            }
            Err(error) => Err(explained(error)),
        }
    }

    async fn finish(mut self) -> anyhow::Result<()> {
        while !self.all.is_empty() {
            self.take().await?;
        }
        match (self.refused, self.first) {
            (0, _) | (_, None) => Ok(()),
            (_, Some(error)) if self.is_one => Err(explained(error)),
            // The first was told when it was refused.
            (1, _) => Err(anyhow::anyhow!("1 message was refused")),
            (number, _) => Err(anyhow::anyhow!("{number} messages were refused")),
        }
    }
}
