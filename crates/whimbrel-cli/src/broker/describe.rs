//! The status of a broker, as people read it.

use serde::Deserialize;
use serde_json::Value;

use crate::shown::{plural, size};

#[derive(Default, Deserialize)]
#[serde(default)]
struct More {
    name: String,
    cluster: String,
    subscriptions: u64,
    linked: u64,
    channels: Vec<Channel>,
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
    let More { name, cluster, subscriptions, linked, channels } = More::deserialize(more).unwrap_or_default();
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
    lines
}
