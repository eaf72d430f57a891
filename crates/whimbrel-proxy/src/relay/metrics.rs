//! The proxy's metrics.

use whimbrel_service::Metrics;
use whimbrel_service::prometheus_client::collector::Collector;
use whimbrel_service::prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use whimbrel_service::prometheus_client::metrics::MetricType;
use whimbrel_service::prometheus_client::metrics::counter::ConstCounter;
use whimbrel_service::prometheus_client::metrics::gauge::ConstGauge;

use super::flows::Flows;
use super::totals::{Group, Sums};

/// Collects the figures of flows when they are asked for.
#[derive(Debug)]
struct FlowMetrics(Flows);

impl Flows {
    /// Registers the metrics of flows, with the prefix `whimbrel_proxy_`.
    pub fn register(&self, metrics: &Metrics) {
        let collector = Box::new(FlowMetrics(self.clone()));
        metrics.with_registry(|registry| {
            registry.sub_registry_with_prefix("whimbrel_proxy").register_collector(collector);
        });
    }
}

/// The name, the help and the value of a counter.
type Counter = (&'static str, &'static str, fn(&Sums) -> u64);

const COUNTERS: [Counter; 5] = [
    ("flows_opened", "Flows that were opened", |sums| sums.opened),
    ("to_peer_bytes", "Bytes of programs that went to the peer", |sums| sums.to_peer),
    ("from_peer_bytes", "Bytes of programs that came from the peer", |sums| sums.from_peer),
    ("to_peer_link_bytes", "The same as sent to the peer, compressed or not", |sums| sums.to_peer_link),
    ("from_peer_link_bytes", "The same as received from the peer", |sums| sums.from_peer_link),
];

fn labels(group: &Group) -> [(&'static str, String); 4] {
    let opened_by = if group.by_peer { "peer" } else { "us" };
    [
        ("peer", group.peer.to_string()),
        ("protocol", group.protocol.name().to_owned()),
        ("opened_by", opened_by.to_owned()),
        ("rule", group.rule.to_string()),
    ]
}

impl Collector for FlowMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let totals = self.0.totals();
        let mut running =
            encoder.encode_descriptor("flows", "Flows that run now", None, MetricType::Gauge)?;
        for (group, sums) in &totals {
            let value = i64::try_from(sums.running).unwrap_or(i64::MAX);
            ConstGauge::new(value).encode(running.encode_family(&labels(group))?)?;
        }
        for (name, help, value) in COUNTERS {
            let mut counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (group, sums) in &totals {
                ConstCounter::new(value(sums)).encode(counter.encode_family(&labels(group))?)?;
            }
        }
        let help = "Flows that met a rule with log = true";
        let mut logged = encoder.encode_descriptor("flows_logged", help, None, MetricType::Counter)?;
        for (rule, count) in self.0.logged() {
            ConstCounter::new(count).encode(logged.encode_family(&[("rule", rule)])?)?;
        }
        let (_, _, refused) = self.0.counts();
        let refused = ConstCounter::new(refused);
        let help = "Flows that were refused";
        refused.encode(encoder.encode_descriptor("flows_refused", help, None, MetricType::Counter)?)
    }
}
