//! The figures: what each end counted, and the document made of both.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use whimbrel::{Mocket, PathStats, Totals};
use whimbrel_sim::link::Histogram;

use super::ending::Cut;
use super::plan::{Mode, Plan};

/// A distribution of delays, µs.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

impl Latency {
    /// None if nothing was recorded.
    pub(super) fn of(histogram: &Histogram) -> Option<Self> {
        let at = |quantile| micros(histogram.quantile(quantile));
        let max = micros(histogram.max());
        (histogram.count() > 0).then(|| Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max,
        })
    }

    pub(super) fn halved(self) -> Self {
        Self {
            p50: self.p50 / 2.0,
            p90: self.p90 / 2.0,
            p99: self.p99 / 2.0,
            p999: self.p999 / 2.0,
            max: self.max / 2.0,
        }
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

/// What the sink saw in an interval.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default)]
pub(super) struct Interval {
    /// Its ends, seconds since the connect call.
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) bytes: u64,
    pub(super) messages: u64,
    pub(super) latency_us: Option<Latency>,
    /// Since the beginning.
    pub(super) total_bytes: u64,
    pub(super) total_messages: u64,
}

/// What the sink saw of one kind of message.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) bytes: u64,
    pub(super) messages: u64,
    /// Different numbers among them, and one above the highest; 0 where messages are too short to carry one.
    pub(super) unique: u64,
    pub(super) next: u64,
    pub(super) duplicated: u64,
    pub(super) out_of_order: u64,
    /// One way; None where the clocks of the two ends cannot be compared.
    pub(super) latency_us: Option<Latency>,
    pub(super) longest_gap_ms: f64,
    /// When the last came, seconds since the connect call.
    pub(super) last_s: f64,
}

/// What the sink has to say in the end.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(super) struct Received {
    pub(super) seconds: f64,
    pub(super) load: Counted,
    pub(super) urgent: Option<Counted>,
    pub(super) cpu_s: f64,
    pub(super) paths: Vec<PathFigures>,
}

/// What the source has to say in the end.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(super) struct Sent {
    /// Handed to the transport, urgent ones apart.
    pub(super) messages: u64,
    pub(super) urgent_messages: u64,
    pub(super) expired: u64,
    pub(super) replaced: u64,
    pub(super) lost: u64,
    pub(super) retransmitted: u64,
    pub(super) repeated: u64,
    pub(super) cpu_s: f64,
    pub(super) paths: Vec<PathFigures>,
    pub(super) total: Total,
    /// Everything was sent and its fate is known.
    pub(super) finished: bool,
    /// Round trips of messages that were sent back.
    pub(super) round_trip_us: Option<Latency>,
}

/// Over all paths, those that are closed included.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default)]
pub(super) struct Total {
    wire_bytes_sent: u64,
    packets_sent: u64,
    /// Without those that arrived after all.
    packets_lost: u64,
}

impl From<Totals> for Total {
    fn from(total: Totals) -> Self {
        Self {
            wire_bytes_sent: total.sent_wire_bytes,
            packets_sent: total.sent_packets,
            packets_lost: total.lost_packets.saturating_sub(total.spurious_packets),
        }
    }
}

/// One path, as one end sees it, since it was opened. Messages are not a path's: one may go over several, and copies of it too.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(super) struct PathFigures {
    pub(super) id: u32,
    /// opening, active, standby, suspect, down or closed.
    pub(super) state: String,
    /// Data goes here first.
    pub(super) primary: bool,
    pub(super) local: Option<String>,
    pub(super) remote: String,
    /// Of the wire bytes sent on the paths there are now, 0 to 1.
    pub(super) share: f64,
    /// With IP and UDP headers.
    pub(super) wire_bytes_sent: u64,
    /// UDP payload.
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    /// The same over the measurement's seconds.
    pub(super) sent_bps: f64,
    pub(super) received_bps: f64,
    pub(super) packets_sent: u64,
    pub(super) packets_lost: u64,
    /// Of those, packets that arrived after all.
    pub(super) packets_lost_spuriously: u64,
    pub(super) packets_received: u64,
    pub(super) packets_duplicated: u64,
    pub(super) rtt_us: f64,
    pub(super) rtt_min_us: f64,
    /// Mean deviation.
    pub(super) rtt_variation_us: f64,
    /// Share of the packets sent that was lost.
    pub(super) loss: f64,
    pub(super) mtu: u16,
    /// What congestion control thinks.
    pub(super) bandwidth_bps: u64,
    /// Wire bytes that may be in flight.
    pub(super) cwnd_bytes: u64,
    pub(super) congestion_phase: String,
}

