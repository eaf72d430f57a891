//! The figures: the counters of each end, and the document made of both.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use whimbrel::{Mocket, PathStats, PeerText, Totals};
use whimbrel_link::Histogram;

use super::ending::EarlyEnd;
use super::plan::{Mode, Plan};
use super::stamp::STAMP;

/// A distribution of delays, in µs.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p90: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
}

impl Latency {
    /// The distribution in a histogram; `None` if nothing was recorded.
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

/// The sink's figures of an interval.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default)]
pub(super) struct Interval {
    /// Start and end of the interval, in seconds since the connect call.
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) bytes: u64,
    pub(super) messages: u64,
    pub(super) latency_us: Option<Latency>,
    /// Totals since the beginning.
    pub(super) total_bytes: u64,
    pub(super) total_messages: u64,
}

/// The sink's figures of one kind of message.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) bytes: u64,
    pub(super) messages: u64,
    /// The count of different numbers, and the highest plus one; 0 where messages are too short to carry a number.
    pub(super) unique: u64,
    pub(super) next: u64,
    pub(super) duplicated: u64,
    pub(super) out_of_order: u64,
    /// The one-way latency; `None` if the clocks of the two ends cannot be compared.
    pub(super) latency_us: Option<Latency>,
    pub(super) longest_gap_ms: f64,
    /// When the last message arrived, in seconds since the connect call.
    pub(super) last_s: f64,
}

/// The sink's final figures.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(super) struct Received {
    pub(super) seconds: f64,
    pub(super) load: Counted,
    pub(super) urgent: Option<Counted>,
    pub(super) cpu_s: f64,
    pub(super) paths: Vec<PathFigures>,
}

/// The source's final figures.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(super) struct Sent {
    /// Messages handed to the transport, without the urgent ones.
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
    /// Whether everything was sent and its fate is known.
    pub(super) finished: bool,
    /// Round trips of messages that were sent back.
    pub(super) round_trip_us: Option<Latency>,
}

/// Totals over all paths, including closed ones.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default)]
pub(super) struct Total {
    wire_bytes_sent: u64,
    packets_sent: u64,
    /// Lost packets, without those that arrived after all.
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

/// One path as one end sees it, since it was opened. It counts no messages: a message may use several paths, and so
/// may its copies.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
pub(super) struct PathFigures {
    pub(super) id: u32,
    /// The path's state: opening, active, standby, suspect, down or closed.
    #[serde(deserialize_with = "escaped")]
    pub(super) state: String,
    /// Whether this is the primary path, which data uses first.
    pub(super) primary: bool,
    #[serde(deserialize_with = "escaped_if_any")]
    pub(super) local: Option<String>,
    #[serde(deserialize_with = "escaped")]
    pub(super) remote: String,
    /// The share of the wire bytes sent on the current paths, 0 to 1.
    pub(super) share: f64,
    /// Bytes sent with IP and UDP headers.
    pub(super) wire_bytes_sent: u64,
    /// UDP payload bytes.
    pub(super) bytes_sent: u64,
    pub(super) bytes_received: u64,
    /// The same per second of the measurement, in bits.
    pub(super) sent_bps: f64,
    pub(super) received_bps: f64,
    pub(super) packets_sent: u64,
    pub(super) packets_lost: u64,
    /// Packets among those lost that arrived after all.
    pub(super) packets_lost_spuriously: u64,
    pub(super) packets_received: u64,
    pub(super) packets_duplicated: u64,
    pub(super) rtt_us: f64,
    pub(super) rtt_min_us: f64,
    /// The mean deviation of the round trip.
    pub(super) rtt_variation_us: f64,
    /// The share of the packets sent that was lost.
    pub(super) loss: f64,
    pub(super) mtu: u16,
    /// Congestion control's estimate of the bandwidth.
    pub(super) bandwidth_bps: u64,
    /// Wire bytes that may be in flight.
    pub(super) cwnd_bytes: u64,
    #[serde(deserialize_with = "escaped")]
    pub(super) congestion_phase: String,
}

/// Text of the other end, escaped for display.
fn escaped<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| PeerText::show(&text).to_string())
}

