//! Bulk data and a file under loss.

use std::slice;

use super::measure::{self, ideal};
use super::{About, Case, Column, Cost, Experiment, Options, Trial, peers_at};
use crate::flow::Flow;
use crate::job::Job;
use crate::report::plot::Plot;
use crate::sample::Metrics;

pub(crate) struct LossMatrix;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 20.0;
const QUICK_SPAN: f64 = 4.0;
/// Links: name, rate in bit/s, and round trip in seconds.
const LINKS: [(&str, f64, f64); 2] = [("4 Mbit/s, 50 ms", 4e6, 0.05), ("20 Mbit/s, 100 ms", 20e6, 0.1)];
const LOSSES: [u32; 5] = [0, 1, 5, 10, 15];
/// Loss rate and link with which all peers run. The other cases have only the most informative peers.
const MOST: u32 = 5;
const MOST_RATE: f64 = LINKS[0].1;
const FILE: u64 = 2_000_000;
/// Share of payload in a full packet of ours, which the goals use. In TCP's it is 1,448 bytes.
const PAYLOAD_SHARE: f64 = 1437.0 / 1500.0;
/// Seconds for the file at 10 % loss or more, for a peer that backs off at every loss.
const CRAWL: f64 = 70.0;
/// Names of the tables.
const BULK: &str = "Bulk";
const TWO_MB: &str = "2 MB";
/// Peers that would show nothing of their own here: those about several paths, set-up or the lack of order. CUBIC under
/// our own protocol is left out too, since it exists only for networks that ask for it.
const WITHOUT: &[&str] = &["mptcp", "tls", "udp", "whimbrel-cubic"];

struct Place {
    bulk: bool,
    rate: f64,
    rtt: f64,
    loss: u32,
}

impl Place {
    fn of(condition: &str) -> Option<Self> {
        let (table, row) = Case::place(condition);
        let (name, loss) = row.rsplit_once(", ")?;
        let (_, rate, rtt) = LINKS.into_iter().find(|(link, ..)| *link == name)?;
        Some(Self { bulk: table == BULK, rate, rtt, loss: loss.trim_end_matches(" %").parse().ok()? })
    }

    fn link(&self) -> String {
        let (rate, delay) = (self.rate / 1e6, self.rtt * 500.0);
        format!("rate={rate}mbit, delay={delay}ms, queue=100ms, loss={}%", self.loss)
    }

    fn share_left(&self) -> f64 {
        1.0 - f64::from(self.loss) / 100.0
    }
}

/// Returns the cost of a trial. A peer that backs off at every loss does not fill the link. Its window is about 1.2 /
/// sqrt(loss) packets of 12,000 bits (Mathis et al., 1997).
fn cost(peer: &str, rate: f64, rtt: f64, loss: u32) -> Cost {
    let window = 1.2 * 12e3 / (f64::from(loss) / 100.0).sqrt();
    Cost::Carries(if backs_off(peer) { rate.min(window / rtt) } else { rate } / 1e6)
}

fn backs_off(peer: &str) -> bool {
    peer.ends_with("cubic") || peer == "noq" || peer == "sctp"
}

