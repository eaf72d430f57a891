//! What people see.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use whimbrel::{Mocket, PathId, PathStats};

use super::figures::{Document, Interval, Latency, LatencyKind};
use super::sink::Audience;
use crate::output::note;

/// Prints intervals, unless a program is to read the output.
pub(super) struct Screen {
    quiet: bool,
    /// Bytes that each path had carried, both ways, when it was shown last.
    carried: Mutex<BTreeMap<PathId, u64>>,
}

impl Screen {
    pub(super) fn new(quiet: bool) -> Self {
        Self { quiet, carried: Mutex::default() }
    }

    pub(super) fn show(&self, interval: Interval, mocket: &Mocket) {
        if self.quiet {
            return;
        }
        let seconds = (interval.to_s - interval.from_s).max(1e-9);
        let stats = mocket.stats().connection;
        let rtt = stats.paths.first().map_or(0.0, |path| path.rtt.as_secs_f64() * 1e6);
        let loss = stats.paths.first().map_or(0.0, |path| path.loss);
        let line = format!(
            "{:>7.2} s  {:>14}  {:>13}/s  {:>34}  rtt {:>9}  loss {:>5.1} %",
            interval.to_s,
            bits(interval.bytes as f64 * 8.0 / seconds),
            count(interval.messages as f64 / seconds),
            interval.latency_us.map_or_else(String::new, brief),
            delay(rtt),
            loss * 100.0
        );
        // Whether anybody reads it is found out when the result is printed.
        drop(crate::output::print_line(format_args!("{line}")));
        self.show_paths(&stats.paths, seconds);
    }

    /// A line a path, where there are several.
    fn show_paths(&self, paths: &[PathStats], seconds: f64) {
        let mut carried = self.carried.lock().unwrap_or_else(PoisonError::into_inner);
        let now: BTreeMap<PathId, u64> =
            paths.iter().map(|path| (path.id, path.sent_bytes + path.received_bytes)).collect();
        let since = |path: &PathStats| now[&path.id] - carried.get(&path.id).copied().unwrap_or(0);
        let all: u64 = paths.iter().map(since).sum();
        for path in paths.iter().filter(|_| paths.len() > 1) {
            let line = path_line(path, since(path), all, seconds);
            drop(crate::output::print_line(format_args!("{line}")));
        }
        *carried = now;
    }
}

/// One path: where, how it stands, and what it carried of all in this interval.
fn path_line(path: &PathStats, bytes: u64, all: u64, seconds: f64) -> String {
    let local = path.local.map_or_else(|| "?".to_owned(), |local| local.to_string());
    let state = format!("{:?}{}", path.state, if path.primary { ", primary" } else { "" }).to_lowercase();
    format!(
        "{:>12} {local} - {}  {state}  {}  {:.0} % of traffic  cwnd {}  rtt {}  loss {:.1} %",
        format!("path {}", path.id.0),
        path.remote,
        bits(bytes as f64 * 8.0 / seconds),
        bytes as f64 * 100.0 / all.max(1) as f64,
        size(path.congestion.window),
        delay(path.rtt.as_secs_f64() * 1e6),
        path.loss * 100.0
    )
}

impl Audience for Screen {
    async fn interval(&mut self, interval: Interval, mocket: &Mocket) {
        self.show(interval, mocket);
    }
}

/// The result, for people.
pub(super) fn summary(document: &Document) -> String {
    let mut lines = vec![
        format!(
            "{} in {:.2} s: {}, {} ({}/s)",
            size(document.bytes),
            document.seconds,
            bits(document.goodput_bps),
            plural(document.messages, "message"),
            count(document.messages_per_s)
        ),
        match (document.latency_us, document.latency_kind) {
            (Some(latency), LatencyKind::OneWay) => format!("latency, one way   {}", whole(latency)),
            (Some(latency), _) => format!("latency, half of a round trip   {}", whole(latency)),
            (None, _) => "latency unknown: the two ends share no clock".to_owned(),
        },
    ];
    if let Some(round_trip) = document.round_trip_us {
        lines.push(format!("round trip         {}", whole(round_trip)));
    }
    if let Some(urgent) = &document.urgent {
        let latency = urgent.latency_us.map_or_else(String::new, whole);
        lines.push(format!("{} of {} urgent messages   {latency}", urgent.messages, urgent.sent));
    }
    lines.push(format!(
        "longest gap {:.1} ms; lost {}, duplicated {}, out of order {}, expired {}, replaced {}",
        document.longest_gap_ms,
        document.lost,
        document.duplicated,
        document.out_of_order,
        document.expired,
        document.replaced
    ));
    lines.push(format!(
        "sent {} on the wire in {}, {:.2} % lost; retransmitted {}, repeated {}; rtt {}",
        size(document.wire_bytes_sent),
        plural(document.packets_sent, "packet"),
        document.loss * 100.0,
        document.retransmitted,
        document.repeated,
        delay(document.rtt_us)
    ));
    lines.push(format!(
        "processor time: source {:.2} s, sink {:.2} s",
        document.cpu_source_s, document.cpu_sink_s
    ));
    lines.join("\n")
}

/// The result, wherever it is wanted.
pub(super) fn print(document: &Document, json: bool) -> anyhow::Result<()> {
    if let (Some(why), false) = (&document.ended, json) {
        note(format_args!("ended early: {why}"));
    }
    match json {
        true => crate::output::print_line(format_args!("{}", serde_json::to_string_pretty(document)?)),
        false => crate::output::print_line(format_args!("{}", summary(document))),
    }
}

fn brief(latency: Latency) -> String {
    format!("p50 {:>9}  p99 {:>9}", delay(latency.p50), delay(latency.p99))
}

fn whole(latency: Latency) -> String {
    format!(
        "p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
        delay(latency.p50),
        delay(latency.p90),
        delay(latency.p99),
        delay(latency.p999),
        delay(latency.max)
    )
}

fn scaled(value: f64, units: [&str; 4]) -> String {
    match value {
        ..1e3 => format!("{value:.0} {}", units[0]),
        ..1e6 => format!("{:.2} {}", value / 1e3, units[1]),
        ..1e9 => format!("{:.2} {}", value / 1e6, units[2]),
        _ => format!("{:.2} {}", value / 1e9, units[3]),
    }
}

fn bits(per_second: f64) -> String {
    scaled(per_second, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"])
}

fn size(bytes: u64) -> String {
    scaled(bytes as f64, ["B", "kB", "MB", "GB"])
}

fn count(value: f64) -> String {
    match value {
        ..100.0 => format!("{value:.1} msg"),
        _ => scaled(value, ["msg", "k msg", "M msg", "G msg"]),
    }
}

fn plural(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn delay(micros: f64) -> String {
    match micros {
        ..1e3 => format!("{micros:.0} µs"),
        ..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}
