//! The status of a broker, as programs read it.

use whimbrel::PublicKey;
use whimbrel_broker::hub::{Hub, LogReport};

/// Returns the status of a broker.
pub(super) fn report(hub: &Hub, linked: usize) -> serde_json::Value {
    let name = hub.name();
    let channels = hub.report().into_iter().map(|room| {
        let partitions = room.partitions.iter().map(|figures| {
            serde_json::json!({
                "messages": figures.messages, "bytes": figures.bytes, "room": figures.room, "overwritten": figures.overwritten,
            })
        });
        serde_json::json!({
            "name": room.name, "arrived": room.arrived, "retained": room.retained, "partitions": partitions.collect::<Vec<_>>(),
        })
    });
    let durable = hub.durable_subscriptions().into_iter().map(|subscription| {
        let key = <[u8; 32]>::try_from(&*subscription.owner).ok().and_then(|key| PublicKey::new(key).ok());
        serde_json::json!({
            "name": subscription.name, "client": key.map(|key| key.to_string()), "filter": subscription.filter,
            "lag": subscription.lag, "attached": subscription.attached, "away_since_ms": subscription.away_since_ms,
        })
    });
    let logs = hub.logs().into_iter().map(|LogReport { channel, figures }| {
        serde_json::json!({
            "channel": channel, "messages": figures.end.0 - figures.begin.0, "bytes": figures.bytes,
            "segments": figures.segments, "groups": figures.groups, "oldest_ms": figures.oldest_ms,
        })
    });
    serde_json::json!({
        "name": name.name, "cluster": name.cluster.to_string(), "subscriptions": hub.subscriptions(), "linked": linked,
        "channels": channels.collect::<Vec<_>>(), "durable": durable.collect::<Vec<_>>(), "logs": logs.collect::<Vec<_>>(),
    })
}
