//! The interface of an experiment, and all experiments, one file each. To add one, implement [`Experiment`] and name it
//! in [`all`].

mod acm;
mod acm_cot;
mod acm_mobility;
mod acm_overwriting;
mod acm_table1;
mod acm_table2;
mod acm_table3;
mod acm_table4;
mod acm_xml;
mod blackout;
mod churn;
mod conditions;
mod cross_check;
mod durable;
mod fairness;
mod fan_out;
mod frames;
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
mod points;
mod programs;
mod proxy_cost;
mod proxy_outage;
mod proxy_reload;
mod proxy_rivals;
mod random_links;
mod replay;
mod scale;
mod self_test;
mod semi_durable;
mod several;
mod sharing;
mod short_transfers;
mod suspend;
mod workspace;

use std::future::Future;
use std::io::Write;
use std::pin::Pin;

use crate::job::Job;
use crate::machine::PeerNote;
use crate::report::goal::Goal;
use crate::report::plot::Plot;
use crate::sample::{Metrics, Record};
use crate::{carrier, condition, peer, testbed};

/// A trial in progress.
pub(crate) type Trial<'a> = Pin<Box<dyn Future<Output = anyhow::Result<Metrics>> + Send + 'a>>;

/// A question, and the trials that answer it.
pub(crate) trait Experiment: Sync {
    /// Returns its name, after its source: `mockets-table1`.
    fn name(&self) -> &'static str;

    /// Returns the texts of its page.
    fn about(&self) -> About;

    /// Returns its cases, each of which is one row of a table. `quick` asks for the most informative few.
    fn cases(&self, options: &Options) -> Vec<Case>;

    /// Runs a case once. `seed` decides the losses and delays of its links.
    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a>;

    /// Returns the columns of its tables.
    fn columns(&self) -> Vec<Column>;

    /// Returns the physical limit for a condition and a column, which the report shows beside the peers.
    fn limit(&self, condition: &str, metric: &str) -> Option<f64>;

    /// Returns how many trials each case has, if not as many as usual.
    fn trials(&self, options: &Options) -> Option<u64> {
        let _ = options;
        None
    }

    /// Returns the share of the machine that the trial with this seed takes.
    fn cost(&self, case: &Case, seed: u64) -> Cost {
        let _ = seed;
        case.cost
    }

    /// Returns the goals that compare trials of the same seed. The page and the summary say which were met.
    fn goals(&self, record: &Record) -> Vec<Goal> {
        let _ = record;
        Vec::new()
    }

    /// Returns what the page says below its tables, as Markdown: findings that compare trials of the same seed.
    fn findings(&self, record: &Record) -> Vec<String> {
        let _ = record;
        Vec::new()
    }

    /// Says where ours falls short of a goal or a peer, what was found to be the cause, and what was tried. Like
    /// [`About::why`], it is written after looking at the figures.
    fn falls_short(&self) -> Option<&'static str> {
        None
    }

    /// Says what `--time` does not change, and why.
    fn untimed(&self) -> Option<&'static str> {
        None
    }

    /// Returns its links by name, in the syntax of `whimbrel link`.
    fn links(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Returns published figures that the report shows beside its own.
    fn quoted(&self) -> Vec<Quoted> {
        Vec::new()
    }

    /// Returns the pictures to draw.
    fn plots(&self) -> Vec<Plot> {
        Vec::new()
    }

    /// Estimates the seconds of a trial. A trial that takes twice as long and a minute has failed.
    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        let _ = (case, options);
        10.0
    }

    /// Returns whether it needs a testbed, and so root.
    fn needs_testbed(&self) -> bool {
        true
    }

    /// Does what is needed once before the first trial, such as building another program.
    fn prepare(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A published figure.
pub(crate) struct Quoted {
    /// Condition that it belongs to.
    pub(crate) condition: &'static str,
    /// Name of the peer that reached it.
    pub(crate) peer: &'static str,
    /// Column that it belongs to.
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
}

/// Text about an experiment that readers need beside its figures.
pub(crate) struct About {
    /// One line that says what it is about.
    pub(crate) title: &'static str,
    /// The paper and table, or the issue, that asks the question.
    pub(crate) source: &'static str,
    /// Description of the measurement.
    pub(crate) measured: &'static str,
    /// Explanation of the figures. It is written after looking at them, and must be true of them.
    pub(crate) why: &'static str,
}

/// Choices of whoever runs an experiment.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Whether to run only the most informative cases, and shortened.
    pub(crate) quick: bool,
    /// Seconds of a trial, in place of the experiment's own.
    pub(crate) seconds: Option<f64>,
}

