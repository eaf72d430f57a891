//! The metrics of a broker for Prometheus.
//!
//! Labels are names of the configuration alone: channels, partitions, brokers and bridges. Clients choose their names, and there may be very many.

use std::fmt::Error;

use whimbrel_service::prometheus_client::collector::Collector;
use whimbrel_service::prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use whimbrel_service::prometheus_client::metrics::MetricType;
use whimbrel_service::prometheus_client::metrics::counter::ConstCounter;
use whimbrel_service::prometheus_client::metrics::gauge::ConstGauge;

use super::channel::{ChannelReport, PartitionReport};
use super::reporter::Reporter;
use crate::backbone::{LinkReport, NatsReport};
use crate::gateway::mqtt::BridgeReport;
use crate::hub::Sums;

/// The most rows of one metric. Of more partitions or brokers, the last have no metrics.
const MOST_SERIES: usize = 1_000;

/// Collects the figures of a broker when they are asked for.
#[derive(Debug)]
pub(super) struct BrokerMetrics(pub(super) Reporter);

/// A metric: name, help, and the value of a row. A row without a value is left out.
type Metric<T> = (&'static str, &'static str, fn(&T) -> Option<f64>);

const SUM_GAUGES: [Metric<Sums>; 3] = [
    ("subscriptions", "Subscriptions that are attached", |sums| Some(sums.subscriptions as f64)),
    ("slow_subscriptions", "Those of them that are slow", |sums| Some(sums.slow as f64)),
    ("publishers", "Clients that have published and are connected", |sums| Some(sums.publishers as f64)),
];

const SUM_COUNTERS: [Metric<Sums>; 5] = [
    ("recovered", "Delivered messages that were published before their subscription came", |sums| {
        Some(sums.recovered as f64)
    }),
    ("lost", "Messages that were overwritten before they could be delivered, at most", |sums| {
        Some(sums.lost as f64)
    }),
    ("superseded", "Messages that a subscription's own policy passed over", |sums| {
        Some(sums.superseded as f64)
    }),
    ("published", "Messages of clients that were accepted", |sums| Some(sums.accepted as f64)),
    ("refused", "Messages of clients that were refused", |sums| Some(sums.refused as f64)),
];

const CHANNEL_COUNTERS: [Metric<ChannelReport>; 3] = [
    ("arrived", "Messages that arrived in the channel", |channel| Some(channel.arrived as f64)),
    ("delivered", "Messages of the channel that were delivered", |channel| Some(channel.delivered as f64)),
    ("runs_given_up", "Runs of brokers whose messages gave way to those of another run", |channel| {
        Some(channel.runs_given_up as f64)
    }),
];

const CHANNEL_GAUGES: [Metric<ChannelReport>; 2] = [
    ("retained", "Topics with a last value", |channel| Some(channel.retained as f64)),
    ("missing", "Messages that other brokers have, and that have not come", |channel| {
        Some(channel.missing as f64)
    }),
];

const PARTITION_GAUGES: [Metric<PartitionReport>; 4] = [
    ("held", "Messages that the partition holds", |partition| Some(partition.messages as f64)),
    ("held_bytes", "Their encoded bytes", |partition| Some(partition.bytes as f64)),
    ("room", "Messages for which the partition has room", |partition| Some(partition.room as f64)),
    ("oldest_seconds", "The age of the oldest message, if it is known", |partition| partition.oldest_s),
];

const PARTITION_COUNTERS: [Metric<PartitionReport>; 1] =
    [("overwritten", "Messages that were overwritten", |partition| Some(partition.overwritten as f64))];

const LINK_GAUGES: [Metric<LinkReport>; 4] = [
    ("linked", "Whether there is a session with the broker", |link| Some(f64::from(u8::from(link.linked)))),
    ("link_behind", "Messages that have yet to go to the broker", |link| {
        link.behind.map(|behind| behind as f64)
    }),
    ("link_working_paths", "Paths to the broker that work", |link| Some(link.working_paths as f64)),
    ("link_rtt_seconds", "The shortest round-trip time to the broker", |link| {
        link.rtt_ms.map(|rtt| rtt / 1e3)
    }),
];

const LINK_COUNTERS: [Metric<LinkReport>; 2] = [
    ("link_sent", "Messages that went to the broker", |link| Some(link.sent as f64)),
    ("link_received", "Messages that came from the broker", |link| Some(link.received as f64)),
];

const BRIDGE_GAUGES: [Metric<BridgeReport>; 4] = [
    ("bridge_connected", "Whether there is a connection with the other broker", |bridge| {
        Some(f64::from(u8::from(bridge.connected)))
    }),
    ("bridge_trouble", "Whether the last connection or attempt failed, and there is none since", |bridge| {
        Some(f64::from(u8::from(bridge.trouble.is_some())))
    }),
    (
        "bridge_waiting",
        "Messages that were published here and that the bridge has yet to look at",
        |bridge| Some(bridge.waiting as f64),
    ),
    ("bridge_in_flight", "Messages that went to the other broker and were not acknowledged", |bridge| {
        Some(bridge.in_flight as f64)
    }),
];

