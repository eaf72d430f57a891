//! A line for each path, again and again: where it is, how it stands, and its share of the traffic.

use std::collections::BTreeMap;

use whimbrel::{PathId, PathStats};

use crate::shown::{bits, delay, size};

/// What was shown last, so that rates and shares are of the time since.
#[derive(Default)]
pub(crate) struct PathLines {
    /// Bytes that each path had carried, both ways.
    carried: BTreeMap<PathId, u64>,
}

impl PathLines {
    /// The paths as they are now, `seconds` after they were shown last.
    pub(crate) fn next(&mut self, paths: &[PathStats], seconds: f64) -> Vec<String> {
        let now: BTreeMap<PathId, u64> =
            paths.iter().map(|path| (path.id, path.sent_bytes + path.received_bytes)).collect();
        let since = |path: &PathStats| now[&path.id] - self.carried.get(&path.id).copied().unwrap_or(0);
        let all: u64 = paths.iter().map(since).sum();
        let lines = paths.iter().map(|path| line(path, since(path), all, seconds)).collect();
        self.carried = now;
        lines
    }
}

/// From where to where.
pub(crate) fn ends(path: &PathStats) -> String {
    let local = path.local.map_or_else(|| "?".to_owned(), |local| local.to_string());
    format!("{local} - {}", path.remote)
}

fn line(path: &PathStats, bytes: u64, all: u64, seconds: f64) -> String {
    let state = format!("{:?}{}", path.state, if path.primary { ", primary" } else { "" }).to_lowercase();
    format!(
        "{:>12} {}  {state}  {}  {:.0} % of traffic  cwnd {}  rtt {}  loss {:.1} %",
        format!("path {}", path.id.0),
        ends(path),
        bits(bytes as f64 * 8.0 / seconds),
        bytes as f64 * 100.0 / all.max(1) as f64,
        size(path.congestion.window),
        delay(path.rtt.as_secs_f64() * 1e6),
        path.loss * 100.0
    )
}
