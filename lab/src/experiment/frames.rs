//! Frames of a video that are worthless before a retransmission could arrive.

use super::measure;
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::flow::Flow;
use crate::job::{FRAMES, Job};
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::stats::percentile;

pub(crate) struct Frames;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 60.0;
const QUICK_SPAN: f64 = 8.0;
const RATE: f64 = 30.0;
const WITHIN: u64 = 150;
const ONE_WAY: u64 = 50;
/// Allowance for timers, ms. A receiver that holds frames until their time, as SRT's does, is late by its own timers and
/// the link's.
const GRACE: u64 = 15;
/// Each condition, and what it adds to the link.
const LOSSES: [(&str, &str); 5] = [
    ("no loss", ""),
    ("2 % loss", ", loss=2%"),
    ("5 % loss", ", loss=5%"),
    ("10 % loss", ", loss=10%"),
    ("bursts", ", outage=4994ms/20ms"),
];
/// The condition of a quick run.
const MOST: &str = "5 % loss";
const PEERS: [&str; 10] = [
    "whimbrel",
    "whimbrel-unrepaired",
    "whimbrel-deadline",
    "tcp-cubic",
    "tcp-bbr",
    "quinn-cubic",
    "quinn-bbr",
    "srt",
    "srt-fec",
    "udp",
];

fn link(hazard: &str) -> String {
    format!("rate=10mbit, delay={ONE_WAY}ms, queue=200ms{hazard}")
}

fn job(seconds: f64) -> Job {
    Job::Frames { rate: RATE, count: (seconds * RATE) as u64, within: WITHIN, one_way: ONE_WAY }
}

impl Experiment for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn about(&self) -> About {
        About {
            title: "Frames that cannot wait",
            source: "the goals of hard links: 30 frames a second, worthless after 150 ms, over a round trip of 100 ms",
            measured: "The caller sends 30 frames a second for 60 s. Each has 8 to 30 KB, with a median of 15 KB, which makes 4 of \
                       10 Mbit/s. A frame is in time if all of it is at the reader within 150 ms of the send call, and 15 ms for the \
                       timers of reader and sender. Losses are in both directions, at random, or all packets of 20 ms are lost every 5 s. Bytes are \
                       IP bytes from caller to server over payload bytes. Latency is that of the frames that arrived whole.",
            why: "A lost packet is known after a round trip and sent again over half of one, so it arrives 50 ms after the frame's time. \
                  A frame of eleven packets is therefore lost with any of them, unless something sent beside it can stand in for the lost \
                  one. Repair symbols over all frames of the last 100 ms do. A peer that delivers everything in order is late with each \
                  frame behind the lost one, too.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let losses = LOSSES.into_iter().filter(|(name, _)| !options.quick || *name == MOST);
        losses.flat_map(|(name, _)| PEERS.map(|peer| Case::new(name, peer, Cost::LIGHT))).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let hazard =
                LOSSES.iter().find(|(name, _)| *name == case.condition).map_or("", |(_, hazard)| *hazard);
            let (testbed, job) =
                (measure::testbed(&link(hazard), seed)?, job(options.span(SPAN, QUICK_SPAN)));
            let flow = Flow::run(&testbed, &case.peer, &job, options.span(SPAN, QUICK_SPAN) + 15.0).await?;
            let Job::Frames { count, .. } = job else { anyhow::bail!("the job is not frames") };
            let (latencies, mut metrics) = (flow.latencies(), Metrics::default());
            anyhow::ensure!(!latencies.is_empty(), "no frame arrived");
            // Frames that a peer had not sent by the end of the trial count as late.
            let late = flow.figures.late(count, (WITHIN + GRACE) * 1_000_000);
            metrics.set("in_time", 100.0 * (count - late) as f64 / count as f64);
            let payload: usize = (0..count).map(crate::job::frame_size).sum();
            metrics.set("bytes_ratio", testbed.report(0).up.offered_bytes as f64 / payload as f64);
            for (name, share) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
                metrics.set(name, percentile(&latencies, share).unwrap_or(f64::NAN));
            }
            metrics.draw("latency", measure::distribution(&latencies));
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::higher("in_time", "in time, %", 2),
            Column::lower("bytes_ratio", "IP bytes / payload", 2),
            Column::lower("p50_ms", "p50, ms", 0),
            Column::lower("p99_ms", "p99, ms", 0),
            Column::lower("queue_drops", "dropped at the queue, %", 1),
        ]
    }

    /// A frame of the median's size needs its serialisation, too.
    fn limit(&self, _: &str, metric: &str) -> Option<f64> {
        match metric {
            "in_time" => Some(100.0),
            "p50_ms" => Some(ONE_WAY as f64 + FRAMES[FRAMES.len() / 2] as f64 * 8.0 / 10e3),
            _ => None,
        }
    }

    fn links(&self) -> Vec<(String, String)> {
        LOSSES.map(|(name, hazard)| (name.to_owned(), link(hazard))).to_vec()
    }

    fn plots(&self) -> Vec<Plot> {
        ["5 % loss", "bursts"]
            .map(|condition| {
                Plot::curves(format!("Latency, {condition}"), "latency", condition.to_owned())
                    .axes("latency, ms", "share of frames")
                    .logarithmic_x()
            })
            .into()
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 4.0
    }
}