impl From<&PathStats> for PathFigures {
    fn from(path: &PathStats) -> Self {
        let headers = if path.remote.ip().to_canonical().is_ipv4() { 28 } else { 48 };
        let lost = path.lost_packets.saturating_sub(path.spurious_packets);
        Self {
            id: path.id.0,
            state: format!("{:?}", path.state).to_lowercase(),
            primary: path.primary,
            local: path.local.map(|local| local.to_string()),
            share: 0.0,
            remote: path.remote.to_string(),
            wire_bytes_sent: path.sent_bytes + headers * path.sent_packets,
            bytes_sent: path.sent_bytes,
            bytes_received: path.received_bytes,
            sent_bps: 0.0,
            received_bps: 0.0,
            packets_sent: path.sent_packets,
            packets_lost: path.lost_packets,
            packets_lost_spuriously: path.spurious_packets,
            packets_received: path.received_packets,
            packets_duplicated: path.duplicates,
            rtt_us: micros(path.rtt),
            rtt_min_us: micros(path.rtt_min),
            rtt_variation_us: micros(path.rtt_variation),
            loss: lost as f64 / path.sent_packets.max(1) as f64,
            mtu: path.mtu,
            bandwidth_bps: path.congestion.bandwidth * 8,
            cwnd_bytes: path.congestion.window,
            congestion_phase: path.congestion.phase.to_owned(),
        }
    }
}

pub(super) fn paths(mocket: &Mocket) -> Vec<PathFigures> {
    let mut paths: Vec<PathFigures> = mocket.paths().iter().map(PathFigures::from).collect();
    let all: u64 = paths.iter().map(|path| path.wire_bytes_sent).sum();
    for path in &mut paths {
        path.share = path.wire_bytes_sent as f64 / all.max(1) as f64;
    }
    paths
}

/// How latencies were measured.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LatencyKind {
    /// The two ends share a clock.
    OneWay,
    /// They do not, and messages were sent back.
    HalfRoundTrip,
    /// They do not, or messages are too short to carry the time.
    Unknown,
}

/// The document of a whole measurement.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Document {
    pub(super) mode: Mode,
    pub(super) service: crate::service::ServiceName,
    pub(super) size: usize,
    pub(super) reverse: bool,
    /// False: the connection ended first, or somebody interrupted; the figures are as far as it came.
    pub(super) complete: bool,
    /// Why it did not come to its end.
    pub(super) ended: Option<Cut>,
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    pub(super) goodput_bps: f64,
    pub(super) messages: u64,
    pub(super) messages_per_s: f64,
    pub(super) latency_us: Option<Latency>,
    pub(super) latency_kind: LatencyKind,
    /// Of a message and its echo, where there are echoes.
    pub(super) round_trip_us: Option<Latency>,
    pub(super) longest_gap_ms: f64,
    pub(super) lost: u64,
    pub(super) duplicated: u64,
    pub(super) out_of_order: u64,
    pub(super) expired: u64,
    pub(super) replaced: u64,
    pub(super) retransmitted: u64,
    pub(super) repeated: u64,
    pub(super) wire_bytes_sent: u64,
    pub(super) packets_sent: u64,
    pub(super) rtt_us: f64,
    pub(super) loss: f64,
    /// Of both ends' processes.
    pub(super) cpu_s: f64,
    pub(super) cpu_source_s: f64,
    pub(super) cpu_sink_s: f64,
    /// As the source sees them.
    pub(super) paths: Vec<PathFigures>,
    /// As the sink sees them.
    pub(super) sink_paths: Vec<PathFigures>,
    pub(super) urgent: Option<Urgent>,
}

