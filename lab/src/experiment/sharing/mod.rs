//! Flows that share links drawn from a seed.

mod company;
mod findings;

use std::time::Duration;

use super::fairness::{self, FOUR};
use super::measure::{self, together};
use super::random_links::drawn;
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::flow::Flow;
use crate::job::Job;
use crate::report::goal::Goal;
use crate::sample::{Metrics, Record};
use crate::stats::jain;
use crate::testbed::{LinkPlan, Testbed};

pub(crate) struct Sharing;

/// The draws of a whole and of a quick run.
const DRAWS: u64 = 50;
const QUICK_DRAWS: u64 = 1;
/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 60.0;
const QUICK_SPAN: f64 = 3.0;
/// Conditions.
const ALONE: &str = "alone";
const BESIDE_CUBIC: &str = "beside tcp-cubic";
const BESIDE_BBR: &str = "beside tcp-bbr";
/// Peer that the experiment is about.
const OURS: &str = "whimbrel";
/// A peer, and the flows that it shares the link with. The peers of today among themselves show what a link allows.
const CASES: [(&str, &str); 8] = [
    (OURS, ALONE),
    ("tcp-cubic", ALONE),
    ("tcp-bbr", ALONE),
    (OURS, BESIDE_CUBIC),
    (OURS, BESIDE_BBR),
    (OURS, FOUR),
    ("tcp-bbr", BESIDE_CUBIC),
    ("tcp-cubic", FOUR),
];
/// Names of figures, in Mbit/s: the goodput of the flow that the case is about, the least and the sum of all flows, and
/// the fair share of each. Then the least in percent of that.
const OWN: &str = "own";
const LEAST: &str = "least";
const SUM: &str = "sum";
const FAIR: &str = "fair";
const OF_FAIR: &str = "of_fair";
const JAIN: &str = "jain";

/// Returns the peers of all flows in a condition. The peer that the case is about comes first.
fn sharers<'a>(condition: &'a str, peer: &'a str) -> Vec<&'a str> {
    if condition == ALONE { vec![peer] } else { fairness::sharers(condition, peer) }
}

impl Experiment for Sharing {
    fn name(&self) -> &'static str {
        "sharing"
    }

    fn about(&self) -> About {
        About {
            title: "Sharing links drawn from a seed",
            source: "the goals of the transport's issue on hard links. Each flow gets at least a third of what it could expect. Among \
                     four of ours, Jain's index (Jain, Chiu, Hawe 1984) is at least 0.9 at the worst and 0.97 in the median",
            measured: "A draw is a link, as in `random-links`. On each, bulk flows begin together and run for 60 s. Goodput is the payload \
                       that a receiver has read in that time. What is fair is what the draw leaves to an ideal sender, divided \
                       by the number of flows. A flow can expect the smaller of that and of what it reaches alone on the same \
                       draw, which the findings use. There a failed trial counts as 0, and draws on which a flow failed alone are left out. The spread is that of the draws.",
            why: "On a link that we choose ourselves, we measure what we tuned for. A draw may lose packets that no flow has caused, \
                  reorder them, or change its rate. A sender that takes that for congestion gives way to one that does not.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let wanted = |case: &&(&str, &str)| !options.quick || case.0 == OURS;
        let case = |(peer, condition): &(&str, &str)| Case::new(*condition, *peer, Cost::LIGHT);
        CASES.iter().filter(wanted).map(case).collect()
    }

    fn trials(&self, options: &Options) -> Option<u64> {
        Some(if options.quick { QUICK_DRAWS } else { DRAWS })
    }

    fn cost(&self, _: &Case, seed: u64) -> Cost {
        Cost::Carries(drawn(seed).rate as f64 / 1e6)
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let (seconds, drawn) = (options.span(SPAN, QUICK_SPAN), drawn(seed));
            let left = drawn.leaves(Duration::from_secs_f64(seconds)) * 8.0 / seconds / 1e6;
            let testbed = Testbed::new(&[LinkPlan { up: drawn.up, down: drawn.down }], seed)?;
            let sharers = sharers(&case.condition, &case.peer);
            let flows = sharers.iter().map(|peer| Flow::run(&testbed, peer, &Job::Bulk, seconds));
            let flows = together(flows.collect()).await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
            let goodputs: Vec<f64> = flows.iter().map(|flow| flow.goodput(seconds) / 1e6).collect();
            let least = goodputs.iter().copied().fold(f64::INFINITY, f64::min);
            let (fair, mut metrics) = (left / goodputs.len() as f64, Metrics::default());
            metrics.set(FAIR, fair);
            metrics.set(OWN, goodputs[0]);
            metrics.set(LEAST, least);
            metrics.set(SUM, goodputs.iter().sum());
            metrics.set(OF_FAIR, 100.0 * least / fair);
            if goodputs.len() > 1 {
                metrics.set(JAIN, jain(&goodputs).unwrap_or(0.0));
            }
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn columns(&self) -> Vec<Column> {
        let own = [
            Column::higher(OF_FAIR, "the least, % of what is fair", 1),
            Column::higher(JAIN, "Jain's index", 3),
            Column::neutral(OWN, "its own, Mbit/s", 2),
            Column::neutral(SUM, "in all, Mbit/s", 2),
        ];
        own.into_iter().chain(measure::queue_columns()).collect()
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn goals(&self, record: &Record) -> Vec<Goal> {
        findings::goals(record)
    }

    fn findings(&self, record: &Record) -> Vec<String> {
        findings::all(record)
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 2.0
    }
}
