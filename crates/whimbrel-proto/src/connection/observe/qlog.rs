//! A recording of a connection in the qlog 0.3 format: JSON text sequences (RFC 7464), which qlog viewers open.
//!
//! Events and frames that qlog defines are used where they fit. Other events have a name that begins with
//! `whimbrel:`. Other frames have type `unknown`, with Whimbrel's block number. Packet numbers count per path, and
//! every event names its path.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use super::record_fields::Fields;
use crate::connection::control::control_queue::ControlBlock;
use crate::connection::packet::sent_block::SentBlock;
use crate::recovery::LossTrigger;
use crate::session::Carried;
use crate::wire::block;
use crate::wire::sack::Sack;
use crate::{ConnectionId, PathId, Side, Time};

/// The character that begins each record.
const BEGIN: char = '\u{1e}';
/// The size at which an unfetched recording stops growing, bytes. Later records are dropped.
const MOST_WAITING: usize = 4 << 20;

/// The most frames of a packet that are recorded.
const MOST_FRAMES: usize = 64;

/// The records that wait to be fetched.
#[derive(Debug)]
pub(in crate::connection) struct Qlog {
    text: String,
    began: Time,
    dropped: u64,
}

/// A packet in qlog's terms.
pub(super) struct Packet<'a> {
    pub(super) path: PathId,
    pub(super) number: u64,
    pub(super) size: usize,
    /// The frames as JSON, separated by commas.
    pub(super) frames: &'a str,
}

/// Metrics of a path, which change all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Metrics {
    pub(super) min_rtt: Duration,
    pub(super) smoothed_rtt: Duration,
    pub(super) latest_rtt: Duration,
    pub(super) window: u64,
    pub(super) in_flight: u64,
    pub(super) pacing_rate: u64,
}

impl Qlog {
    pub(super) fn new(now: Time, side: Side, id: ConnectionId) -> Self {
        let vantage_point = match side {
            Side::Client => "client",
            Side::Server => "server",
        };
        let mut text = String::new();
        text.push(BEGIN);
        // Writing to a string cannot fail.
        writeln!(
            text,
            r#"{{"qlog_version":"0.3","qlog_format":"JSON-SEQ","title":"whimbrel","trace":{{"vantage_point":{{"type":"{vantage_point}"}},"common_fields":{{"group_id":"{:016x}","protocol_type":["WHIMBREL"],"time_format":"relative","reference_time":0}}}}}}"#,
            id.0
        )
        .ok();
        Self { text, began: now, dropped: 0 }
    }

    /// Takes the records since the last call.
    pub(super) fn take(&mut self) -> Option<String> {
        (!self.text.is_empty()).then(|| std::mem::take(&mut self.text))
    }

