//! The Mockets paper's Table 2.

use super::measure;
use super::{About, Case, Column, Cost, Experiment, Options, Quoted, Trial, peers};
use crate::condition;
use crate::flow::Flow;
use crate::job::{Job, Want};
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::stats::percentile;
use crate::testbed::Testbed;

pub(crate) struct MocketsTable2;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 60.0;
const QUICK_SPAN: f64 = 25.0;
/// Conditions, and their updates per second.
const RATES: [(&str, f64); 2] = [("1 update a second", 1.0), ("10 updates a second", 10.0)];
/// Condition in [`crate::condition`]. The constants below repeat its figures.
const LINK: &str = "mockets-nistnet";
const DELAY: f64 = 0.00025;
const SIZE: usize = 100;
const WITHOUT: &[&str] = &["mptcp", "tls", "whimbrel-rs", "whimbrel-cubic", "quinn-cubic", "noq-bbr"];

fn rate(condition: &str) -> Option<f64> {
    RATES.into_iter().find(|(name, _)| *name == condition).map(|(_, rate)| rate)
}

fn job(rate: f64, seconds: f64) -> Job {
    Job::Messages { size: SIZE, rate, count: (seconds * rate).ceil() as u64, want: Want::Newest }
}

impl Experiment for MocketsTable2 {
    fn name(&self) -> &'static str {
        "mockets-table2"
    }

    fn about(&self) -> About {
        About {
            title: "Mockets, Table 2: updates through disconnections",
            source: "Mockets: a novel message-oriented communications middleware for the wireless Internet (2006), section 6, Table 2",
            measured: "Updates of 100 bytes, of which the receiver wants the newest, are sent for 60 s. The link \
                       carries nothing, in both directions alike, for exponentially distributed times. They last 1 s \
                       in the mean and are 20 s apart in the mean. Every peer meets the same outages in the same \
                       trial. Latency is from the send call to the arrival, over the updates that arrived. Age of \
                       information is how old the newest known update is at any moment, from the first arrival to the \
                       last. Its limit is that without any outage: half the interval, and the way. Peers that cannot \
                       replace send all, in order.",
            why: "While the link is down, updates grow old. A reliable ordered transport delivers all of them afterwards, the oldest first. It also waits \
                  for its retransmission timer, which has backed off meanwhile. Replacing keeps only the newest update, so old ones do not count in the \
                  mean. The age of information is the fairer figure, since leaving updates out does not improve it. The paper's maximum for TCP, 6 s, is a \
                  backed-off timer.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let peers = peers(options, &[job(1.0, 1.0)], WITHOUT);
        let case = |condition: &str, peer: &str| Case::new(condition, peer, Cost::Sparse);
        RATES.iter().flat_map(|(name, _)| peers.iter().map(move |peer| case(name, peer))).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let rate = rate(&case.condition).ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let seconds = options.span(SPAN, QUICK_SPAN);
            let testbed = Testbed::new(&[condition::link(LINK)?], seed)?;
            let flow = Flow::run(&testbed, &case.peer, &job(rate, seconds), seconds + 30.0).await?;
            let (latencies, mut metrics) = (flow.latencies(), Metrics::default());
            anyhow::ensure!(!latencies.is_empty(), "no update arrived");
            metrics.set("mean_ms", latencies.iter().sum::<f64>() / latencies.len() as f64);
            metrics.set("max_ms", percentile(&latencies, 1.0).unwrap_or(f64::NAN));
            let last = flow.figures.messages.iter().map(|(.., at)| *at).max().unwrap_or_default();
            if let Some((mean, greatest)) = flow.age(last) {
                metrics.set("age_mean_ms", mean);
                metrics.set("age_max_ms", greatest);
            }
            let sent = flow.sent.messages.max(1) as f64;
            metrics.set("arrived", 100.0 * latencies.len() as f64 / sent);
            let report = testbed.report(0);
            metrics.set("outage_drops", (report.up.outage_drops + report.down.outage_drops) as f64);
            metrics.draw("latency", measure::distribution(&latencies));
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "Ours cannot be told from the best of the others. The outages, which differ from trial to trial, make \
             more of the age than any transport does. After an outage, ours asks every 170 ms, and QUIC sends each \
             update when it is due. At 10 updates a second, that shows in the greatest latency (see blackout).",
        )
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::lower("age_mean_ms", "age of information, mean, ms", 0),
            Column::lower("age_max_ms", "age, max, ms", 0),
            Column::lower("mean_ms", "latency, mean, ms", 1),
            Column::lower("max_ms", "latency, max, ms", 0),
            Column::neutral("arrived", "arrived, %", 1),
        ]
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        (metric == "age_mean_ms").then_some(1e3 * (0.5 / rate(condition)? + DELAY))
    }

    fn links(&self) -> Vec<(String, String)> {
        measure::words(LINK)
    }

    fn quoted(&self) -> Vec<Quoted> {
        let row = |peer, metric, value| Quoted { condition: RATES[0].0, peer, metric, value };
        vec![
            row("the paper's TCP (2006)", "mean_ms", 132.9),
            row("the paper's TCP (2006)", "max_ms", 6228.0),
            row("the paper's Mockets (2006)", "mean_ms", 13.44),
            row("the paper's Mockets (2006)", "max_ms", 922.0),
        ]
    }

    fn plots(&self) -> Vec<Plot> {
        let conditions: Vec<_> = RATES.iter().map(|(name, _)| (*name).to_owned()).collect();
        vec![
            Plot::bars("Age of information, mean", "age_mean_ms", conditions.clone()).axes("", "ms"),
            Plot::bars("Greatest latency", "max_ms", conditions).axes("", "ms").logarithmic(),
            Plot::curves("Latency at 10 updates a second", "latency", RATES[1].0)
                .axes("latency, ms", "share of updates that arrived")
                .logarithmic_x(),
        ]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 3.0
    }
}
