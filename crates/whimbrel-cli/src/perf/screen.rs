//! The output for people.

use std::sync::{Mutex, PoisonError};

use whimbrel::Mocket;

use super::ending::EarlyEnd;
use super::figures::{Document, Interval, Latency, LatencyKind};
use super::sink::Audience;
use crate::output::note;
use crate::path_lines::PathLines;
use crate::shown::{bits, count, delay, plural, size};

/// Prints intervals, unless the output is for a program.
pub(super) struct Screen {
    quiet: bool,
    paths: Mutex<PathLines>,
}

impl Screen {
    pub(super) fn new(quiet: bool) -> Self {
        Self { quiet, paths: Mutex::default() }
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
            "{:>7.2} s  {:>14}  {:>13}/s  {:>34}  rtt {:>9}  packets lost lately {:>5.1} %",
            interval.to_s,
            bits(interval.bytes as f64 * 8.0 / seconds),
            count(interval.messages as f64 / seconds),
            interval.latency_us.map_or_else(String::new, brief),
            delay(rtt),
            loss * 100.0
        );
        // A closed output is detected when the result is printed.
        drop(crate::output::print_line(format_args!("{line}")));
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = paths.next(&stats.paths, seconds);
        for line in lines.iter().filter(|_| lines.len() > 1) {
            drop(crate::output::print_line(format_args!("{line}")));
        }
    }
}

impl Audience for Screen {
    async fn interval(&mut self, interval: Interval, mocket: &Mocket) {
        self.show(interval, mocket);
    }
}

/// Formats the result for people.
pub(super) fn summary(document: &Document) -> String {
    let mut lines = vec![delivered(document), latency(document)];
    if let Some(round_trip) = document.round_trip_us {
        lines.push(format!("round trip         {}", whole(round_trip)));
    }
    if let Some(urgent) = &document.urgent {
        let latency = urgent.latency_us.map_or_else(String::new, whole);
        let sent = known(urgent.sent, |sent| sent.to_string());
        lines.push(format!("{} of {sent} urgent messages   {latency}", urgent.messages));
    }
    lines.push(format!(
        "longest gap {}; messages lost {}, duplicated {}, out of order {}, expired {}, replaced {}",
        known(document.longest_gap_ms, |gap| format!("{gap:.1} ms")),
        number(document.lost),
        number(document.duplicated),
        number(document.out_of_order),
        number(document.expired),
        number(document.replaced)
    ));
    lines.push(format!(
        "sent {} on the wire in {}, packets lost {}; retransmitted {}, repeated {}; rtt {}",
        known(document.wire_bytes_sent, size),
        known(document.packets_sent, |packets| plural(packets, "packet")),
        known(document.loss, |loss| format!("{:.2} %", loss * 100.0)),
        number(document.retransmitted),
        number(document.repeated),
        known(document.rtt_us, delay)
    ));
    lines.push(format!(
        "processor time: source {}, sink {}",
        known(document.cpu_source_s, seconds),
        known(document.cpu_sink_s, seconds)
    ));
    lines.join("\n")
}

fn delivered(document: &Document) -> String {
    let Some((bytes, took)) = document.bytes.zip(document.seconds) else {
        return "what arrived is not known".to_owned();
    };
    format!(
        "{} in {took:.2} s: {}, {} ({}/s)",
        size(bytes),
        known(document.goodput_bps, bits),
        known(document.messages, |messages| plural(messages, "message")),
        known(document.messages_per_s, count)
    )
}

fn latency(document: &Document) -> String {
    match (document.latency_us, document.latency_kind) {
        (Some(latency), LatencyKind::OneWay) => format!("latency, one way   {}", whole(latency)),
        (Some(latency), _) => format!("latency, half of a round trip   {}", whole(latency)),
        (None, _) => format!("latency unknown: {}", document.no_latency),
    }
}

/// Shows a value that was never received as unknown.
fn known<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), show)
}

fn number(value: Option<u64>) -> String {
    known(value, |value| value.to_string())
}

fn seconds(value: f64) -> String {
    format!("{value:.2} s")
}

/// Prints the result in the form wanted.
pub(super) fn print(document: &Document, json: bool) -> anyhow::Result<()> {
    if json {
        return crate::output::print_line(format_args!("{}", serde_json::to_string_pretty(document)?));
    }
    if !document.has_figures() {
        // Any other reason is reported as an error.
        if document.ended == Some(EarlyEnd::Interrupted) {
            note("interrupted before the other end had answered");
        }
        return Ok(());
    }
    if let Some(why) = &document.ended {
        note(format_args!("ended early: {why}"));
    }
    crate::output::print_line(format_args!("{}", summary(document)))
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
