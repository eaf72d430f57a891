//! The named conditions of today's networks, each with bulk and with messages.

use std::time::Duration;

use whimbrel_link::{Link, LinkConfig};
use whimbrel_proto::Time;

use super::measure::{self, PAYLOAD_SHARE};
use super::{About, Case, Column, Cost, Experiment, Options, Trial, few};
use crate::condition;
use crate::flow::Flow;
use crate::job::{Job, Want};
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::stats::percentile;
use crate::testbed::Testbed;

pub(crate) struct Conditions;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 20.0;
const QUICK_SPAN: f64 = 6.0;
/// Conditions that no other experiment covers.
const NAMES: [&str; 10] = [
    "weak-4g",
    "good-wifi",
    "leo-satellite",
    "geo-satellite",
    "train",
    "crowded-hall",
    "tactical-1mbit",
    "tactical-5",
    "tactical-10",
    "tactical-15",
];
const QUICK: &str = NAMES[0];
/// Names of the tables.
const BULK: &str = "Bulk";
const MESSAGES: &str = "50 messages a second of 100 bytes";
const RATE: f64 = 50.0;
const SIZE: usize = 100;
/// Seconds after the last message was sent in which arrivals still count.
const SETTLE: f64 = 15.0;

fn up(condition: &str) -> Option<LinkConfig> {
    let (_, name) = Case::place(condition);
    Some(condition::link(name).ok()?.up)
}

/// Returns the Mbit/s of IP packets that a link carries if it is never idle: the rate that its model leaves after loss,
/// outages and changes of rate. It is the mean of as many seeds as there are trials.
fn carries(link: &LinkConfig) -> f64 {
    const FULL: usize = 1500;
    let one = |seed| {
        let mut link = Link::new(link.clone().overhead(0), seed);
        for ms in 0..(SPAN * 1e3) as u64 {
            let now = Time::ZERO + Duration::from_millis(ms);
            while link.config().rate.is_some() && link.backlog(now) < Duration::from_millis(1) {
                link.push(now, FULL, false);
            }
        }
        link.stats().delivered_bytes as f64 * 8.0 / SPAN / 1e6
    };
    (1..=5).map(one).sum::<f64>() / 5.0
}

