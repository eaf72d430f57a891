//! The publisher: `whimbrel pub`, with numbers as its lines.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{MissedTickBehavior, interval};

use crate::child;

/// The topic.
pub(super) const TOPIC: &str = "demo/numbers";

/// Publishes the numbers from 0 on, so many a second. Returns once a broker has acknowledged all.
pub(super) async fn publish(
    brokers: &[String],
    messages: u32,
    rate: u32,
    progress: impl Fn(u32),
) -> anyhow::Result<()> {
    let mut arguments = vec!["member", "pub", TOPIC];
    for broker in brokers {
        arguments.extend(["--broker", broker]);
    }
    let mut publisher = child::start(arguments, Stdio::null(), Stdio::piped())?;
    let mut lines = publisher.stdin.take().context("the publisher has no input")?;
    let mut pace = interval(Duration::from_secs(1) / rate);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0..messages {
        pace.tick().await;
        lines.write_all(format!("{number}\n").as_bytes()).await.context("the publisher has ended")?;
        progress(number + 1);
    }
    drop(lines);
    let mut said = String::new();
    if let Some(mut errors) = publisher.stderr.take() {
        errors.read_to_string(&mut said).await?;
    }
    match publisher.wait().await?.success() {
        true => Ok(()),
        false => bail!("the publisher failed: {}", said.trim()),
    }
}