/// The urgent messages of mixed mode.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Urgent {
    pub(super) messages: u64,
    pub(super) sent: u64,
    pub(super) messages_per_s: f64,
    pub(super) latency_us: Option<Latency>,
    pub(super) longest_gap_ms: f64,
    pub(super) duplicated: u64,
}

impl Document {
    /// From what both ends have counted.
    pub(super) fn new(plan: &Plan, received: &Received, sent: &Sent, ended: Option<Cut>) -> Self {
        let load = &received.load;
        let per_second =
            |count: u64| if received.seconds > 0.0 { count as f64 / received.seconds } else { 0.0 };
        let half = sent.round_trip_us.map(Latency::halved);
        let latency_kind = match (load.latency_us, half) {
            (Some(_), _) => LatencyKind::OneWay,
            (None, Some(_)) => LatencyKind::HalfRoundTrip,
            (None, None) => LatencyKind::Unknown,
        };
        let Total { wire_bytes_sent, packets_sent, packets_lost } = sent.total;
        let paths = |paths: &[PathFigures]| {
            let mut paths = paths.to_vec();
            for path in &mut paths {
                path.sent_bps = per_second(path.bytes_sent * 8);
                path.received_bps = per_second(path.bytes_received * 8);
            }
            paths
        };
        // The path most is sent on stands for all.
        let main = sent.paths.iter().max_by_key(|path| path.packets_sent);
        Self {
            mode: plan.mode,
            service: plan.service,
            size: plan.size,
            reverse: plan.reverse,
            complete: ended.is_none(),
            ended,
            seconds: received.seconds,
            bytes: load.bytes,
            goodput_bps: per_second(load.bytes * 8),
            messages: load.messages,
            messages_per_s: per_second(load.messages),
            latency_us: load.latency_us.or(half),
            latency_kind,
            round_trip_us: sent.round_trip_us,
            longest_gap_ms: load.longest_gap_ms,
            lost: lost(plan, load, sent),
            duplicated: load.duplicated,
            out_of_order: load.out_of_order,
            expired: sent.expired,
            replaced: sent.replaced,
            retransmitted: sent.retransmitted,
            repeated: sent.repeated,
            wire_bytes_sent,
            packets_sent,
            rtt_us: main.map_or(0.0, |path| path.rtt_us),
            loss: packets_lost as f64 / packets_sent.max(1) as f64,
            cpu_s: sent.cpu_s + received.cpu_s,
            cpu_source_s: sent.cpu_s,
            cpu_sink_s: received.cpu_s,
            paths: paths(&sent.paths),
            sink_paths: paths(&received.paths),
            urgent: received.urgent.as_ref().map(|urgent| Urgent {
                messages: urgent.messages,
                sent: sent.urgent_messages,
                messages_per_s: per_second(urgent.messages),
                latency_us: urgent.latency_us,
                longest_gap_ms: urgent.longest_gap_ms,
                duplicated: urgent.duplicated,
            }),
        }
    }
}

/// Messages that never came, for another reason than having been given up on purpose. Of a load that was cut off, what was still under
/// way does not count: only gaps before the last that came, where nothing may fill them any more.
fn lost(plan: &Plan, load: &Counted, sent: &Sent) -> u64 {
    let numbered = load.next > 0;
    let arrived = if numbered { load.unique } else { load.messages };
    let missing = if sent.finished {
        sent.messages.saturating_sub(arrived)
    } else if numbered && !whimbrel::Service::from(plan.service).is_reliable() {
        load.next.saturating_sub(arrived)
    } else {
        0
    };
    missing.saturating_sub(sent.expired + sent.replaced)
}
