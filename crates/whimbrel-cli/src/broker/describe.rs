//! The status of a broker, as people read it.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::Value;
use whimbrel::PeerText;
use whimbrel_broker::backbone::NatsReport;
use whimbrel_broker::gateway::mqtt::BridgeReport;
use whimbrel_broker::report::{
    BrokerReport, ChannelReport, LinkReport, PartitionReport, PublisherReports, SubscriberReports,
};

use super::standing::standing;
use crate::shown::{count, delay, plural, size};
use crate::table::Table;

/// The most subscribers and publishers shown in text output. JSON output has up to a hundred.
const SHOWN: usize = 20;

/// The connections of clients of MQTT.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Mqtt {
    connections: u64,
    pending: u64,
    turned_away: u64,
    wills_waiting: u64,
    wills_refused: u64,
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
    unreadable: u64,
    owed: u64,
}

/// Returns the lines about channels, other brokers, subscribers and publishers.
pub(crate) fn describe(more: &Value) -> Vec<String> {
    let report = BrokerReport::deserialize(more).unwrap_or_default();
    let BrokerReport { name, cluster, subscriptions, linked, channels, brokers, subscribers, publishers } =
        &report;
    let mut lines = vec![
        format!("broker {name} of cluster {cluster}"),
        format!(
            "{}, linked with {}",
            plural(*subscriptions, "subscription"),
            plural(*linked, "other broker")
        ),
    ];
    lines.extend(
        more.get("mqtt").and_then(|mqtt| Mqtt::deserialize(mqtt).ok()).map(|mqtt| describe_mqtt(&mqtt)),
    );
    channels.iter().for_each(|channel| lines.extend(describe_channel(channel)));
    lines.extend(
        more.get("nats").and_then(|nats| NatsReport::deserialize(nats).ok()).iter().flat_map(describe_nats),
    );
    if !brokers.is_empty() {
        lines.extend(describe_links(brokers));
    }
    lines.extend(describe_bridges(&list(more, "bridges")));
    lines.extend(describe_subscribers(subscribers));
    lines.extend(describe_publishers(publishers));
    lines.extend(list(more, "logs").iter().map(describe_log));
    lines.extend(list(more, "durable").iter().map(describe_durable));
    lines
}

/// The entries of a list in a report, as far as they can be read.
fn list<'a, T: Deserialize<'a>>(more: &'a Value, name: &str) -> Vec<T> {
    let all = more.get(name).and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|one| T::deserialize(one).ok()).collect()
}

fn describe_log(Log { channel, messages, bytes, segments, oldest_ms, unreadable, owed }: &Log) -> String {
    let unreadable = match unreadable {
        0 => String::new(),
        number => format!(", {} lost by damage", plural(*number, "message")),
    };
    let owed = match owed {
        0 => String::new(),
        number => format!(", {} of other brokers to come when the disk has room", plural(*number, "message")),
    };
    let oldest = oldest_ms.map_or_else(String::new, |at| format!(", the oldest of {} ago", ago(at)));
    format!(
        "  log of {channel}: {} in {} ({}){oldest}{unreadable}{owed}",
        plural(*messages, "message"),
        plural(*segments, "segment"),
        size(*bytes)
    )
}

fn describe_durable(Durable { name, client, filter, lag, attached, away_since_ms }: &Durable) -> String {
    let presence = match (attached, away_since_ms) {
        (true, _) => "attached".to_owned(),
        (false, Some(since)) => format!("away for {}", ago(*since)),
        (false, None) => "away since before the broker started".to_owned(),
    };
    format!(
        "  durable {} of {} ({}): {presence}, {} not acknowledged",
        PeerText::show(name),
        client.as_deref().unwrap_or("nobody"),
        PeerText::show(filter),
        plural(*lag, "message")
    )
}

/// The time since a time of day.
fn ago(since_ms: u64) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    delay(now.saturating_sub(since_ms) as f64 * 1e3)
}

fn describe_mqtt(mqtt: &Mqtt) -> String {
    let Mqtt { connections, pending, turned_away, wills_waiting, wills_refused } = mqtt;
    let connections = plural(*connections, "connection");
    let mut line =
        format!("MQTT: {connections}, {pending} of them before CONNECT, {turned_away} turned away");
    if wills_waiting + wills_refused > 0 {
        line += &format!("; Wills: {wills_waiting} waiting for room, {wills_refused} refused");
    }
    line
}