impl Experiment for LossMatrix {
    fn name(&self) -> &'static str {
        "loss-matrix"
    }

    fn about(&self) -> About {
        About {
            title: "Bulk and files under random loss",
            source: "ACM NetProxy (2012), section V: 4 Mbit/s at a reliability of 95, 90 and 85 %; beside it a faster, \
                     longer link; the goals of the transport's own issue",
            measured: "Bulk: the figure is the payload that the receiver has read within 20 s of the connect call, \
                       set-up included. 2 MB: the figure is the seconds from the connect call to the last byte read, \
                       cold. Loss is drawn for each packet after the bottleneck, independently, in both directions. \
                       The queue before it holds 100 ms. Queueing delay and drops are those of the link's queue from \
                       caller to server. The limit of bulk is the goals' own, rate x (1 - loss) x 1,437 / 1,500, our \
                       packet's payload. TCP's is 1,448, so it may stand at 1.01. The limit of 2 MB is a round trip of \
                       set-up, half of one to the receiver, and the bytes at that rate. All peers are tried at 4 \
                       Mbit/s with 5 %. Elsewhere whimbrel, tcp-cubic, tcp-bbr and quinn-bbr are.",
            why: "A controller that takes each loss for congestion (CUBIC) keeps a window of about 1.2 / sqrt(loss) packets or little more, \
                  whatever the link could carry. Those that estimate the rate (BBR and Whimbrel) do not. Yet an ordered stream still waits until each \
                  gap is filled, and retransmissions are lost as often as other packets. A sender that floods the link can also reach a goodput near the \
                  limit: the queue's delay and its drops reveal that.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let mut cases = Vec::new();
        for (table, job) in [(BULK, Job::Bulk), (TWO_MB, Job::Transfer { bytes: FILE })] {
            for (link, rate, rtt) in LINKS.into_iter().take(if options.quick { 1 } else { LINKS.len() }) {
                for loss in LOSSES.into_iter().filter(|loss| !options.quick || *loss == MOST) {
                    let peers =
                        peers_at(loss == MOST && rate == MOST_RATE, options, slice::from_ref(&job), WITHOUT);
                    let name = format!("{table}: {link}, {loss} %");
                    let case = |peer| Case::new(&name, peer, cost(peer, rate, rtt, loss));
                    cases.extend(peers.into_iter().map(case));
                }
            }
        }
        cases
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let place = Place::of(&case.condition).ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let (testbed, mut metrics) = (measure::testbed(&place.link(), seed)?, Metrics::default());
            if place.bulk {
                let seconds = options.span(SPAN, QUICK_SPAN);
                let flow = Flow::run(&testbed, &case.peer, &Job::Bulk, seconds).await?;
                metrics.set("goodput", flow.goodput(seconds) / 1e6);
            } else {
                let flow = Flow::run(&testbed, &case.peer, &Job::Transfer { bytes: FILE }, 150.0).await?;
                metrics.set("seconds", flow.duration());
            }
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("2 MB is a transfer, however long it takes")
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "Without loss, TCP is 1 % ahead. Its head leaves 1,448 of 1,500 bytes to payload; UDP, our own head and \
             the seal leave 1,437. At 10 % loss and more, two things are missing from the limit. One is the set-up, \
             which is in the figure. The other is the last round trip: what was lost in it has not come again yet.",
        )
    }

    fn columns(&self) -> Vec<Column> {
        let own = [Column::higher("goodput", "goodput, Mbit/s", 2), Column::lower("seconds", "time, s", 2)];
        own.into_iter().chain(measure::queue_columns()).collect()
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        let place = Place::of(condition)?;
        match metric {
            "goodput" if place.bulk => Some(place.rate * place.share_left() * PAYLOAD_SHARE / 1e6),
            "seconds" if !place.bulk => {
                Some(ideal(FILE as f64, place.rate, place.rtt, f64::from(place.loss) / 100.0, PAYLOAD_SHARE))
            }
            _ => None,
        }
    }

    fn links(&self) -> Vec<(String, String)> {
        let rows = LINKS.iter().flat_map(|(link, ..)| LOSSES.map(|loss| format!("{link}, {loss} %")));
        rows.filter_map(|row| Some((row.clone(), Place::of(&row)?.link()))).collect()
    }

    fn plots(&self) -> Vec<Plot> {
        let mut plots = Vec::new();
        for (table, metric, y) in
            [(BULK, "goodput", "goodput, Mbit/s"), (TWO_MB, "seconds", "time for 2 MB, s")]
        {
            for (link, ..) in LINKS {
                let points = LOSSES.map(|loss| (f64::from(loss), format!("{table}: {link}, {loss} %")));
                let plot =
                    Plot::lines(format!("{table}, {link}"), metric, points.to_vec()).axes("loss, %", y);
                plots.push(if table == TWO_MB { plot.logarithmic() } else { plot });
            }
        }
        plots
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        let factor = if backs_off(&case.peer) { 5.0 } else { 1.5 };
        let crawls = |place: &Place| place.loss >= 10 && backs_off(&case.peer);
        match Place::of(&case.condition) {
            Some(place) if !place.bulk && crawls(&place) => CRAWL,
            Some(place) if !place.bulk => {
                let limit =
                    ideal(FILE as f64, place.rate, place.rtt, f64::from(place.loss) / 100.0, PAYLOAD_SHARE);
                limit * if place.loss > 0 { factor } else { 1.2 } + 1.0
            }
            _ => options.span(SPAN, QUICK_SPAN) + 1.0,
        }
    }
}
