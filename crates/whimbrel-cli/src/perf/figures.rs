//! The figures: what each end counted, and the document made of both.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use whimbrel::{Mocket, PathStats, PeerText, Totals};
use whimbrel_link::Histogram;

use super::ending::Cut;
use super::plan::{Mode, Plan};
use super::stamp::STAMP;

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
    #[serde(deserialize_with = "escaped")]
    pub(super) state: String,
    /// Data goes here first.
    pub(super) primary: bool,
    #[serde(deserialize_with = "escaped_if_any")]
    pub(super) local: Option<String>,
    #[serde(deserialize_with = "escaped")]
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
    #[serde(deserialize_with = "escaped")]
    pub(super) congestion_phase: String,
}

/// Words of the other end, as they may be shown.
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
    /// The two ends share a clock.
    OneWay,
    /// They do not, and messages were sent back.
    HalfRoundTrip,
    /// They do not, or messages are too short to carry the time, or none came.
    Unknown,
}

/// What was heard of both ends. None: never heard.
#[derive(Clone, Copy, Default)]
pub(super) struct Heard<'a> {
    pub(super) received: Option<&'a Received>,
    /// The sink's last words before the end came early.
    pub(super) progress: Option<&'a Interval>,
    pub(super) sent: Option<&'a Sent>,
    /// Both ends read one clock.
    pub(super) one_clock: Option<bool>,
}

/// The document of a whole measurement. None is what was never heard.
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
    /// What went wrong, where something did: as on standard error.
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
    /// Of a message and its echo, where there are echoes.
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
    /// Of both ends' processes.
    pub(super) cpu_s: Option<f64>,
    pub(super) cpu_source_s: Option<f64>,
    pub(super) cpu_sink_s: Option<f64>,
    /// As the source sees them.
    pub(super) paths: Option<Vec<PathFigures>>,
    /// As the sink sees them.
    pub(super) sink_paths: Option<Vec<PathFigures>>,
    pub(super) urgent: Option<Urgent>,
}

/// The urgent messages of mixed mode.
#[derive(Serialize, Clone, Debug)]
pub(super) struct Urgent {
    pub(super) messages: u64,
    pub(super) sent: Option<u64>,
    pub(super) messages_per_s: f64,
    pub(super) latency_us: Option<Latency>,
    pub(super) longest_gap_ms: f64,
    pub(super) duplicated: u64,
}

/// So many in so many seconds.
fn rate(count: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

impl Document {
    /// From what both ends have counted, as far as it was heard.
    pub(super) fn new(plan: &Plan, heard: Heard<'_>, ended: Option<Cut>) -> Self {
        let Heard { received, progress, sent, .. } = heard;
        let load = received.map(|received| &received.load);
        let seconds = received.map(|received| received.seconds).or(progress.map(|last| last.to_s));
        let per_second = |count: f64| seconds.map(|seconds| rate(count, seconds));
        let bytes = load.map(|load| load.bytes).or(progress.map(|last| last.total_bytes));
        let messages = load.map(|load| load.messages).or(progress.map(|last| last.total_messages));
        let one_way = load.map_or(progress.and_then(|last| last.latency_us), |load| load.latency_us);
        let half = sent.and_then(|sent| sent.round_trip_us).map(Latency::halved);
        // The path most is sent on stands for all.
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

    /// Of a measurement that did not come to be, or was not to be.
    pub(super) fn failed(plan: &Plan, why: Cut) -> Self {
        Self::new(plan, Heard::default(), Some(why))
    }

    /// Something was heard of what arrived or of what was sent.
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
        (None, _) => "nothing was heard of what arrived",
        (Some(0), _) => "nothing arrived",
        _ if plan.size < STAMP => "messages of less than 16 bytes do not carry the time",
        (_, Some(false)) => "the two ends share no clock",
        _ => "its figures were not heard",
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
    // What the other end counted may be anything.
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
        let document = serde_json::to_value(Document::failed(&plan, Cut::Interrupted)).unwrap();
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
            (&long, None, None, "nothing was heard"),
            (&long, Some(5), None, "figures were not heard"),
        ] {
            let said = why_no_latency(plan, messages, one_clock);
            assert!(said.contains(why), "{said}");
        }
    }
}