fn escaped_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.map(|text| PeerText::show(&text).to_string()))
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
    /// One way: the two ends share a clock.
    OneWay,
    /// Half of a round trip: the ends share no clock, and messages were sent back.
    HalfRoundTrip,
    /// Not measured: there is no shared clock, messages are too short to carry the time, or none arrived.
    Unknown,
}

/// The figures received from both ends; `None` for those never received.
#[derive(Clone, Copy, Default)]
pub(super) struct Heard<'a> {
    pub(super) received: Option<&'a Received>,
    /// The sink's last progress before an early end.
    pub(super) progress: Option<&'a Interval>,
    pub(super) sent: Option<&'a Sent>,
    /// Whether both ends read one clock.
    pub(super) one_clock: Option<bool>,
}

/// The document of a whole measurement. Values that were never received are `None`.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Document {
    pub(super) mode: Mode,
    #[serde(serialize_with = "super::plan::short")]
    pub(super) service: whimbrel::Service,
    pub(super) size: usize,
    pub(super) reverse: bool,
    /// False if the connection ended first or the measurement was interrupted; the figures then cover the time until
    /// then.
    pub(super) complete: bool,
    /// Why it ended early.
    pub(super) ended: Option<EarlyEnd>,
    /// The error, if there was one, as on standard error.
    pub(super) error: Option<String>,
    pub(super) seconds: Option<f64>,
    pub(super) bytes: Option<u64>,
    pub(super) goodput_bps: Option<f64>,
    pub(super) messages: Option<u64>,
    pub(super) messages_per_s: Option<f64>,
    pub(super) latency_us: Option<Latency>,
    pub(super) latency_kind: LatencyKind,
    /// Why no latency is known.
    #[serde(skip)]
    pub(super) no_latency: &'static str,
    /// Round trips of a message and its echo, where there are echoes.
    pub(super) round_trip_us: Option<Latency>,
    pub(super) longest_gap_ms: Option<f64>,
    pub(super) lost: Option<u64>,
    pub(super) duplicated: Option<u64>,
    pub(super) out_of_order: Option<u64>,
    pub(super) expired: Option<u64>,
    pub(super) replaced: Option<u64>,
    pub(super) retransmitted: Option<u64>,
    pub(super) repeated: Option<u64>,
    pub(super) wire_bytes_sent: Option<u64>,
    pub(super) packets_sent: Option<u64>,
    pub(super) rtt_us: Option<f64>,
    pub(super) loss: Option<f64>,
    /// The processor time of both ends' processes.
    pub(super) cpu_s: Option<f64>,
    pub(super) cpu_source_s: Option<f64>,
    pub(super) cpu_sink_s: Option<f64>,
    /// The paths as the source sees them.
    pub(super) paths: Option<Vec<PathFigures>>,
    /// The paths as the sink sees them.
    pub(super) sink_paths: Option<Vec<PathFigures>>,
    pub(super) urgent: Option<Urgent>,
}

/// The figures of the urgent messages of mixed mode.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Urgent {
    pub(super) messages: u64,
    pub(super) sent: Option<u64>,
    pub(super) messages_per_s: f64,
    pub(super) latency_us: Option<Latency>,
    pub(super) longest_gap_ms: f64,
    pub(super) duplicated: u64,
}