impl Options {
    /// Returns the seconds of a trial: those asked for, or else the experiment's own for a whole or a quick run.
    pub(crate) fn span(&self, whole: f64, quick: f64) -> f64 {
        self.seconds.unwrap_or(if self.quick { quick } else { whole })
    }
}

/// A row of a table: a peer under a condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// Text of the first column, such as `4 Mbit/s, 50 ms, 5 %`. The part before `: ` names the table.
    pub(crate) condition: String,
    /// Name of the peer.
    pub(crate) peer: String,
    /// Share of the machine that a trial takes.
    pub(crate) cost: Cost,
}

impl Case {
    pub(crate) fn new(condition: impl Into<String>, peer: impl Into<String>, cost: Cost) -> Self {
        Self { condition: condition.into(), peer: peer.into(), cost }
    }

    /// Splits a condition into the name of its table and its row there.
    pub(crate) fn place(condition: &str) -> (&str, &str) {
        condition.split_once(": ").unwrap_or(("", condition))
    }
}

/// Share of the machine that a trial takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cost {
    /// Some messages a second, or a burst now and then.
    Sparse,
    /// Links that carry this many Mbit/s in all.
    Carries(f64),
    /// Whole processors. Such trials run one at a time.
    Heavy,
}

impl Cost {
    /// A light trial, the unit in which `--parallel` counts.
    pub(crate) const LIGHT: Self = Self::Carries(4.0);

    /// Returns the percentage of a core that a trial takes for both hosts and the link together. `None` means all
    /// cores. The formula follows measurements of ours, QUIC and TCP on the machine of the report. They took 8 % for 4
    /// Mbit/s, 18 % for 20, 50 % for 182, and more than one core for 600.
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
    /// Name of the figure in [`Metrics`].
    pub(crate) metric: &'static str,
    /// Heading, with the unit.
    pub(crate) title: &'static str,
    /// Digits after the decimal point.
    pub(crate) digits: usize,
    /// Direction that is better, if either is.
    pub(crate) better: Option<Better>,
    /// Whether it shows `ok` or `OUT` in place of a figure. A trial that is out has failed.
    pub(crate) verdict: bool,
    /// Figure in [`Metrics`] that says how far apart the peers of a condition may be, if they should agree.
    pub(crate) alike: Option<&'static str>,
}

impl Column {
    /// Creates a column in which less is better.
    pub(crate) fn lower(metric: &'static str, title: &'static str, digits: usize) -> Self {
        Self { better: Some(Better::Lower), ..Self::neutral(metric, title, digits) }
    }

    /// Creates a column in which more is better.
    pub(crate) fn higher(metric: &'static str, title: &'static str, digits: usize) -> Self {
        Self { better: Some(Better::Higher), ..Self::neutral(metric, title, digits) }
    }

    /// Creates a column in which neither direction is better.
    pub(crate) fn neutral(metric: &'static str, title: &'static str, digits: usize) -> Self {
        Self { metric, title, digits, better: None, verdict: false, alike: None }
    }

