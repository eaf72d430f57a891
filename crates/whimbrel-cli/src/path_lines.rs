//! Prints a line for each path periodically: its addresses, its state, and its share of the traffic.

use std::collections::BTreeMap;

use whimbrel::{PathId, PathStats};

use crate::shown::{bits, delay, size};

/// The previous figures, so that rates and shares cover the time since then.
#[derive(Default)]
pub(crate) struct PathLines {
    /// The bytes that each path had carried in both directions.
    carried: BTreeMap<PathId, u64>,
}

impl PathLines {
    /// Describes the paths as they are now, `seconds` after the previous call.
    pub(crate) fn next(&mut self, paths: &[PathStats], seconds: f64) -> Vec<String> {
        let now: Vec<(PathId, u64)> =
            paths.iter().map(|path| (path.id, path.sent_bytes + path.received_bytes)).collect();
        let since = self.since(&now);
        let all: u64 = since.iter().sum();
        paths.iter().zip(since).map(|(path, bytes)| line(path, bytes, all, seconds)).collect()
    }

    /// The bytes that each path carried since the previous call.
    fn since(&mut self, now: &[(PathId, u64)]) -> Vec<u64> {
        // A session that continued over another connection counts its paths from zero again.
        let before = |id: &PathId, carried: u64| self.carried.get(id).copied().filter(|old| *old <= carried);
        let since = now.iter().map(|(id, carried)| carried - before(id, *carried).unwrap_or(0)).collect();
        self.carried = now.iter().copied().collect();
        since
    }
}

/// The path's two addresses.
pub(crate) fn ends(path: &PathStats) -> String {
    let local = path.local.map_or_else(|| "?".to_owned(), |local| local.to_string());
    format!("{local} - {}", path.remote)
}

fn line(path: &PathStats, bytes: u64, all: u64, seconds: f64) -> String {
    let state = format!("{:?}{}", path.state, if path.primary { ", primary" } else { "" }).to_lowercase();
    format!(
        "{:>12} {}  {state}  {}  {:.0} % of traffic  cwnd {}  rtt {}  packets lost lately {:.1} %",
        format!("path {}", path.id.0),
        ends(path),
        bits(bytes as f64 * 8.0 / seconds),
        bytes as f64 * 100.0 / all.max(1) as f64,
        size(path.congestion.window),
        delay(path.rtt.as_secs_f64() * 1e6),
        path.loss * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_carried_since_also_after_another_connection() {
        let mut lines = PathLines::default();
        let (first, second) = (PathId(0), PathId(2));
        assert_eq!(lines.since(&[(first, 500)]), [500]);
        assert_eq!(lines.since(&[(first, 800), (second, 100)]), [300, 100]);
        assert_eq!(lines.since(&[(second, 150)]), [50]);
        assert_eq!(lines.since(&[(first, 40), (second, 30)]), [40, 30]);
    }
}