/// The rate of `count` events in `seconds`; 0 if no time passed.
fn rate(count: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

impl Document {
    /// Creates the document from the counters of both ends, as far as they were received.
    pub(super) fn new(plan: &Plan, heard: Heard<'_>, ended: Option<EarlyEnd>) -> Self {
        let Heard { received, progress, sent, .. } = heard;
        let load = received.map(|received| &received.load);
        let seconds = received.map(|received| received.seconds).or(progress.map(|last| last.to_s));
        let per_second = |count: f64| seconds.map(|seconds| rate(count, seconds));
        let bytes = load.map(|load| load.bytes).or(progress.map(|last| last.total_bytes));
        let messages = load.map(|load| load.messages).or(progress.map(|last| last.total_messages));
        let one_way = load.map_or(progress.and_then(|last| last.latency_us), |load| load.latency_us);
        let half = sent.and_then(|sent| sent.round_trip_us).map(Latency::halved);
        // The path with the most packets sent represents all.
        let main = sent.and_then(|sent| sent.paths.iter().max_by_key(|path| path.packets_sent));
        let total = sent.map(|sent| sent.total);
        Self {
            mode: plan.mode,
            service: plan.service,
            size: plan.size,
            reverse: plan.reverse,
            complete: ended.is_none(),
            ended,
            error: None,
            seconds,
            bytes,
            goodput_bps: bytes.and_then(|bytes| per_second(bytes as f64 * 8.0)),
            messages,
            messages_per_s: messages.and_then(|messages| per_second(messages as f64)),
            latency_us: one_way.or(half),
            latency_kind: latency_kind(one_way, half),
            no_latency: why_no_latency(plan, messages, heard.one_clock),
            round_trip_us: sent.and_then(|sent| sent.round_trip_us),
            longest_gap_ms: load.map(|load| load.longest_gap_ms),
            lost: load.zip(sent).map(|(load, sent)| lost(plan, load, sent)),
            duplicated: load.map(|load| load.duplicated),
            out_of_order: load.map(|load| load.out_of_order),
            expired: sent.map(|sent| sent.expired),
            replaced: sent.map(|sent| sent.replaced),
            retransmitted: sent.map(|sent| sent.retransmitted),
            repeated: sent.map(|sent| sent.repeated),
            wire_bytes_sent: total.map(|total| total.wire_bytes_sent),
            packets_sent: total.map(|total| total.packets_sent),
            rtt_us: main.map(|path| path.rtt_us),
            loss: total.map(|total| total.packets_lost as f64 / total.packets_sent.max(1) as f64),
            cpu_s: sent.zip(received).map(|(sent, received)| sent.cpu_s + received.cpu_s),
            cpu_source_s: sent.map(|sent| sent.cpu_s),
            cpu_sink_s: received.map(|received| received.cpu_s),
            paths: sent.map(|sent| with_rates(&sent.paths, seconds)),
            sink_paths: received.map(|received| with_rates(&received.paths, seconds)),
            urgent: received.and_then(|received| urgent(received, sent)),
        }
    }

    /// The document of a measurement that could not or should not start.
    pub(super) fn failed(plan: &Plan, why: EarlyEnd) -> Self {
        Self::new(plan, Heard::default(), Some(why))
    }

    /// Returns whether there are figures of arrivals or of packets sent.
    pub(super) fn has_figures(&self) -> bool {
        self.messages.is_some() || self.packets_sent.is_some()
    }
}

fn latency_kind(one_way: Option<Latency>, half: Option<Latency>) -> LatencyKind {
    match (one_way, half) {
        (Some(_), _) => LatencyKind::OneWay,
        (None, Some(_)) => LatencyKind::HalfRoundTrip,
        (None, None) => LatencyKind::Unknown,
    }
}

/// Why no latency is known, if none is.
fn why_no_latency(plan: &Plan, messages: Option<u64>, one_clock: Option<bool>) -> &'static str {
    match (messages, one_clock) {
        (None, _) => "the receiver did not report what arrived",
        (Some(0), _) => "nothing arrived",
        _ if plan.size < STAMP => "messages of less than 16 bytes do not carry the time",
        (_, Some(false)) => "the two ends share no clock",
        _ => "the other end's figures did not arrive",
    }
}

fn with_rates(paths: &[PathFigures], seconds: Option<f64>) -> Vec<PathFigures> {
    let seconds = seconds.unwrap_or_default();
    let mut paths = paths.to_vec();
    for path in &mut paths {
        path.sent_bps = rate(path.bytes_sent as f64 * 8.0, seconds);
        path.received_bps = rate(path.bytes_received as f64 * 8.0, seconds);
    }
    paths
}

