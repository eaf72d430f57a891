//! Collects an endpoint's metrics whenever they are scraped.
//!
//! Metrics are sums over all sessions, without one per session: a listener may have a hundred thousand sessions, and
//! their peers choose their own keys.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use whimbrel::{Endpoint, PathState};

#[derive(Debug)]
pub(super) struct EndpointCollector {
    endpoint: Endpoint,
}

impl EndpointCollector {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint }
    }
}

/// Sums over the open sessions.
#[derive(Default)]
struct Sums {
    sessions: u64,
    paths: u64,
    working_paths: u64,
    queue_bytes: u64,
    unread_messages: u64,
    lost_packets: u64,
    sent_packets: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Sums {
    fn of(endpoint: &Endpoint) -> Self {
        let mut sums = Self::default();
        for mocket in endpoint.mockets() {
            let stats = mocket.stats();
            let works = |state| matches!(state, PathState::Active | PathState::Standby);
            sums.sessions += 1;
            sums.paths += stats.connection.paths.len() as u64;
            sums.working_paths +=
                stats.connection.paths.iter().filter(|path| works(path.state)).count() as u64;
            sums.queue_bytes += stats.session.queue_bytes;
            sums.unread_messages += stats.session.unread;
            sums.lost_packets += stats.connection.total.lost_packets;
            sums.sent_packets += stats.connection.total.sent_packets;
            sums.sent_bytes += stats.connection.total.sent_bytes;
            sums.received_bytes += stats.connection.total.received_bytes;
        }
        sums
    }
}

impl Collector for EndpointCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let (stats, sums) = (self.endpoint.stats(), Sums::of(&self.endpoint));
        let counters = [
            ("syns", "SYNs that were answered", stats.syns),
            ("accepted", "Connections that were accepted", stats.accepted),
            ("refused", "Handshakes that were refused", stats.refused),
            ("forged", "Handshake packets that failed authentication", stats.forged),
            (
                "over_budget",
                "Handshakes dropped over a rate limit or the limit on connections",
                stats.over_budget,
            ),
            ("resets", "Stateless resets that were sent", stats.resets),
            ("unknown", "Packets that belong to no connection", stats.unknown),
        ];
        for (name, help, value) in counters {
            write(&mut encoder, name, help, &ConstCounter::new(value))?;
        }
        let received = ConstCounter::new(0u64).metric_type();
        let help = "Datagrams received, by receive loop";
        let mut received = encoder.encode_descriptor("received", help, None, received)?;
        for (number, datagrams) in self.endpoint.received_by_loop().into_iter().enumerate() {
            let labels = [("loop", number.to_string())];
            ConstCounter::new(datagrams).encode(received.encode_family(&labels)?)?;
        }
        // These are gauges, since sums over open sessions fall when a session ends.
        let gauges = [
            ("sessions", "Open sessions", sums.sessions),
            ("paths", "Paths of open sessions", sums.paths),
            ("working_paths", "Paths of open sessions that are active or on standby", sums.working_paths),
            ("queue_bytes", "Bytes in the send queues of open sessions", sums.queue_bytes),
            ("memory_used_bytes", "Bytes of memory_budget in use", stats.memory_used),
            ("credit_used_bytes", "Bytes of credit_budget in use", stats.credit_used),
            ("send_used_bytes", "Bytes of send_budget in use", stats.send_used),
            (
                "unread_messages",
                "Messages that open sessions have received and the application has not read",
                sums.unread_messages,
            ),
            ("session_sent_packets", "Packets sent by open sessions", sums.sent_packets),
            ("session_lost_packets", "Packets sent by open sessions that were lost", sums.lost_packets),
            ("session_sent_bytes", "Bytes of UDP payload sent by open sessions", sums.sent_bytes),
            ("session_received_bytes", "Bytes of UDP payload received by open sessions", sums.received_bytes),
        ];
        for (name, help, value) in gauges {
            write(&mut encoder, name, help, &ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)))?;
        }
        Ok(())
    }
}

fn write(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> std::fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}
