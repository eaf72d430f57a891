//! The seam: what an experiment has to say. One file an experiment; to add one, implement [`Experiment`] and name it in [`all`].

mod blackout;
mod conditions;
mod cross_check;
mod fairness;
mod handover;
mod loopback;
mod loss_matrix;
mod measure;
mod message_latency;
mod mmsp_figures;
mod mmsp_table41;
mod mmsp_table42;
mod mockets_table1;
mod mockets_table2;
mod paths_aggregate;
mod paths_dark;
mod paths_messages;
mod scale;
mod self_test;
mod several;
mod short_transfers;
mod suspend;
mod workspace;

use std::future::Future;
use std::io::Write;
use std::pin::Pin;

use crate::job::Job;
use crate::machine::PeerNote;
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

    /// Where ours falls short of a goal or a peer: what was traced, what was tried; as for [`About::why`].
    fn falls_short(&self) -> Option<&'static str> {
        None
    }

    /// What of it `--time` does not change, and why.
    fn untimed(&self) -> Option<&'static str> {
        None
    }

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

impl Options {
    /// Seconds of a trial: what was asked for, or the experiment's own, whole or shortened.
    pub(crate) fn span(&self, whole: f64, quick: f64) -> f64 {
        self.seconds.unwrap_or(if self.quick { quick } else { whole })
    }
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
    pub(crate) fn new(condition: impl Into<String>, peer: impl Into<String>, cost: Cost) -> Self {
        Self { condition: condition.into(), peer: peer.into(), cost }
    }

    /// The table that a condition stands in, and its row there.
    pub(crate) fn place(condition: &str) -> (&str, &str) {
        condition.split_once(": ").unwrap_or(("", condition))
    }
}

/// What a trial takes of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cost {
    /// Some messages a second, or now and then a burst.
    Sparse,
    /// Links that carry so many Mbit/s in all.
    Carries(f64),
    /// Whole processors: one at a time.
    Heavy,
}

impl Cost {
    /// A light trial: others are measured by it.
    pub(crate) const LIGHT: Self = Self::Carries(4.0);

    /// Percent of a core that it takes, both hosts and the link together, as found for ours, QUIC and TCP on the machine of the report:
    /// 8 % for 4 Mbit/s, 18 % for 20, 50 % for 182, more than one core for 600. None: all there is.
    pub(crate) fn share(self) -> Option<f64> {
        match self {
            Self::Sparse => Some(2.0),
            Self::Carries(mbits) => Some(4.0 * mbits.sqrt()),
            Self::Heavy => None,
        }
    }
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
    /// Whether it says `ok` or `OUT` instead of a figure: a trial that is out has failed.
    pub(crate) verdict: bool,
    /// Which of the [`Metrics`] says how far the peers of a condition may be apart, if they should have the same.
    pub(crate) alike: Option<&'static str>,
}

impl Column {
    /// Of which less is better.
    pub(crate) fn lower(metric: &'static str, title: &'static str, digits: usize) -> Self {
        Self { better: Some(Better::Lower), ..Self::neutral(metric, title, digits) }
    }

    /// Of which more is better.
    pub(crate) fn higher(metric: &'static str, title: &'static str, digits: usize) -> Self {
        Self { better: Some(Better::Higher), ..Self::neutral(metric, title, digits) }
    }

    /// Of which neither is.
    pub(crate) fn neutral(metric: &'static str, title: &'static str, digits: usize) -> Self {
        Self { metric, title, digits, better: None, verdict: false, alike: None }
    }

    /// Of which two peers should have the same, give or take what the other figure says.
    pub(crate) fn alike(
        metric: &'static str,
        title: &'static str,
        digits: usize,
        allowed: &'static str,
    ) -> Self {
        Self { alike: Some(allowed), ..Self::neutral(metric, title, digits) }
    }

    /// `ok` where no trial has failed, else `OUT`.
    pub(crate) fn verdict(metric: &'static str, title: &'static str) -> Self {
        Self { verdict: true, ..Self::neutral(metric, title, 0) }
    }
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
        &conditions::Conditions,
        &paths_aggregate::PathsAggregate,
        &paths_dark::PathsDark,
        &paths_messages::PathsMessages,
        &handover::Handover,
        &suspend::Suspend,
        &mmsp_table41::MmspTable41,
        &mmsp_table42::MmspTable42,
        &mmsp_figures::MmspFigures,
        &loopback::Loopback,
        &scale::Scale,
        &self_test::SelfTest,
        &cross_check::CrossCheck,
    ]
}

/// The few peers that say most.
const FEW: &[&str] = &["whimbrel", "tcp-cubic", "tcp-bbr", "quinn-bbr"];

/// The names of the peers that can do all these jobs, without those whose names begin so, who have no point here; for a quick run the few that say most.
pub(crate) fn peers(options: &Options, jobs: &[Job], without: &[&str]) -> Vec<&'static str> {
    let able = peer::all().iter().filter(|peer| !peer.is_special() && jobs.iter().all(|job| peer.can(job)));
    let names =
        able.map(|peer| peer.name()).filter(|name| !without.iter().any(|start| name.starts_with(start)));
    names.filter(|name| !options.quick || FEW.contains(name)).collect()
}

/// The few that say most, of those that can do all these jobs.
pub(crate) fn few(jobs: &[Job]) -> Vec<&'static str> {
    peers(&Options { quick: true, seconds: None }, jobs, &[])
}

/// As [`peers`], where it says most; elsewhere the few of them that say most.
pub(crate) fn peers_at(most: bool, options: &Options, jobs: &[Job], without: &[&str]) -> Vec<&'static str> {
    peers(&Options { quick: options.quick || !most, ..options.clone() }, jobs, without)
}

/// Prints what there is.
pub(crate) fn list(out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "Experiments (`cargo xtask lab run NAME`):")?;
    for experiment in all() {
        let about = experiment.about();
        writeln!(out, "  {:16} {}\n  {:16} from: {}", experiment.name(), about.title, "", about.source)?;
    }
    writeln!(out, "\nConditions:")?;
    for condition in condition::ALL {
        writeln!(out, "  {:16} {}", condition.name, condition.up)?;
        if condition.down != condition.up {
            writeln!(out, "  {:16} back: {}", "", condition.down)?;
        }
        writeln!(out, "  {:16} from: {}", "", condition.source)?;
    }
    writeln!(out, "\nPeers:")?;
    for peer in peer::all() {
        writeln!(out, "  {:16} {}", peer.name(), peer.settings())?;
        if let Some(missing) = peer.missing() {
            writeln!(out, "  {:16} NOT HERE: {missing}", "")?;
        }
    }
    writeln!(out, "\nEmulators of links, of `cross-check`:")?;
    for PeerNote { name, settings, missing } in PeerNote::of_emulators() {
        writeln!(out, "  {name:16} {settings}")?;
        if let Some(missing) = missing {
            writeln!(out, "  {:16} NOT HERE: {missing}", "")?;
        }
    }
    if let Some(missing) = testbed::missing() {
        writeln!(out, "\nNo links can be made here: {missing}")?;
    }
    Ok(())
}
