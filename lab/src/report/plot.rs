//! Pictures that experiments ask for, and how they are drawn from samples.

use super::chart::{Axis, Bar, BarChart, BarGroup, LineChart, Series};
use super::table::Group;
use crate::experiment::Case;
use crate::stats::Spread;

/// A picture of figures or curves.
#[derive(Clone)]
pub(crate) struct Plot {
    title: String,
    kind: Kind,
    x: Axis,
    y: Axis,
    shaded: Option<(f64, f64)>,
}

#[derive(Clone)]
enum Kind {
    /// A figure over a number that differs by condition, with a line and a spread per peer.
    Lines { metric: &'static str, points: Vec<(f64, String)> },
    /// A figure by condition, with a bar and a spread per peer.
    Bars { metric: &'static str, conditions: Vec<String> },
    /// A curve per peer under one condition.
    Curves { curve: &'static str, condition: String },
    /// All curves of one case.
    Sharing { condition: String, peer: String },
}

impl Plot {
    /// Creates a picture of a figure over a number that differs by condition: (x, condition).
    pub(crate) fn lines(title: impl Into<String>, metric: &'static str, points: Vec<(f64, String)>) -> Self {
        Self::new(title, Kind::Lines { metric, points })
    }

    /// Creates a picture of a figure by condition.
    pub(crate) fn bars(title: impl Into<String>, metric: &'static str, conditions: Vec<String>) -> Self {
        Self::new(title, Kind::Bars { metric, conditions })
    }

    /// Creates a picture with one curve per peer.
    pub(crate) fn curves(
        title: impl Into<String>,
        curve: &'static str,
        condition: impl Into<String>,
    ) -> Self {
        Self::new(title, Kind::Curves { curve, condition: condition.into() })
    }

    /// Creates a picture of all curves of one case, such as flows that share a link.
    pub(crate) fn sharing(
        title: impl Into<String>,
        condition: impl Into<String>,
        peer: impl Into<String>,
    ) -> Self {
        Self::new(title, Kind::Sharing { condition: condition.into(), peer: peer.into() })
    }

    fn new(title: impl Into<String>, kind: Kind) -> Self {
        Self { title: title.into(), kind, x: Axis::default(), y: Axis::default(), shaded: None }
    }

    /// Names both axes.
    pub(crate) fn axes(mut self, x: &str, y: &str) -> Self {
        (self.x.label, self.y.label) = (x.to_owned(), y.to_owned());
        self
    }

    /// Makes the y axis logarithmic.
    pub(crate) fn logarithmic(mut self) -> Self {
        self.y.logarithmic = true;
        self
    }

    /// Makes the x axis logarithmic.
    pub(crate) fn logarithmic_x(mut self) -> Self {
        self.x.logarithmic = true;
        self
    }

    /// Makes both axes logarithmic.
    pub(crate) fn logarithmic_both(self) -> Self {
        self.logarithmic().logarithmic_x()
    }

    /// Shades a range of x.
    pub(crate) fn shaded(mut self, from: f64, to: f64) -> Self {
        self.shaded = Some((from, to));
        self
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// Draws the picture as SVG. `None` if there are no samples for it. `limit` returns the physical limit for a
    /// condition and a metric.
    pub(crate) fn draw(
        &self,
        groups: &[Group<'_>],
        limit: &dyn Fn(&str, &str) -> Option<f64>,
    ) -> Option<String> {
        let series = match &self.kind {
            Kind::Bars { metric, conditions } => return self.bar_chart(metric, conditions, groups, limit),
            Kind::Lines { metric, points } => lines(metric, points, groups, limit),
            Kind::Curves { curve, condition } => {
                let mine = groups.iter().filter(|group| group.condition == condition);
                mine.filter_map(|group| merged(group.peer, &group.curves(curve))).collect()
            }
            Kind::Sharing { condition, peer } => {
                let group = groups.iter().find(|group| group.condition == condition && group.peer == peer)?;
                let names = group.curve_names();
                names.iter().filter_map(|name| merged(name, &group.curves(name))).collect()
            }
        };
        let chart = LineChart {
            title: self.title.clone(),
            x: self.x.clone(),
            y: self.y.clone(),
            series,
            shaded: self.shaded,
        };
        chart.series.iter().any(|series| series.points.len() > 1).then(|| chart.svg())
    }

    fn bar_chart(
        &self,
        metric: &str,
        conditions: &[String],
        groups: &[Group<'_>],
        limit: &dyn Fn(&str, &str) -> Option<f64>,
    ) -> Option<String> {
        let group = |condition: &String| {
            let mine = groups.iter().filter(|group| group.condition == condition);
            let bar =
                |group: &Group<'_>| Some(Bar { name: group.peer.to_owned(), spread: group.spread(metric)? });
            BarGroup {
                name: Case::place(condition).1.to_owned(),
                bars: mine.filter_map(bar).collect(),
                limit: limit(condition, metric),
            }
        };
        let chart = BarChart {
            title: self.title.clone(),
            y: self.y.clone(),
            groups: conditions.iter().map(group).filter(|group| !group.bars.is_empty()).collect(),
        };
        (!chart.groups.is_empty()).then(|| chart.svg())
    }
}

fn lines(
    metric: &str,
    points: &[(f64, String)],
    groups: &[Group<'_>],
    limit: &dyn Fn(&str, &str) -> Option<f64>,
) -> Vec<Series> {
    let mut peers: Vec<&str> = Vec::new();
    for group in groups {
        if points.iter().any(|(_, condition)| condition == group.condition) && !peers.contains(&group.peer) {
            peers.push(group.peer);
        }
    }
    let spreads = |peer: &str| -> Vec<(f64, Spread)> {
        let found = |condition: &String| {
            groups.iter().find(|group| group.peer == peer && group.condition == condition)?.spread(metric)
        };
        points.iter().filter_map(|(x, condition)| Some((*x, found(condition)?))).collect()
    };
    let line = |peer: &&str| Series {
        name: (*peer).to_owned(),
        points: spreads(peer).iter().map(|(x, spread)| (*x, spread.median)).collect(),
        band: spreads(peer).iter().map(|(x, spread)| (*x, spread.low, spread.high)).collect(),
        marks: true,
    };
    let mut series: Vec<Series> = peers.iter().map(line).filter(|series| !series.points.is_empty()).collect();
    let bound = points.iter().filter_map(|(x, condition)| Some((*x, limit(condition, metric)?))).collect();
    if !series.is_empty() {
        series.push(Series { name: Series::LIMIT.to_owned(), points: bound, band: Vec::new(), marks: false });
    }
    series
}

/// Merges the curves of several trials: their medians, and their spread where all share their x.
fn merged(name: &str, curves: &[&[(f64, f64)]]) -> Option<Series> {
    let length = curves.iter().map(|curve| curve.len()).min().filter(|length| *length > 0)?;
    let mut series = Series { name: name.to_owned(), points: Vec::new(), band: Vec::new(), marks: false };
    for index in 0..length {
        let x = Spread::of(curves.iter().map(|curve| curve[index].0))?;
        let y = Spread::of(curves.iter().map(|curve| curve[index].1))?;
        series.points.push((x.median, y.median));
        if x.low == x.high {
            series.band.push((x.median, y.low, y.high));
        }
    }
    if series.band.len() < length {
        series.band.clear();
    }
    Some(series)
}
