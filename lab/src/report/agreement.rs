//! The check that two peers agree where they should.

use std::fmt;

use super::table::{Group, groups};
use crate::experiment::{Column, Experiment};
use crate::sample::Record;

/// The medians of the two peers.
pub(super) struct Agreement {
    peers: [String; 2],
    title: &'static str,
    digits: usize,
    medians: [f64; 2],
    allowed: f64,
}

impl Agreement {
    /// Compares the first two rows of a condition. `None` if the column asks for no comparison, or one of the two is
    /// missing.
    pub(super) fn of(column: &Column, groups: &[&Group<'_>]) -> Option<Self> {
        let allowed = column.alike?;
        let [one, other, ..] = groups else { return None };
        let median = |group: &Group<'_>| Some(group.spread(column.metric)?.median);
        Some(Self {
            peers: [one, other].map(|group| group.peer.to_owned()),
            title: column.title,
            digits: column.digits,
            medians: [median(one)?, median(other)?],
            allowed: one.spread(allowed)?.median,
        })
    }

    pub(super) fn holds(&self) -> bool {
        self.apart() <= self.allowed
    }

    fn apart(&self) -> f64 {
        (self.medians[0] - self.medians[1]).abs()
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { peers: [one, other], title, digits, medians, allowed } = self;
        let percent = |value: f64| 100.0 * value / medians[0].abs();
        let verdict = if self.holds() { "agree" } else { "do **not** agree" };
        let apart = self.apart();
        write!(
            f,
            "{one} and {other} {verdict}: {title} {apart:.digits$} apart ({:.1} %), allowed {allowed:.digits$} ({:.1} %)",
            percent(apart),
            percent(*allowed)
        )
    }
}

/// Returns all comparisons of an experiment, with their conditions.
pub(super) fn all<'a>(experiment: &dyn Experiment, record: &'a Record) -> Vec<(&'a str, Agreement)> {
    let (groups, columns) = (groups(experiment, record), experiment.columns());
    let rows: Vec<&Group<'_>> = groups.iter().collect();
    let together = rows.chunk_by(|one, other| one.condition == other.condition);
    together
        .flat_map(|rows| {
            columns.iter().filter_map(move |column| Some((rows[0].condition, Agreement::of(column, rows)?)))
        })
        .collect()
}
