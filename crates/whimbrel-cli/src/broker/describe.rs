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
    mqtt: Option<Mqtt>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Mqtt {
    connections: u64,
    pending: u64,
    turned_away: u64,
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
    let More { name, cluster, subscriptions, linked, channels, mqtt } =
        More::deserialize(more).unwrap_or_default();
    let mut lines = vec![
        format!("broker {name} of cluster {cluster}"),
        format!("{}, linked with {}", plural(subscriptions, "subscription"), plural(linked, "other broker")),
    ];
    if let Some(Mqtt { connections, pending, turned_away }) = mqtt {
        let connections = plural(connections, "connection");
        lines.push(format!(
            "MQTT: {connections}, {pending} of them before CONNECT, {turned_away} turned away"
        ));
    }
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