const BRIDGE_COUNTERS: [Metric<BridgeReport>; 8] = [
    ("bridge_connections", "How often a connection was made", |bridge| Some(bridge.connections as f64)),
    ("bridge_sent", "Messages that went to the other broker", |bridge| Some(bridge.sent as f64)),
    ("bridge_sent_bytes", "Bytes of PUBLISH packets that went to the other broker", |bridge| {
        Some(bridge.sent_bytes as f64)
    }),
    ("bridge_received", "Messages that came from the other broker", |bridge| Some(bridge.received as f64)),
    ("bridge_received_bytes", "Bytes of PUBLISH packets that came from the other broker", |bridge| {
        Some(bridge.received_bytes as f64)
    }),
    ("bridge_refused", "Messages that one of the two brokers did not accept", |bridge| {
        Some(bridge.refused as f64)
    }),
    ("bridge_lost", "Messages that were overwritten before they could be sent, at most", |bridge| {
        Some(bridge.lost as f64)
    }),
    ("bridge_loops", "Messages that were dropped because they had been there before", |bridge| {
        Some(bridge.loops as f64)
    }),
];

const NATS_GAUGES: [Metric<NatsReport>; 3] = [
    ("nats_connected", "Whether there is a connection with a server of NATS", |nats| {
        Some(f64::from(u8::from(nats.connected)))
    }),
    ("nats_trouble", "Whether something failed, and no connection was made since", |nats| {
        Some(f64::from(u8::from(nats.trouble.is_some())))
    }),
    ("nats_behind", "Messages that were published here and have yet to go to the servers", |nats| {
        Some(nats.behind as f64)
    }),
];

const NATS_COUNTERS: [Metric<NatsReport>; 7] = [
    ("nats_connections", "How often a connection was made", |nats| Some(nats.connections as f64)),
    ("nats_published", "Messages that were published here and went to the servers", |nats| {
        Some(nats.published as f64)
    }),
    ("nats_received", "Messages of other brokers that came", |nats| Some(nats.received as f64)),
    ("nats_sent_bytes", "Bytes that went to the servers", |nats| Some(nats.sent_bytes as f64)),
    ("nats_received_bytes", "Bytes that came from the servers", |nats| Some(nats.received_bytes as f64)),
    ("nats_overrun", "How often messages came faster than they could be handled", |nats| {
        Some(nats.overrun as f64)
    }),
    ("nats_refused", "Messages that no broker of the cluster sends", |nats| Some(nats.refused as f64)),
];

type Labels = Vec<(&'static str, String)>;

impl Collector for BrokerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let hub = self.0.hub();
        let report = self.0.without_clients(&hub.report());
        let sums = vec![(Vec::new(), hub.register().sums())];
        gauges(&mut encoder, &SUM_GAUGES, &sums)?;
        counters(&mut encoder, &SUM_COUNTERS, &sums)?;
        let (mut channels, mut partitions) = (Vec::new(), Vec::new());
        for channel in report.channels {
            for (at, partition) in channel.partitions.iter().enumerate() {
                let labels = vec![("channel", channel.name.clone()), ("partition", at.to_string())];
                partitions.push((labels, partition.clone()));
            }
            channels.push((vec![("channel", channel.name.clone())], channel));
        }
        counters(&mut encoder, &CHANNEL_COUNTERS, &channels)?;
        gauges(&mut encoder, &CHANNEL_GAUGES, &channels)?;
        gauges(&mut encoder, &PARTITION_GAUGES, &partitions)?;
        counters(&mut encoder, &PARTITION_COUNTERS, &partitions)?;
        let links = report.brokers.into_iter().map(|link| (vec![("peer", link.name.clone())], link));
        let links: Vec<_> = links.collect();
        gauges(&mut encoder, &LINK_GAUGES, &links)?;
        counters(&mut encoder, &LINK_COUNTERS, &links)?;
        let bridges = self.0.bridges().into_iter();
        let bridges: Vec<_> = bridges.map(|bridge| (vec![("bridge", bridge.name.clone())], bridge)).collect();
        gauges(&mut encoder, &BRIDGE_GAUGES, &bridges)?;
        counters(&mut encoder, &BRIDGE_COUNTERS, &bridges)?;
        let nats: Vec<_> = self.0.nats().map(|nats| (Vec::new(), nats)).into_iter().collect();
        gauges(&mut encoder, &NATS_GAUGES, &nats)?;
        counters(&mut encoder, &NATS_COUNTERS, &nats)
    }
}

fn gauges<T>(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &[Metric<T>],
    rows: &[(Labels, T)],
) -> Result<(), Error> {
    write(encoder, MetricType::Gauge, metrics, rows, ConstGauge::<f64>::new)
}

fn counters<T>(
    encoder: &mut DescriptorEncoder<'_>,
    metrics: &[Metric<T>],
    rows: &[(Labels, T)],
) -> Result<(), Error> {
    write(encoder, MetricType::Counter, metrics, rows, |value| ConstCounter::new(value as u64))
}

fn write<T, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    kind: MetricType,
    metrics: &[Metric<T>],
    rows: &[(Labels, T)],
    metric: impl Fn(f64) -> M,
) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    for (name, help, value) in metrics {
        let mut encoder = encoder.encode_descriptor(name, help, None, kind)?;
        if let [(labels, row)] = rows
            && labels.is_empty()
        {
            if let Some(value) = value(row) {
                metric(value).encode(encoder)?;
            }
            continue;
        }
        for (labels, row) in rows.iter().take(MOST_SERIES) {
            if let Some(value) = value(row) {
                metric(value).encode(encoder.encode_family(labels)?)?;
            }
        }
    }
    Ok(())
}
