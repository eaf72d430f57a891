//! Small messages under loss.

use super::measure;
use super::{About, Case, Column, Cost, Experiment, Options, Trial, peers_at};
use crate::flow::Flow;
use crate::job::{Job, Want};
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::stats::percentile;

pub(crate) struct MessageLatency;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 25.0;
const QUICK_SPAN: f64 = 8.0;
const LOSSES: [u32; 4] = [0, 1, 5, 20];
/// Loss rate at which all peers run. The others have only the most informative peers.
const MOST: u32 = 5;
const RATE: f64 = 100.0;
const SIZE: usize = 100;
const ONE_WAY_MS: f64 = 20.0;
const WITHOUT: &[&str] = &["mptcp", "tls", "whimbrel-rs", "whimbrel-cubic", "noq-bbr"];

fn link(loss: u32) -> String {
    format!("rate=100mbit, delay=20ms, queue=100ms, loss={loss}%")
}

fn job(seconds: f64) -> Job {
    Job::Messages { size: SIZE, rate: RATE, count: (seconds * RATE) as u64, want: Want::Each }
}

impl Experiment for MessageLatency {
    fn name(&self) -> &'static str {
        "message-latency"
    }

    fn about(&self) -> About {
        About {
            title: "Small messages under loss",
            source: "the goals of the transport's own issue: 100 messages a second of 100 bytes, 40 ms round trip",
            measured: "The caller sends 100 messages a second of 100 bytes for 25 s, with loss in both directions. \
                       Each is wanted as soon as it is there, in any order where the peer has that. Latency is from \
                       the send call to the arrival at the reader, one way, on one clock. Percentiles are over the \
                       messages that arrived, and `lost` says how many did not. Bytes are IP bytes from caller to \
                       server over payload bytes. The limit is the one-way delay. All peers are tried at 5 % of loss, \
                       and elsewhere the few that say most.",
            why: "With a one-way delay of 20 ms, a message can be late for three reasons. It was lost and is sent again, which takes at least a \
                  round trip. It waits behind another lost message, in peers with a single order. Or it was sent while the connection was still being \
                  established. Sending small messages twice trades bytes for fewer delays of the first kind. UDP is the floor: it never waits, and it \
                  loses messages.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let losses = LOSSES.into_iter().filter(|loss| !options.quick || *loss == MOST);
        losses
            .flat_map(|loss| {
                let peers = peers_at(loss == MOST, options, &[job(1.0)], WITHOUT).into_iter();
                peers.map(move |peer| Case::new(format!("{loss} % loss"), peer, Cost::Carries(2.0)))
            })
            .collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let loss = case.condition.trim_end_matches(" % loss").parse()?;
            let (testbed, job) = (measure::testbed(&link(loss), seed)?, job(options.span(SPAN, QUICK_SPAN)));
            let flow = Flow::run(&testbed, &case.peer, &job, options.span(SPAN, QUICK_SPAN) + 15.0).await?;
            let (latencies, mut metrics) = (flow.latencies(), Metrics::default());
            anyhow::ensure!(!latencies.is_empty(), "no message arrived");
            for (name, share) in [("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)] {
                metrics.set(name, percentile(&latencies, share).unwrap_or(f64::NAN));
            }
            let sent = flow.sent.messages as f64;
            metrics.set("lost", 100.0 * (1.0 - latencies.len() as f64 / sent).max(0.0));
            metrics.set("bytes_ratio", testbed.report(0).up.offered_bytes as f64 / (sent * SIZE as f64));
            metrics.draw("latency", measure::distribution(&latencies));
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "At 20 % of loss, the goal of 2.2 times the bytes is missed, with 2.41 on the virtual clock. Small \
             messages go three times there, and three whole copies behind one head take 2.28 at the least. Three \
             copies lose 0.8 % of the messages, and two lose 4 %. No more than 6 % of the third copies could therefore \
             be left out for a 99th percentile of 55 ms. Two ideas were worked out and not taken \
             (docs/decisions/tried-message-latency.md). A code over several messages leaves 1.05 % late at 2.35 times \
             the bytes. A longer deadline saves 0.01.",
        )
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::lower("p99_ms", "p99, ms", 1),
            Column::lower("p50_ms", "p50, ms", 1),
            Column::lower("max_ms", "max, ms", 0),
            Column::lower("lost", "lost, %", 2),
            Column::lower("bytes_ratio", "IP bytes / payload", 2),
        ]
    }

    fn limit(&self, _: &str, metric: &str) -> Option<f64> {
        ["p50_ms", "p99_ms", "max_ms"].contains(&metric).then_some(ONE_WAY_MS)
    }

    fn links(&self) -> Vec<(String, String)> {
        LOSSES.map(|loss| (format!("{loss} % loss"), link(loss))).to_vec()
    }

    fn plots(&self) -> Vec<Plot> {
        let mut plots: Vec<_> = [5, 20]
            .map(|loss| {
                let condition = format!("{loss} % loss");
                Plot::curves(format!("Latency, {condition}"), "latency", condition)
                    .axes("latency, ms", "share of messages")
                    .logarithmic_x()
            })
            .into();
        let points = LOSSES.map(|loss| (f64::from(loss), format!("{loss} % loss")));
        plots.push(
            Plot::lines("99th percentile", "p99_ms", points.to_vec())
                .axes("loss, %", "p99, ms")
                .logarithmic(),
        );
        plots
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 2.0
    }
}