fn describe_channel(channel: &ChannelReport) -> Vec<String> {
    let ChannelReport {
        name,
        arrived,
        arrived_per_s,
        delivered,
        delivered_per_s,
        retained,
        missing,
        runs_given_up,
        partitions,
    } = channel;
    let mut lines = vec![format!(
        "  channel {name}: {arrived} messages so far ({}/s), {delivered} delivered ({}/s), last values of {}{}{}",
        count(*arrived_per_s),
        count(*delivered_per_s),
        plural(*retained, "topic"),
        if *missing == 0 { String::new() } else { format!(", {missing} yet to come from other brokers") },
        match runs_given_up {
            0 => String::new(),
            runs => format!(", {} of brokers given up for others", plural(*runs, "run")),
        },
    )];
    let partition = |(at, partition): (usize, &PartitionReport)| {
        let PartitionReport { messages, bytes, room, overwritten, oldest_s } = partition;
        let oldest =
            oldest_s.map_or_else(String::new, |oldest| format!(", the oldest of {}", delay(oldest * 1e6)));
        format!(
            "    partition {at}: holds {messages} of {room} messages ({}), {overwritten} overwritten{oldest}",
            size(*bytes)
        )
    };
    lines.extend(partitions.iter().enumerate().map(partition));
    lines
}

fn describe_links(brokers: &[LinkReport]) -> Vec<String> {
    let mut table =
        Table::new(&["broker", "address", "linked for", "paths", "rtt", "out/s", "in/s", "behind"]);
    for broker in brokers {
        table.row([
            broker.name.clone(),
            address(broker.address),
            broker.linked_s.map_or_else(|| "not linked".to_owned(), |linked| delay(linked * 1e6)),
            format!("{}/{}", broker.working_paths, broker.paths),
            broker.rtt_ms.map_or_else(|| "-".to_owned(), |rtt| delay(rtt * 1e3)),
            count(broker.sent_per_s),
            count(broker.received_per_s),
            broker.behind.map_or_else(|| "-".to_owned(), |behind| behind.to_string()),
        ]);
    }
    let mut lines = table.lines();
    let unlinked = brokers.iter().filter(|broker| !broker.linked);
    lines.extend(unlinked.map(|broker| format!("  {}: {}", broker.name, standing(broker))));
    let troubled = brokers.iter().filter(|broker| broker.linked);
    let troubled = troubled.filter_map(|broker| Some((broker, broker.trouble.as_ref()?)));
    lines.extend(troubled.map(|(broker, why)| {
        format!("  the link with {} has trouble: {}", broker.name, PeerText::show(why))
    }));
    lines
}

fn describe_nats(nats: &NatsReport) -> Vec<String> {
    let NatsReport { server, subjects, connections, published, received, behind, .. } = nats;
    let NatsReport { overrun, refused, refused_brokers, trouble, .. } = nats;
    let state = match (server, trouble) {
        (Some(server), None) => format!("connected with {}", PeerText::show(server)),
        (Some(server), Some(why)) => {
            format!("connected with {}, which reports: {}", PeerText::show(server), PeerText::show(why))
        }
        (None, Some(why)) => format!("not connected: {}", PeerText::show(why)),
        (None, None) => "not connected".to_owned(),
    };
    let mut lines = vec![format!(
        "NATS: {state}; {}, {published} published, {behind} behind, {received} received, {overrun} overrun, {refused} refused, \
         subjects {subjects}",
        plural(*connections, "connection")
    )];
    lines.extend(refused_brokers.iter().map(|why| format!("  {}", PeerText::show(why))));
    lines
}

fn describe_bridges(bridges: &[BridgeReport]) -> Vec<String> {
    if bridges.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[
        "bridge",
        "other side",
        "connected for",
        "waiting",
        "sent",
        "in flight",
        "received",
        "loops",
        "refused",
        "lost",
    ]);
    for bridge in bridges {
        table.row([
            bridge.name.clone(),
            bridge.url.clone(),
            bridge.connected_s.map_or_else(|| "not connected".to_owned(), |since| delay(since * 1e6)),
            bridge.waiting.to_string(),
            bridge.sent.to_string(),
            bridge.in_flight.to_string(),
            bridge.received.to_string(),
            bridge.loops.to_string(),
            bridge.refused.to_string(),
            bridge.lost.to_string(),
        ]);
    }
    let mut lines = table.lines();
    let troubled = bridges.iter().filter_map(|bridge| Some((&bridge.name, bridge.trouble.as_ref()?)));
    lines.extend(troubled.map(|(name, why)| format!("  bridge {name}: {}", PeerText::show(why))));
    lines
}

