//! Flows that share a link.

use super::measure::{self, PAYLOAD_SHARE, together};
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::flow::Flow;
use crate::job::Job;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::stats::jain;

pub(crate) struct Fairness;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 60.0;
const QUICK_SPAN: f64 = 10.0;
const LINK: &str = "rate=10mbit, delay=20ms, queue=40ms";
const RATE: f64 = 10e6;
const ITSELF: &str = "beside itself";
pub(super) const FOUR: &str = "four of its kind";
/// Cases: a peer, and the flows that it shares the link with.
const PAIRS: [(&str, &str); 9] = [
    ("whimbrel", "beside tcp-cubic"),
    ("whimbrel", "beside tcp-bbr"),
    ("whimbrel", ITSELF),
    ("whimbrel", FOUR),
    ("tcp-cubic", ITSELF),
    ("tcp-cubic", FOUR),
    ("tcp-bbr", "beside tcp-cubic"),
    ("tcp-bbr", FOUR),
    ("quinn-bbr", "beside tcp-cubic"),
];

/// Returns the peers of all flows in a case. The peer that the case is about comes first.
pub(super) fn sharers<'a>(condition: &'a str, peer: &'a str) -> Vec<&'a str> {
    match condition {
        ITSELF => vec![peer; 2],
        FOUR => vec![peer; 4],
        beside => vec![peer, beside.trim_start_matches("beside ")],
    }
}

impl Experiment for Fairness {
    fn name(&self) -> &'static str {
        "fairness"
    }

    fn about(&self) -> About {
        About {
            title: "Sharing a link",
            source: "the goals of the transport's own issue: at least 30 % each beside one TCP CUBIC; Jain's index of at least 0.95 \
                     among four of ours. Jain, Chiu, Hawe 1984 for the index",
            measured: "Bulk flows begin together on a link of 10 Mbit/s and 40 ms with a queue of one bandwidth-delay \
                       product (40 ms), and run for 60 s. Goodput is the payload read in that time, and a share is of \
                       all payload read. `in all` compares the sum with what the link can carry of TCP. Packets are \
                       lost at the queue only.",
            why: "CUBIC fills the queue until it overflows. BBR limits itself to its estimate of the bandwidth, and keeps up to one more \
                  bandwidth-delay product in the queue. In a queue of one such product, BBR is known to take more than half beside CUBIC. \
                  Whimbrel keeps a queue of its own, and lets it grow where others keep theirs long.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let quick = |pair: &&(&str, &str)| !options.quick || pair.0 == "whimbrel" && pair.1 != FOUR;
        let cost = Cost::Carries(RATE / 1e6);
        let case = |(peer, condition): &(&str, &str)| Case::new(*condition, *peer, cost);
        PAIRS.iter().filter(quick).map(case).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let (seconds, testbed) = (options.span(SPAN, QUICK_SPAN), measure::testbed(LINK, seed)?);
            let sharers = sharers(&case.condition, &case.peer);
            let flows = sharers.iter().map(|peer| Flow::run(&testbed, peer, &Job::Bulk, seconds));
            let flows = together(flows.collect()).await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
            let goodputs: Vec<f64> = flows.iter().map(|flow| flow.goodput(seconds) / 1e6).collect();
            let (sum, mut metrics) = (goodputs.iter().sum::<f64>(), Metrics::default());
            anyhow::ensure!(sum > 0.0, "nothing arrived");
            metrics.set("share", 100.0 * goodputs[0] / sum);
            metrics.set("least_share", 100.0 * goodputs.iter().copied().fold(f64::INFINITY, f64::min) / sum);
            metrics.set("jain", jain(&goodputs).unwrap_or(f64::NAN));
            metrics.set("sum", sum);
            for (number, (peer, flow)) in sharers.iter().zip(&flows).enumerate() {
                metrics.draw(&format!("{}: {peer}", number + 1), flow.rates(seconds, 1.0));
            }
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "Beside CUBIC, the goal of 30 % for it is met by the median of some runs and missed by some trials. Ours \
             does not take drops of one or two in a hundred for congestion, and CUBIC cuts its window at each. Ours \
             used to take 70 %, because in company it wanted up to a whole base round trip of queue, all that such a \
             queue holds. Now that ends at 85 % of a base round trip and at 90 % of the longest queue of late. The \
             rate is held to 3 % above arrivals. The kernel's CUBIC still gets some ten points less than the simulated \
             one, paced or not; why is not known. Three further changes were tried in simulation and not taken, as our \
             least share fell below 30 %. They were 50 to 80 % of a base round trip, 80 % of the longest queue, and \
             heeding loss from 0.5 % on (docs/decisions/tried-beside-cubic.md).",
        )
    }

    fn columns(&self) -> Vec<Column> {
        let own = [
            Column::neutral("share", "its share, %", 1),
            Column::neutral("least_share", "least share, %", 1),
            Column::higher("jain", "Jain's index", 3),
            Column::higher("sum", "in all, Mbit/s", 2),
        ];
        own.into_iter().chain(measure::queue_columns()).collect()
    }

    fn limit(&self, _: &str, metric: &str) -> Option<f64> {
        match metric {
            "jain" => Some(1.0),
            "sum" => Some(RATE * PAYLOAD_SHARE / 1e6),
            _ => None,
        }
    }

    fn links(&self) -> Vec<(String, String)> {
        vec![("all".into(), LINK.into())]
    }

    fn plots(&self) -> Vec<Plot> {
        let wanted = PAIRS.iter().filter(|(peer, condition)| *peer != "tcp-cubic" || *condition == ITSELF);
        wanted
            .map(|(peer, condition)| {
                Plot::sharing(format!("{peer} {condition}"), *condition, *peer).axes("time, s", "Mbit/s")
            })
            .collect()
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 2.0
    }
}