    /// Appends a record. `data` is the inside of a JSON object.
    pub(super) fn event(&mut self, now: Time, name: &str, data: std::fmt::Arguments<'_>) {
        if self.text.len() >= MOST_WAITING {
            self.dropped += 1;
            return;
        }
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            self.event(now, "whimbrel:records_dropped", format_args!(r#""count":{dropped}"#));
        }
        self.text.push(BEGIN);
        let time = now.since(self.began).as_secs_f64() * 1e3;
        writeln!(self.text, r#"{{"time":{time:.3},"name":"{name}","data":{{{data}}}}}"#).ok();
    }

    /// Appends a record whose fields are written by `fill`.
    pub(super) fn record(&mut self, now: Time, name: &str, fill: impl FnOnce(&mut Fields<'_>)) {
        let mut text = String::new();
        fill(&mut Fields::new(&mut text));
        self.event(now, name, format_args!("{text}"));
    }

    pub(super) fn started(&mut self, now: Time, local: Option<std::net::IpAddr>, remote: SocketAddr) {
        let local = local.map_or_else(|| "unspecified".to_owned(), |local| local.to_string());
        let (ip, port) = (remote.ip(), remote.port());
        self.event(
            now,
            "connectivity:connection_started",
            format_args!(r#""src_ip":"{local}","dst_ip":"{ip}","dst_port":{port},"protocol":"WHIMBREL""#),
        );
    }

    pub(super) fn packet(&mut self, now: Time, name: &str, packet: &Packet<'_>) {
        let Packet { path, number, size, frames } = packet;
        self.event(
            now,
            name,
            format_args!(
                r#""header":{{"packet_type":"1RTT","packet_number":{number}}},"raw":{{"length":{size}}},"path":{},"frames":[{frames}]"#,
                path.0
            ),
        );
    }

    pub(super) fn lost(&mut self, now: Time, path: PathId, number: u64, trigger: LossTrigger) {
        let trigger = match trigger {
            LossTrigger::Acknowledgement => "reordering_threshold",
            LossTrigger::Deadline => "time_threshold",
        };
        self.event(
            now,
            "recovery:packet_lost",
            format_args!(
                r#""header":{{"packet_type":"1RTT","packet_number":{number}}},"trigger":"{trigger}","path":{}"#,
                path.0
            ),
        );
    }

    pub(super) fn metrics(&mut self, now: Time, path: PathId, metrics: &Metrics) {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        self.event(
            now,
            "recovery:metrics_updated",
            format_args!(
                r#""min_rtt":{:.3},"smoothed_rtt":{:.3},"latest_rtt":{:.3},"congestion_window":{},"bytes_in_flight":{},"pacing_rate":{},"path":{}"#,
                millis(metrics.min_rtt),
                millis(metrics.smoothed_rtt),
                millis(metrics.latest_rtt),
                metrics.window,
                metrics.in_flight,
                metrics.pacing_rate.saturating_mul(8),
                path.0
            ),
        );
    }
}

/// The frames of a packet as JSON, separated by commas. Equal ones in a row are written once, and at most
/// [`MOST_FRAMES`] are written, since a peer can put a thousand into one packet.
#[derive(Debug, Default)]
pub(super) struct Frames {
    text: String,
    count: usize,
    /// The type of the last frame, if equal ones may follow, and how many have followed.
    last: Option<(u8, usize)>,
}

impl Frames {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        (self.count, self.last) = (0, None);
    }

    /// Returns all frames of the packet.
    pub(super) fn end(&mut self) -> &str {
        self.tell_repeated();
        &self.text
    }

    /// Appends a sent block.
    pub(super) fn push_sent(&mut self, sent: &SentBlock) {
        match sent {
            SentBlock::Sack(largest) => {
                self.push(None, |text| {
                    write!(text, r#"{{"frame_type":"ack","acked_ranges":[[0,{largest}]]}}"#)
                });
            }
            SentBlock::SackOf(path, largest) => self.push(None, |text| {
                write!(text, r#"{{"frame_type":"ack","acked_ranges":[[0,{largest}]],"path":{}}}"#, path.0)
            }),
            SentBlock::MtuProbe(size) => {
                self.push(None, |text| write!(text, r#"{{"frame_type":"padding","payload_length":{size}}}"#));
            }
            SentBlock::Answer => self.push_kind(block::PROBE_ACK, "PROBE_ACK"),
            SentBlock::ControlBlock(control) => {
                let (kind, name) = control_kind(control);
                self.push_kind(kind, name);
            }
            SentBlock::Session(carried) => {
                let kind = carried_kind(carried);
                self.push_kind(kind, block::name(kind));
            }
        }
    }

    /// Appends a received block, of which only the type is known here.
    pub(super) fn push_received(&mut self, kind: u8) {
        self.push_kind(kind, block::name(kind));
    }

    /// Appends a received SACK.
    pub(super) fn push_sack(&mut self, sack: &Sack) {
        self.push(None, |text| {
            text.push_str(r#"{"frame_type":"ack","acked_ranges":["#);
            for (at, range) in sack.ranges.iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                write!(text, "{comma}[{},{}]", range.start(), range.end())?;
            }
            write!(text, r#"],"path":{}}}"#, sack.path)
        });
    }

    fn push_kind(&mut self, kind: u8, name: &str) {
        self.push(Some(kind), |text| match kind {
            block::PADDING => text.write_str(r#"{"frame_type":"padding","payload_length":0}"#),
            block::KEEP_ALIVE => text.write_str(r#"{"frame_type":"ping"}"#),
            block::PROBE => text.write_str(r#"{"frame_type":"path_challenge"}"#),
            block::PROBE_ACK => text.write_str(r#"{"frame_type":"path_response"}"#),
            kind => unknown(text, kind, name),
        });
    }

    fn push(&mut self, kind: Option<u8>, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        if let (Some(kind), Some((last, repeated))) = (kind, &mut self.last)
            && *last == kind
        {
            *repeated += 1;
            return;
        }
        self.tell_repeated();
        self.last = kind.map(|kind| (kind, 0));
        self.count += 1;
        if self.count > MOST_FRAMES {
            return;
        }
        self.separate();
        // Writing to a string cannot fail.
        write(&mut self.text).ok();
    }

    /// Notes how many frames like the last one followed it.
    fn tell_repeated(&mut self) {
        if let Some((kind, repeated)) = self.last.take()
            && repeated > 0
            && self.count <= MOST_FRAMES
        {
            self.separate();
            let more = format_args!(
                r#"{{"frame_type":"unknown","raw_frame_type":{kind},"whimbrel":"and {repeated} more"}}"#
            );
            self.text.write_fmt(more).ok();
        }
    }

    fn separate(&mut self) {
        if !self.text.is_empty() {
            self.text.push(',');
        }
    }
}

fn unknown(frames: &mut String, kind: u8, name: &str) -> std::fmt::Result {
    write!(frames, r#"{{"frame_type":"unknown","raw_frame_type":{kind},"whimbrel":"{name}"}}"#)
}

fn control_kind(control: &ControlBlock) -> (u8, &'static str) {
    match control {
        ControlBlock::Fin => (block::FIN, "FIN"),
        ControlBlock::FinAck => (block::FIN_ACK, "FIN_ACK"),
        ControlBlock::KeepAlive => (block::KEEP_ALIVE, "KEEP_ALIVE"),
        // A notice of IDs, paths or addresses.
        ControlBlock::Notice(_) => (block::NEW_CID, "notice"),
        ControlBlock::Ticket(_) => (block::TICKET, "TICKET"),
        ControlBlock::SetPrimary(_) => (block::SET_PRIMARY, "SET_PRIMARY"),
    }
}

fn carried_kind(carried: &Carried) -> u8 {
    match carried {
        Carried::Run { .. } | Carried::Fragment { .. } | Carried::Bytes { .. } => block::DATA,
        Carried::Skip { .. } => block::SKIP,
        Carried::SkipAck { .. } | Carried::Verdict { .. } => block::SKIP_ACK,
        Carried::Taken { .. } => block::TAKEN,
        Carried::MaxStreamData { .. } => block::MAX_STREAM_DATA,
        Carried::MaxStreams => block::MAX_STREAMS,
        Carried::Reset { .. } => block::RESET,
        Carried::Stop { .. } => block::STOP,
        Carried::End { .. } => block::END,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer's packet once took 35 times its length in the recording.
    #[test]
    fn regression_equal_frames_are_written_once_and_many_are_left_out() {
        for kind in [block::KEEP_ALIVE, block::MAX_STREAMS, 200] {
            let mut frames = Frames::default();
            (0..1440).for_each(|_| frames.push_received(kind));
            let text = frames.end().to_owned();
            assert!(text.len() < 200 && text.contains("and 1439 more"), "{text}");
        }
        let mut frames = Frames::default();
        (0..1440).for_each(|at| frames.push_received([block::KEEP_ALIVE, block::PROBE][at % 2]));
        assert_eq!(frames.end().matches("frame_type").count(), MOST_FRAMES);
        frames.clear();
        frames.push_received(block::KEEP_ALIVE);
        frames.push_received(block::DATA);
        assert_eq!(
            frames.end(),
            r#"{"frame_type":"ping"},{"frame_type":"unknown","raw_frame_type":0,"whimbrel":"DATA"}"#
        );
    }

    #[test]
    fn a_recording_that_nobody_fetches_ends_and_says_so() {
        let mut qlog = Qlog::new(Time::ZERO, Side::Client, ConnectionId(7));
        for number in 0..100_000 {
            qlog.lost(Time::ZERO, PathId(0), number, LossTrigger::Deadline);
        }
        let first = qlog.take().unwrap();
        assert!(first.len() < MOST_WAITING + 1000, "{}", first.len());
        qlog.lost(Time::ZERO, PathId(0), 1, LossTrigger::Deadline);
        let dropped = 100_000 - (first.lines().count() - 1);
        assert!(
            qlog.take()
                .unwrap()
                .contains(&format!(r#""whimbrel:records_dropped","data":{{"count":{dropped}}}"#))
        );
    }
}