fn describe_subscribers(subscribers: &SubscriberReports) -> Vec<String> {
    let SubscriberReports { slow, list, rest } = subscribers;
    if list.is_empty() {
        return Vec::new();
    }
    let heads =
        ["subscriber", "address", "filter", "kind", "lag", "out/s", "recovered", "lost", "superseded", ""];
    let mut table = Table::new(&heads);
    for subscriber in list.iter().take(SHOWN) {
        table.row([
            subscriber.client.clone(),
            address(subscriber.address),
            subscriber.filter.clone(),
            subscriber.kind.clone(),
            subscriber.lag.to_string(),
            count(subscriber.delivered_per_s),
            subscriber.recovered.to_string(),
            subscriber.lost.to_string(),
            subscriber.superseded.to_string(),
            match (subscriber.slow_s, subscriber.recovering) {
                (Some(slow), _) => format!("SLOW for {}", delay(slow * 1e6)),
                (None, true) => "recovering".to_owned(),
                (None, false) => String::new(),
            },
        ]);
    }
    let mut lines = table.lines();
    let more = list.len().saturating_sub(SHOWN) as u64 + rest.number;
    if more > 0 {
        let lag = rest.lag + list.iter().skip(SHOWN).map(|subscriber| subscriber.lag).sum::<u64>();
        lines.push(format!("  and {}, which lag by {lag} together", plural(more, "more subscription")));
    }
    if *slow > 0 {
        lines.push(format!("  {} slow", plural(*slow, "subscription")));
    }
    lines
}

fn describe_publishers(publishers: &PublisherReports) -> Vec<String> {
    let PublisherReports { number, list, .. } = publishers;
    if list.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&["publisher", "address", "in/s", "accepted", "refused"]);
    for publisher in list.iter().take(SHOWN) {
        table.row([
            publisher.client.clone(),
            address(publisher.address),
            count(publisher.accepted_per_s),
            publisher.accepted.to_string(),
            publisher.refused.to_string(),
        ]);
    }
    let mut lines = table.lines();
    let more = number.saturating_sub(list.len().min(SHOWN) as u64);
    if more > 0 {
        lines.push(format!("  and {}", plural(more, "more publisher")));
    }
    lines
}

fn address(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "?".to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use whimbrel_broker::report::{SubscriberReport, SubscriberSums};

    use super::*;

    #[test]
    fn slow_subscribers_are_named_and_what_others_chose_cannot_steer_the_terminal() {
        let slow = SubscriberReport {
            client: "board\u{1b}[2J".to_owned(),
            filter: "prices/#".to_owned(),
            kind: "nondurable".to_owned(),
            slow: true,
            slow_s: Some(12.0),
            lag: 4_711,
            ..SubscriberReport::default()
        };
        let rest = SubscriberSums { number: 7, lag: 10, ..SubscriberSums::default() };
        let subscribers = SubscriberReports { slow: 1, list: vec![slow], rest };
        let report = BrokerReport { subscribers, ..BrokerReport::default() };
        let lines = describe(&serde_json::to_value(report).unwrap());
        let row = lines.iter().find(|line| line.contains("prices/#")).unwrap();
        assert!(row.contains("4711") && row.contains("SLOW for 12.00 s"), "{row}");
        assert!(!row.contains('\u{1b}') && row.contains("\\u{1b}"), "{row}");
        assert!(
            lines.iter().any(|line| line == "  and 7 more subscriptions, which lag by 10 together"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_report_of_another_version_is_shown_as_far_as_it_goes() {
        let lines = describe(&serde_json::json!({ "name": "b1", "channels": [{ "name": "all", "new": 5 }] }));
        assert!(
            lines[0].starts_with("broker b1") && lines[2].starts_with("  channel all: 0 messages"),
            "{lines:?}"
        );
    }
}
