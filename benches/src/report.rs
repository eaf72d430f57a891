//! The report of all measurements, for people and for programs.

use std::fmt;

use serde::Serialize;

use crate::job::Workload;
use crate::meter::Figures;

/// All measurements. [`Display`](fmt::Display) writes a table of medians and spreads.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) trials: usize,
    pub(crate) seconds: f64,
    pub(crate) threads: bool,
    pub(crate) pinned: bool,
    pub(crate) rows: Vec<Row>,
}

/// The trials of one peer with one workload.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) peer: &'static str,
    pub(crate) workload: Workload,
    /// One entry for each trial that succeeded.
    pub(crate) figures: Vec<Figures>,
    /// One reason for each trial that failed.
    pub(crate) failures: Vec<String>,
}

impl Row {
    pub(crate) fn new(peer: &'static str, workload: Workload) -> Self {
        Self { peer, workload, figures: Vec::new(), failures: Vec::new() }
    }

    /// Describes the last trial in one line.
    pub(crate) fn latest(&self) -> String {
        let (unit, value) = self.scale();
        match (self.figures.last(), self.failures.last()) {
            (Some(figures), _) => {
                format!("{} {}: {:.2} {unit}", self.peer, self.workload.name(), value(figures))
            }
            (None, failure) => format!("{} {}: {failure:?}", self.peer, self.workload.name()),
        }
    }

    fn scale(&self) -> (&'static str, fn(&Figures) -> f64) {
        match self.workload {
            Workload::Bulk => ("Gbit/s", |figures| figures.bits_per_s / 1e9),
            Workload::Latency => ("µs", |figures| figures.rtt_us_p50),
            _ => ("M messages/s", |figures| figures.messages_per_s / 1e6),
        }
    }

    fn sorted(&self, value: fn(&Figures) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.figures.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, value) = self.scale();
        write!(f, "| {} | {} | {unit} ", self.workload.name(), self.peer)?;
        let values = self.sorted(value);
        match (values.first(), values.get(values.len() / 2), values.last()) {
            (Some(low), Some(median), Some(high)) => write!(f, "| {median:.2} | {low:.2} to {high:.2} |")?,
            _ => f.write_str("| | |")?,
        }
        let lost = self.sorted(|figures| figures.lost);
        let lost = lost.get(lost.len() / 2).filter(|lost| **lost > 0.0);
        let mut notes: Vec<String> =
            lost.map(|lost| format!("{:.1} % lost", lost * 100.0)).into_iter().collect();
        notes.extend(self.failures.last().map(|reason| format!("{} failed: {reason}", self.failures.len())));
        write!(f, " {} |", notes.join("; "))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runtime = if self.threads { "multi-threaded" } else { "current-thread" };
        let place = if self.pinned { "one core per side" } else { "not pinned" };
        writeln!(f, "{} trials of {} s, interleaved; tokio {runtime}, {place}", self.trials, self.seconds)?;
        writeln!(f, "\n| workload | peer | unit | median | spread | notes |\n|---|---|---|---|---|---|")?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}