impl Experiment for Conditions {
    fn name(&self) -> &'static str {
        "conditions"
    }

    fn about(&self) -> About {
        About {
            title: "Networks of today, and tactical ones, by their names",
            source: "the project's own: the named conditions, each with the source of its figures below",
            measured: "Data goes from the mobile side to the other, over links that differ by direction. Bulk: the \
                       figure is the payload that the receiver has read within 20 s of the connect call, set-up \
                       included. Its limit is what the link's own model carries in that time if it is never idle, \
                       after TCP's headers. Messages: for 20 s, each is wanted as soon as it is there, in any order \
                       where the peer has that. Latency is from the send call to the arrival. A message is lost if it \
                       had not come 15 s after the last was sent. The limit is the one-way delay.",
            why: "Bulk depends on what a sender takes for congestion: loss, a falling rate, or delay that varies. Where queues are deep and the rate \
                  is low, a sender that fills the queue delays everyone else. Messages in one order wait for each lost one. An outage delays all \
                  messages that were sent during it.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let mut cases = Vec::new();
        for (table, job) in [(BULK, Job::Bulk), (MESSAGES, job(1.0))] {
            for name in NAMES.into_iter().filter(|name| !options.quick || *name == QUICK) {
                let condition = format!("{table}: {name}");
                let rate = up(&condition).and_then(|link| Some(link.rate?.mean() as f64 / 1e6));
                let cost = if table == BULK { rate.map_or(Cost::Heavy, Cost::Carries) } else { Cost::Sparse };
                cases.extend(
                    few(std::slice::from_ref(&job)).into_iter().map(|peer| Case::new(&condition, peer, cost)),
                );
            }
        }
        cases
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let (table, name) = Case::place(&case.condition);
            let (testbed, seconds) =
                (Testbed::new(&[condition::link(name)?], seed)?, options.span(SPAN, QUICK_SPAN));
            let mut metrics = Metrics::default();
            if table == BULK {
                let flow = Flow::run(&testbed, &case.peer, &Job::Bulk, seconds).await?;
                metrics.set("goodput", flow.goodput(seconds) / 1e6);
            } else {
                let flow = Flow::run(&testbed, &case.peer, &job(seconds), seconds + SETTLE).await?;
                let latencies = flow.latencies();
                anyhow::ensure!(!latencies.is_empty(), "no message arrived");
                for (name, share) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
                    metrics.set(name, percentile(&latencies, share).unwrap_or(f64::NAN));
                }
                let sent = flow.sent.messages.max(1);
                metrics.set("lost", 100.0 * flow.figures.lost(sent) as f64 / sent as f64);
            }
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "In the crowded hall, ours and CUBIC carry least in bulk. The link falls to an eighth of its rate every \
             second, and delay swings by 15 ms on a round trip of 30. Ours follows a fall at once. BBR remembers the \
             highest rate of ten round trips, and what is too much is dropped at the queue. In simulation, jitter by \
             itself costs ours 9 %; it was 38 % before `gauge` told it from a queue. The changing rate by itself costs \
             9 %, with the former rate tried again when the queue has drained. Together they cost more, since for two \
             seconds after a deep queue nothing is taken for jitter. Without that rule, 1.80 Mbit/s arrive in \
             simulation instead of 1.59. But then 4.9 % are dropped at the queue, more than the 2 % that ours allows \
             itself. docs/decisions/tried-jitter.md and docs/decisions/tried-falling-rates.md say what was tried.",
        )
    }

    fn columns(&self) -> Vec<Column> {
        let own = [
            Column::higher("goodput", "goodput, Mbit/s", 2),
            Column::lower("p99_ms", "p99, ms", 0),
            Column::lower("p50_ms", "p50, ms", 0),
            Column::lower("lost", "lost, %", 2),
        ];
        own.into_iter().chain(measure::queue_columns()).collect()
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        let (link, bulk) = (up(condition)?, Case::place(condition).0 == BULK);
        match metric {
            "goodput" if bulk => Some(carries(&link) * PAYLOAD_SHARE),
            "p50_ms" if !bulk => Some(link.delay.as_secs_f64() * 1e3),
            _ => None,
        }
    }

    fn links(&self) -> Vec<(String, String)> {
        NAMES.into_iter().flat_map(measure::words).collect()
    }

    fn plots(&self) -> Vec<Plot> {
        let rows = |table: &str| NAMES.map(|name| format!("{table}: {name}")).to_vec();
        vec![
            Plot::bars("Bulk", "goodput", rows(BULK)).axes("", "goodput, Mbit/s").logarithmic(),
            Plot::bars("Messages", "p99_ms", rows(MESSAGES)).axes("", "p99, ms").logarithmic(),
        ]
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        let settles = if Case::place(&case.condition).0 == MESSAGES { 3.0 } else { 1.0 };
        options.span(SPAN, QUICK_SPAN) + settles
    }
}

fn job(seconds: f64) -> Job {
    Job::Messages { size: SIZE, rate: RATE, count: (seconds * RATE) as u64, want: Want::Each }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_what_its_loss_its_outages_and_its_rate_leave() {
        let carries = |words: &str| carries(&words.parse().unwrap());
        assert!((carries("rate=4mbit") - 4.0).abs() < 0.01);
        assert!((carries("rate=4mbit, loss=5%") - 3.8).abs() < 0.03);
        assert!((carries("rate=4mbit, outage=at 5s for 5s") - 3.0).abs() < 0.01);
        assert!((carries("rate=trace:8mbit/1s+2mbit/1s") - 5.0).abs() < 0.02);
    }

    #[test]
    fn every_row_has_a_link_and_a_limit() {
        for case in Conditions.cases(&Options { quick: false, seconds: None }) {
            let metric = if case.condition.starts_with(BULK) { "goodput" } else { "p50_ms" };
            assert!(Conditions.limit(&case.condition, metric).unwrap() > 0.3, "{}", case.condition);
        }
    }
}
