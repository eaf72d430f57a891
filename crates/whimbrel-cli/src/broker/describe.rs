//! The status of a broker, as people read it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::Value;

use crate::shown::{delay, plural, size};

#[derive(Default, Deserialize)]
#[serde(default)]
struct More {
    name: String,
    cluster: String,
    subscriptions: u64,
    linked: u64,
    channels: Vec<Channel>,
    durable: Vec<Durable>,
    logs: Vec<Log>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Durable {
    name: String,
    client: Option<String>,
    filter: String,
    lag: u64,
    attached: bool,
    away_since_ms: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Log {
    channel: String,
    messages: u64,
    bytes: u64,
    segments: u64,
    oldest_ms: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Channel {
    name: String,
    arrived: u64,
    retained: u64,
    partitions: Vec<Partition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Partition {
    messages: u64,
    bytes: u64,
    room: u64,
    overwritten: u64,
}

/// Returns the lines about channels and subscriptions.
pub(crate) fn describe(more: &Value) -> Vec<String> {
    let More { name, cluster, subscriptions, linked, channels, durable, logs } =
        More::deserialize(more).unwrap_or_default();
    let mut lines = vec![
        format!("broker {name} of cluster {cluster}"),
        format!("{}, linked with {}", plural(subscriptions, "subscription"), plural(linked, "other broker")),
    ];
    for Channel { name, arrived, retained, partitions } in &channels {
        lines.push(format!(
            "  channel {name}: {arrived} messages so far, last values of {}",
            plural(*retained, "topic")
        ));
        for (at, Partition { messages, bytes, room, overwritten }) in partitions.iter().enumerate() {
            lines.push(format!(
                "    partition {at}: holds {messages} of {room} messages ({}), {overwritten} overwritten",
                size(*bytes)
            ));
        }
    }
    let now = now_ms();
    let ago = |since_ms: u64| delay(now.saturating_sub(since_ms) as f64 * 1e3);
    for Log { channel, messages, bytes, segments, oldest_ms } in &logs {
        let oldest = oldest_ms.map_or_else(String::new, |at| format!(", the oldest of {} ago", ago(at)));
        lines.push(format!(
            "  log of {channel}: {} in {} ({}){oldest}",
            plural(*messages, "message"),
            plural(*segments, "segment"),
            size(*bytes)
        ));
    }
    for Durable { name, client, filter, lag, attached, away_since_ms } in &durable {
        let presence = match (attached, away_since_ms) {
            (true, _) => "attached".to_owned(),
            (false, Some(since)) => format!("away for {}", ago(*since)),
            (false, None) => "away since before the broker started".to_owned(),
        };
        lines.push(format!(
            "  durable {name} of {} ({filter}): {presence}, {} not acknowledged",
            client.as_deref().unwrap_or("nobody"),
            plural(*lag, "message")
        ));
    }
    lines
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
