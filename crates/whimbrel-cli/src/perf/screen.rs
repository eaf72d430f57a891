//! What people see.

use std::sync::{Mutex, PoisonError};

use whimbrel::Mocket;

use super::figures::{Document, Interval, Latency, LatencyKind};
use super::sink::Audience;
use crate::output::note;
use crate::path_lines::PathLines;
use crate::shown::{bits, count, delay, plural, size};

/// Prints intervals, unless a program is to read the output.
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
