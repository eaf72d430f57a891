//! Rows whose trials are runs of the program `pubsub` of the benches workspace.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Case, Cost, Options, workspace};
use crate::sample::Metrics;

/// A row: its condition and its peer, and the load that measures it.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) condition: String,
    pub(super) peer: String,
    /// Arguments of the program, separated by spaces.
    load: String,
    /// Arguments that a quick run has in their place. None: a quick run leaves the row out.
    quick: Option<String>,
    /// Seconds of a trial, and of a quick one.
    seconds: (f64, f64),
    cost: Cost,
}

/// The figures of a load, by name. One that is no number is absent.
#[derive(Deserialize)]
struct Figures(BTreeMap<String, Option<f64>>);

impl Point {
    /// A row whose trials take whole processors for so many seconds.
    pub(super) fn new(
        condition: impl Into<String>,
        peer: impl Into<String>,
        load: impl Into<String>,
        seconds: f64,
    ) -> Self {
        let (condition, peer, load) = (condition.into(), peer.into(), load.into());
        Self { condition, peer, load, quick: None, seconds: (seconds, 0.0), cost: Cost::Heavy }
    }

    /// Takes part in a quick run, with these arguments, for so many seconds.
    pub(super) fn quick(self, load: impl Into<String>, seconds: f64) -> Self {
        Self { quick: Some(load.into()), seconds: (self.seconds.0, seconds), ..self }
    }

    /// Its trials are simulated, so several may run at a time.
    pub(super) fn simulated(self) -> Self {
        Self { cost: Cost::Carries(150.0), ..self }
    }
}

/// The rows of all, or those of a quick run.
pub(super) fn cases(points: &[Point], options: &Options) -> Vec<Case> {
    let wanted = points.iter().filter(|point| !options.quick || point.quick.is_some());
    wanted.map(|point| Case::new(&point.condition, &point.peer, point.cost)).collect()
}

fn find<'a>(points: &'a [Point], case: &Case) -> anyhow::Result<&'a Point> {
    let found = points.iter().find(|point| point.condition == case.condition && point.peer == case.peer);
    found.ok_or_else(|| anyhow::anyhow!("there is no such row"))
}

/// Estimates the seconds of a trial.
pub(super) fn seconds(points: &[Point], case: &Case, options: &Options) -> f64 {
    let seconds = find(points, case).map_or((0.0, 0.0), |point| point.seconds);
    if options.quick { seconds.1 } else { seconds.0 }
}

/// Runs a trial. Every figure that the program prints is one of its metrics.
pub(super) async fn trial(
    points: Vec<Point>,
    case: &Case,
    options: &Options,
    seed: Option<u64>,
) -> anyhow::Result<Metrics> {
    let point = find(&points, case)?;
    let load = point.quick.as_ref().filter(|_| options.quick).unwrap_or(&point.load);
    let mut arguments: Vec<String> = load.split(' ').map(str::to_owned).collect();
    if let Some(seed) = seed {
        arguments.extend(["--seed".to_owned(), seed.to_string()]);
    }
    let Figures(figures) = serde_json::from_str(&workspace::run("pubsub", &arguments).await?)?;
    let mut metrics = Metrics::default();
    figures.iter().for_each(|(name, value)| metrics.set(name, value.unwrap_or(f64::NAN)));
    Ok(metrics)
}