    /// Creates a column in which two peers should agree to within the figure `allowed`.
    pub(crate) fn alike(
        metric: &'static str,
        title: &'static str,
        digits: usize,
        allowed: &'static str,
    ) -> Self {
        Self { alike: Some(allowed), ..Self::neutral(metric, title, digits) }
    }

    /// Creates a column that shows `ok` where no trial has failed, and `OUT` elsewhere.
    pub(crate) fn verdict(metric: &'static str, title: &'static str) -> Self {
        Self { verdict: true, ..Self::neutral(metric, title, 0) }
    }
}

/// Direction that is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
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
        &frames::Frames,
        &blackout::Blackout,
        &fairness::Fairness,
        &conditions::Conditions,
        &random_links::RandomLinks,
        &sharing::Sharing,
        &paths_aggregate::PathsAggregate,
        &paths_dark::PathsDark,
        &paths_messages::PathsMessages,
        &handover::Handover,
        &suspend::Suspend,
        &mmsp_table41::MmspTable41,
        &mmsp_table42::MmspTable42,
        &mmsp_figures::MmspFigures,
        &acm_table1::AcmTable1,
        &acm_table2::AcmTable2,
        &acm_table3::AcmTable3,
        &acm_table4::AcmTable4,
        &acm_cot::AcmCot,
        &proxy_rivals::ProxyRivals,
        &proxy_outage::ProxyOutage,
        &proxy_reload::ProxyReload,
        &loopback::Loopback,
        &proxy_cost::ProxyCost,
        &scale::Scale,
        &fan_out::FanOut,
        &semi_durable::SemiDurable,
        &replay::Replay,
        &churn::Churn,
        &durable::Durable,
        &acm_mobility::AcmMobility,
        &acm_overwriting::AcmOverwriting,
        &self_test::SelfTest,
        &cross_check::CrossCheck,
    ]
}

/// The most informative peers.
const FEW: &[&str] = &["whimbrel", "tcp-cubic", "tcp-bbr", "quinn-bbr"];

/// Returns the names of the peers that can do all these jobs, or of the most informative ones in a quick run. `without`
/// holds the beginnings of names to leave out, for peers that would show nothing here.
pub(crate) fn peers(options: &Options, jobs: &[Job], without: &[&str]) -> Vec<&'static str> {
    let able = peer::all().iter().filter(|peer| !peer.is_special() && jobs.iter().all(|job| peer.can(job)));
    let names =
        able.map(|peer| peer.name()).filter(|name| !without.iter().any(|start| name.starts_with(start)));
    names.filter(|name| !options.quick || FEW.contains(name)).collect()
}

/// Returns the most informative peers that can do all these jobs.
pub(crate) fn few(jobs: &[Job]) -> Vec<&'static str> {
    peers(&Options { quick: true, seconds: None }, jobs, &[])
}

/// Like [`peers`] if `most`. Elsewhere it returns only the most informative ones.
pub(crate) fn peers_at(most: bool, options: &Options, jobs: &[Job], without: &[&str]) -> Vec<&'static str> {
    peers(&Options { quick: options.quick || !most, ..options.clone() }, jobs, without)
}

/// Prints the experiments, the conditions and the peers.
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
            writeln!(out, "  {:16} missing here: {missing}", "")?;
        }
    }
    writeln!(out, "\nPairs of proxies, for programs that know nothing of them:")?;
    notes(out, &carrier::notes())?;
    writeln!(out, "\nLink emulators that `cross-check` compares:")?;
    notes(out, &PeerNote::of_emulators())?;
    if let Some(missing) = testbed::missing() {
        writeln!(out, "\nNo links can be made here: {missing}")?;
    }
    Ok(())
}

fn notes(out: &mut impl Write, notes: &[PeerNote]) -> anyhow::Result<()> {
    for PeerNote { name, settings, missing } in notes {
        writeln!(out, "  {name:16} {settings}")?;
        if let Some(missing) = missing {
            writeln!(out, "  {:16} missing here: {missing}", "")?;
        }
    }
    Ok(())
}
