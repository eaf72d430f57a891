//! The seam: what an experiment has to say. One file an experiment; to add one, implement [`Experiment`] and name it in [`all`].

mod blackout;
mod fairness;
mod loopback;
mod loss_matrix;
mod measure;
mod message_latency;
mod mockets_table1;
mod mockets_table2;
mod scale;
mod self_test;
mod short_transfers;
mod workspace;

use std::future::Future;
use std::pin::Pin;

use crate::job::Job;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::{condition, peer, testbed};

/// One trial under way.
pub(crate) type Trial<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Metrics>> + Send + 'a>>;

/// Something to find out.
pub(crate) trait Experiment: Sync {
    /// Its name, by its source: `mockets-table1`.
    fn name(&self) -> &'static str;

    /// What goes above its tables.
    fn about(&self) -> About;

    /// What is tried: each case is one row of a table. `quick` asks for the few that say most.
    fn cases(&self, options: &Options) -> Vec<Case>;

    /// Runs a case once. Links and peers take their dice from `seed`.
    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a>;

    /// The columns of its tables.
    fn columns(&self) -> Vec<Column>;

    /// What physics leaves, for a condition and a column: stands beside the peers.
    fn limit(&self, condition: &str, metric: &str) -> Option<f64>;

    /// Its links by name, in the words of `whimbrel link`.
    fn links(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Figures that others published, to stand beside.
    fn quoted(&self) -> Vec<Quoted> {
        Vec::new()
    }

    /// What is drawn.
    fn plots(&self) -> Vec<Plot> {
        Vec::new()
    }

    /// About how long a trial takes, seconds. Twice as long and a minute is too long.
    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        let _ = (case, options);
        10.0
    }

    /// Whether it needs a testbed, and so root.
    fn needs_testbed(&self) -> bool {
        true
    }

    /// What has to be done once before the first trial, such as building another program.
    fn prepare(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A figure that others published.
pub(crate) struct Quoted {
    /// Beside which condition.
    pub(crate) condition: &'static str,
    /// Whose.
    pub(crate) peer: &'static str,
    /// In which column.
    pub(crate) metric: &'static str,
    /// The figure.
    pub(crate) value: f64,
}

/// What a reader has to know before the figures.
pub(crate) struct About {
    /// One line.
    pub(crate) title: &'static str,
    /// The paper and table, or the issue, that asks it.
    pub(crate) source: &'static str,
    /// What is measured and how.
    pub(crate) measured: &'static str,
    /// Why the numbers are what they are: written after looking at them, and true of them.
    pub(crate) why: &'static str,
}

/// What the caller of an experiment may choose.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The few cases that say most, and short ones.
    pub(crate) quick: bool,
    /// Seconds of a trial, instead of the experiment's own.
    pub(crate) seconds: Option<f64>,
}

/// A row: a peer under a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// What stands in the first column, such as `4 Mbit/s, 50 ms, 5 %`. What precedes a `: ` names the table it stands in.
    pub(crate) condition: String,
    /// The peer's name.
    pub(crate) peer: String,
    /// What a trial takes of the machine.
    pub(crate) cost: Cost,
}

impl Case {
    /// Of a link of some Mbit/s.
    pub(crate) fn light(condition: impl Into<String>, peer: impl Into<String>) -> Self {
        Self { condition: condition.into(), peer: peer.into(), cost: Cost::Light }
    }

    /// The table that a condition stands in, and its row there.
    pub(crate) fn place(condition: &str) -> (&str, &str) {
        condition.split_once(": ").unwrap_or(("", condition))
    }
}

/// What a trial takes of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Some messages a second: three take the room of a light one.
    Sparse,
    /// A link of some Mbit/s: several at a time do not change a figure.
    Light,
    /// A link of some ten Mbit/s, or several flows: takes the room of two light ones.
    Medium,
    /// Whole processors: one at a time.
    Heavy,
}

/// A column of a table.
pub(crate) struct Column {
    /// Which of the [`Metrics`].
    pub(crate) metric: &'static str,
    /// Its heading, with the unit.
    pub(crate) title: &'static str,
    /// Digits after the point.
    pub(crate) digits: usize,
    /// Which way is better, if either is.
    pub(crate) better: Option<Better>,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// More.
    Higher,
    /// Less.
    Lower,
}

/// All experiments, in the order of the report.
pub(crate) fn all() -> &'static [&'static dyn Experiment] {
    &[
        &mockets_table1::MocketsTable1,
        &mockets_table2::MocketsTable2,
        &loss_matrix::LossMatrix,
        &short_transfers::ShortTransfers,
        &message_latency::MessageLatency,
        &blackout::Blackout,
        &fairness::Fairness,
        &loopback::Loopback,
        &scale::Scale,
        &self_test::SelfTest,
    ]
}

/// The few peers that say most.
const FEW: &[&str] = &["whimbrel", "tcp-cubic", "tcp-bbr", "quinn-bbr"];

/// The names of the peers that can do all these jobs, without those whose names begin so, who have no point here; for a quick run the few that say most.
pub(crate) fn peers(options: &Options, jobs: &[Job], without: &[&str]) -> Vec<&'static str> {
    let able = peer::all().iter().filter(|peer| jobs.iter().all(|job| peer.can(job)));
    let names =
        able.map(|peer| peer.name()).filter(|name| !without.iter().any(|start| name.starts_with(start)));
    names.filter(|name| !options.quick || FEW.contains(name)).collect()
}

/// As [`peers`], where it says most; elsewhere the few of them that say most.
pub(crate) fn peers_at(most: bool, options: &Options, jobs: &[Job], without: &[&str]) -> Vec<&'static str> {
    peers(&Options { quick: options.quick || !most, ..options.clone() }, jobs, without)
}

/// Prints what there is.
pub(crate) fn list() -> anyhow::Result<()> {
    println!("Experiments (`cargo xtask lab run NAME`):");
    for experiment in all() {
        let about = experiment.about();
        println!("  {:16} {}\n  {:16} from: {}", experiment.name(), about.title, "", about.source);
    }
    println!("\nConditions:");
    for condition in condition::ALL {
        println!("  {:16} {}", condition.name, condition.up);
        if condition.down != condition.up {
            println!("  {:16} back: {}", "", condition.down);
        }
        println!("  {:16} from: {}", "", condition.source);
    }
    println!("\nPeers:");
    for peer in peer::all() {
        println!("  {:16} {}", peer.name(), peer.settings());
        if let Some(missing) = peer.missing() {
            println!("  {:16} NOT HERE: {missing}", "");
        }
    }
    if let Some(missing) = testbed::missing() {
        println!("\nNo links can be made here: {missing}");
    }
    Ok(())
}
