//! The status of a broker's store, as programs read it.

use serde_json::{Value, json};
use whimbrel::PublicKey;
use whimbrel_broker::hub::{Hub, LogReport};

/// The most durable subscriptions in a report.
const MOST_ROWS: usize = 100;

/// The durable subscriptions, those with the most messages to come first.
pub(super) fn durable(hub: &Hub) -> Value {
    let mut all = hub.durable_subscriptions();
    all.sort_by_key(|subscription| std::cmp::Reverse(subscription.lag));
    let all = all.into_iter().take(MOST_ROWS).map(|subscription| {
        let session = subscription.session.as_ref().map(ToString::to_string);
        let key = <[u8; 32]>::try_from(&*subscription.owner).ok().and_then(|key| PublicKey::new(key).ok());
        let client = session.or(key.map(|key| key.to_string()));
        json!({
            "name": subscription.name, "client": client, "filter": subscription.filter,
            "lag": subscription.lag, "attached": subscription.attached, "away_since_ms": subscription.away_since_ms,
        })
    });
    all.collect()
}

/// The logs of durable channels.
pub(super) fn logs(hub: &Hub) -> Value {
    let all = hub.logs().into_iter().map(|LogReport { channel, figures, unreadable, owed }| {
        json!({
            "channel": channel, "messages": figures.end.0 - figures.begin.0, "bytes": figures.bytes,
            "segments": figures.segments, "groups": figures.groups, "oldest_ms": figures.oldest_ms,
            "unreadable": unreadable, "owed": owed,
        })
    });
    all.collect()
}