fn urgent(received: &Received, sent: Option<&Sent>) -> Option<Urgent> {
    let urgent = received.urgent.as_ref()?;
    Some(Urgent {
        messages: urgent.messages,
        sent: sent.map(|sent| sent.urgent_messages),
        messages_per_s: rate(urgent.messages as f64, received.seconds),
        latency_us: urgent.latency_us,
        longest_gap_ms: urgent.longest_gap_ms,
        duplicated: urgent.duplicated,
    })
}

/// The messages that never arrived, except those given up on purpose. Of a load that was cut off, messages still in
/// flight do not count: only gaps before the last arrival do, and only where nothing can fill them any more.
fn lost(plan: &Plan, load: &Counted, sent: &Sent) -> u64 {
    let numbered = load.next > 0;
    let arrived = if numbered { load.unique } else { load.messages };
    let missing = if sent.finished {
        sent.messages.saturating_sub(arrived)
    } else if numbered && !plan.service.is_reliable() {
        load.next.saturating_sub(arrived)
    } else {
        0
    };
    // The other end's counters may have any value.
    missing.saturating_sub(sent.expired.saturating_add(sent.replaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(mode: Mode, size: usize) -> Plan {
        let text = r#"{"mode":"bulk","service":"ru","size":8,"batch":1,"rate":null,"lifetime_ms":null,"replace":false,
            "time_s":1.0,"bytes":null,"reverse":false}"#;
        Plan { mode, size, ..serde_json::from_str(text).unwrap() }
    }

    #[test]
    fn what_the_other_end_says_is_neither_trusted_to_be_small_nor_shown_as_it_is() {
        let plan = plan(Mode::Mixed, 50);
        let path = PathFigures { bytes_sent: u64::MAX, bytes_received: u64::MAX, ..PathFigures::default() };
        let mut hostile = serde_json::to_value(&path).unwrap();
        for text in ["state", "local", "remote", "congestion_phase"] {
            hostile[text] = "\u{9b}2J\u{1b}]0;owned\u{7}\u{202e}".into();
        }
        let path: PathFigures = serde_json::from_value(hostile).unwrap();
        let most = u64::MAX;
        let paths = vec![path];
        let sent =
            Sent { messages: most, expired: most, replaced: most, paths: paths.clone(), ..Sent::default() };
        let received = Received { paths, urgent: Some(Counted::default()), ..Received::default() };
        let heard = Heard { received: Some(&received), sent: Some(&sent), ..Heard::default() };
        let document = serde_json::to_string(&Document::new(&plan, heard, None)).unwrap();
        assert!(!document.contains(PeerText::is_unsafe), "{}", document.escape_debug());
    }

    #[test]
    fn what_was_never_heard_is_null() {
        let plan = plan(Mode::Bulk, 50);
        let said = ["mode", "service", "size", "reverse", "complete", "ended", "latency_kind"];
        let document = serde_json::to_value(Document::failed(&plan, EarlyEnd::Interrupted)).unwrap();
        for (name, value) in document.as_object().unwrap() {
            assert_eq!(value.is_null(), !said.contains(&name.as_str()), "{name}: {value}");
        }
        let sent = Sent::default();
        let heard = Heard { sent: Some(&sent), ..Heard::default() };
        let document = serde_json::to_value(Document::new(&plan, heard, None)).unwrap();
        assert_eq!((&document["expired"], &document["paths"]), (&0.into(), &serde_json::json!([])));
        for name in ["lost", "messages", "sink_paths", "cpu_s", "longest_gap_ms"] {
            assert!(document[name].is_null(), "{name}: {document}");
        }
    }

    #[test]
    fn the_reason_for_no_latency_is_the_one_that_holds() {
        let (short, long) = (plan(Mode::Messages, 8), plan(Mode::Messages, 50));
        for (plan, messages, one_clock, why) in [
            (&short, Some(5), Some(false), "do not carry the time"),
            (&short, Some(5), Some(true), "do not carry the time"),
            (&long, Some(5), Some(false), "share no clock"),
            (&long, Some(0), Some(false), "nothing arrived"),
            (&long, None, None, "the receiver did not report"),
            (&long, Some(5), None, "figures did not arrive"),
        ] {
            let said = why_no_latency(plan, messages, one_clock);
            assert!(said.contains(why), "{said}");
        }
    }
}
