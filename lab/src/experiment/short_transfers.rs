//! Short transfers, set-up included.

use super::measure::{self, PAYLOAD_SHARE, ideal};
use super::{About, Case, Column, Cost, Experiment, Options, Trial, peers, peers_at};
use crate::flow::Flow;
use crate::job::Job;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::stats::{percentile, sorted};

pub(crate) struct ShortTransfers;

/// Sizes: name, bytes, and number of transfers in a trial.
const SIZES: [(&str, u64, u64); 4] =
    [("1 KB", 1_000, 20), ("10 KB", 10_000, 20), ("100 KB", 100_000, 8), ("1 MB", 1_000_000, 3)];
const LOSSES: [u32; 2] = [0, 5];
/// Loss rate at which all peers run. The other has only the most informative peers.
const MOST: u32 = 5;
const EVERYBODY: Options = Options { quick: false, seconds: None };
const RATE: f64 = 4e6;
const RTT: f64 = 0.05;
const WITHOUT: &[&str] = &["mptcp", "udp", "whimbrel-rs", "whimbrel-cubic", "noq-bbr"];

fn link(loss: u32) -> String {
    format!("rate=4mbit, delay=25ms, queue=100ms, loss={loss}%")
}

/// Returns the loss of a condition, and the index of its size in [`SIZES`].
fn place(condition: &str) -> Option<(u32, usize)> {
    let (loss, size) = Case::place(condition);
    let loss = loss.strip_suffix(" % loss")?.parse().ok()?;
    Some((loss, SIZES.iter().position(|(name, ..)| *name == size)?))
}

impl Experiment for ShortTransfers {
    fn name(&self) -> &'static str {
        "short-transfers"
    }

    fn about(&self) -> About {
        About {
            title: "Short transfers, set-up included",
            source: "the goals of the transport's own issue: 10 KB at 4 Mbit/s, 50 ms, 5 % loss",
            measured: "The figure is the time from the connect call to the last byte read, over 4 Mbit/s and a round \
                       trip of 50 ms. Every transfer is cold: the hosts and processes are new, and nothing is \
                       remembered. A trial is 20 transfers of 1 and 10 KB, 8 of 100 KB and 3 of 1 MB, each with dice \
                       of its own. Its figures are their median and 95th percentile. The limit is a round trip of \
                       set-up, half of one to the receiver, and serialisation at the share that loss and TCP's headers \
                       leave, 1,448 of 1,500. All peers are tried at 5 % of loss. Without loss the few that say most \
                       are, and TLS.",
            why: "Short transfers are decided by round trips. TCP needs one before it sends data, and TLS 1.3 one more. QUIC and Whimbrel set up \
                  encryption within the first. Beyond about ten packets, the initial window counts. Under loss, the tail depends on lost packets of \
                  the handshake and on a lost last packet. No later packet reveals these losses, so only a timer does.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let job = [Job::Transfer { bytes: 1000 }];
        let mut cases = Vec::new();
        for loss in LOSSES.into_iter().filter(|loss| !options.quick || *loss == MOST) {
            let mut names = peers_at(loss == MOST, options, &job, WITHOUT);
            if !names.iter().any(|name| name.starts_with("tls")) {
                names.extend(peers(&EVERYBODY, &job, WITHOUT).iter().filter(|name| name.starts_with("tls")));
            }
            for (size, bytes, _) in SIZES {
                if !options.quick || bytes == 10_000 {
                    let condition = format!("{loss} % loss: {size}");
                    cases.extend(names.iter().map(|peer| Case::new(&condition, *peer, Cost::LIGHT)));
                }
            }
        }
        cases
    }

    fn trial<'a>(&'a self, case: &'a Case, _: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let (loss, size) = place(&case.condition).ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let (_, bytes, count) = SIZES[size];
            let (mut times, mut failed) = (Vec::new(), None);
            for number in 0..count {
                let testbed = measure::testbed(&link(loss), seed * 1000 + number)?;
                match Flow::run(&testbed, &case.peer, &Job::Transfer { bytes }, 40.0).await {
                    Ok(flow) => times.push(flow.duration() * 1e3),
                    Err(error) => failed = Some(error.context(format!("transfer {number} of {count}"))),
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
            let (times, mut metrics) = (sorted(times), Metrics::default());
            for (name, share) in [("median_ms", 0.5), ("p95_ms", 0.95)] {
                metrics.set(name, percentile(&times, share).unwrap_or(f64::NAN));
            }
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "With 1 KB, ours is a few ms behind bare TCP, which seals nothing and proves nobody's identity. With 1 MB \
             and no loss, some 1 % are headers, 1,437 bytes in a packet instead of 1,448. The rest has not been \
             traced. At 5 % of loss, the median of 10 KB depends on whether one of its ten packets or of the set-up's \
             was lost. Ours cannot be told from the best there.",
        )
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("a trial has a fixed number of transfers")
    }

    fn columns(&self) -> Vec<Column> {
        vec![Column::lower("median_ms", "median, ms", 0), Column::lower("p95_ms", "95th percentile, ms", 0)]
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        let (loss, size) = place(condition)?;
        let seconds = ideal(SIZES[size].1 as f64, RATE, RTT, f64::from(loss) / 100.0, PAYLOAD_SHARE);
        (metric == "median_ms").then_some(seconds * 1e3)
    }

    fn links(&self) -> Vec<(String, String)> {
        LOSSES.map(|loss| (format!("{loss} % loss"), link(loss))).to_vec()
    }

    fn plots(&self) -> Vec<Plot> {
        let plot = |metric: &'static str, loss: u32, y| {
            let points = SIZES.map(|(size, bytes, _)| (bytes as f64 / 1e3, format!("{loss} % loss: {size}")));
            let title = format!("{y}, {loss} % loss");
            Plot::lines(title, metric, points.to_vec()).axes("size, KB", y).logarithmic_both()
        };
        vec![
            plot("median_ms", 0, "median, ms"),
            plot("median_ms", 5, "median, ms"),
            plot("p95_ms", 5, "p95, ms"),
        ]
    }

    fn seconds(&self, case: &Case, _: &Options) -> f64 {
        place(&case.condition).map_or(10.0, |(loss, size)| {
            let (_, bytes, count) = SIZES[size];
            let slow = if loss > 0 && case.peer.contains("cubic") { 3.0 } else { 1.3 };
            count as f64 * (ideal(bytes as f64, RATE, RTT, 0.0, PAYLOAD_SHARE) * slow + 0.3)
        })
    }
}
