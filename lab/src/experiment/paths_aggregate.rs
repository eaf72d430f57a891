//! Bulk data over several links at once.

use super::measure::{self, PAYLOAD_SHARE};
use super::several::{self, Carried};
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::flow::Flow;
use crate::job::Job;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::testbed::Testbed;

pub(crate) struct PathsAggregate;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 15.0;
const QUICK_SPAN: f64 = 4.0;
/// A link: Mbit/s, and round trip in ms.
type Link = (f64, f64);
/// Pairs of links, with their names.
const PAIRS: [(&str, [Link; 2]); 2] = [
    ("10 Mbit/s 30 ms + 5 Mbit/s 60 ms", [(10.0, 30.0), (5.0, 60.0)]),
    ("20 Mbit/s 20 ms + 4 Mbit/s 200 ms", [(20.0, 20.0), (4.0, 200.0)]),
];
const LOSSES: [u32; 2] = [0, 5];

fn place(condition: &str) -> Option<([Link; 2], u32)> {
    let (name, loss) = condition.rsplit_once(", ")?;
    let (_, links) = PAIRS.into_iter().find(|(pair, _)| *pair == name)?;
    Some((links, loss.strip_suffix(" %")?.parse().ok()?))
}

fn words((links, loss): ([Link; 2], u32)) -> String {
    let link =
        |(rate, rtt): Link| format!("rate={rate}mbit, delay={}ms, queue=100ms, loss={loss}%", rtt / 2.0);
    links.map(link).join(" | ")
}

impl Experiment for PathsAggregate {
    fn name(&self) -> &'static str {
        "paths-aggregate"
    }

    fn about(&self) -> About {
        About {
            title: "Two links at once",
            source: "the goals for several paths: 97.5 % of what two links leave after headers, 97 % at 5 % of loss, and never less \
                     than the better link alone",
            measured: "Bulk goes over two links, each with its own interface at both hosts. The figure is the payload \
                       that the receiver has read within 15 s of the connect call, set-up included. Rates are of each \
                       link, and times are of its round trip. Each queue holds 100 ms. Loss is drawn for each packet, \
                       on both links, in both directions. The limit is what both links leave after loss and TCP's \
                       headers, 1,448 of 1,500. A packet of ours carries 1,437. TCP has the first link alone, so it \
                       shows what the better link gives. Queueing delay and drops are of the first link.",
            why: "A receiver with a single order must hold what the faster link delivered until the slower one has caught up. Without that order, \
                  each message can be read when it arrives. Data that is put on the slow link too early arrives later than the fast link would have \
                  delivered it. Under loss, each path depends on its congestion controller, as on a single link. SCTP uses its other paths for \
                  retransmissions only (RFC 9260), so its rates do not add up.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let mut cases = Vec::new();
        for (pair, links) in PAIRS {
            for loss in LOSSES.into_iter().filter(|loss| !options.quick || *loss > 0) {
                let name = format!("{pair}, {loss} %");
                let cost = Cost::Carries(links.iter().map(|(rate, _)| rate).sum());
                let case = |peer: &&str| Case::new(&name, *peer, cost);
                cases.extend(several::peers(options.quick).iter().map(case));
            }
        }
        cases
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let place = place(&case.condition).ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let testbed = Testbed::new(&several::plans(&words(place))?, seed)?;
            let seconds = options.span(SPAN, QUICK_SPAN);
            let run = Flow::run(&testbed, &case.peer, &Job::Bulk, seconds);
            let (flow, carried) = Carried::during(&testbed, 2, run).await;
            let (flow, mut metrics) = (flow?, Metrics::default());
            metrics.set("goodput", flow.goodput(seconds) / 1e6);
            let bytes = [0, 1].map(|link| testbed.report(link).up.delivered_bytes as f64);
            metrics.set("second", 100.0 * bytes[1] / (bytes[0] + bytes[1]).max(1.0));
            for link in 0..2 {
                metrics.draw(&format!("link {}", link + 1), carried.rates(link, flow.started));
            }
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn columns(&self) -> Vec<Column> {
        let own = [
            Column::higher("goodput", "goodput, Mbit/s", 2),
            Column::neutral("second", "bytes on the second link, %", 0),
        ];
        own.into_iter().chain(measure::queue_columns()).collect()
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        let (links, loss) = place(condition)?;
        let rate: f64 = links.iter().map(|(rate, _)| rate).sum();
        (metric == "goodput").then_some(rate * (1.0 - f64::from(loss) / 100.0) * PAYLOAD_SHARE)
    }

    fn links(&self) -> Vec<(String, String)> {
        let rows = PAIRS.iter().flat_map(|(pair, _)| LOSSES.map(|loss| format!("{pair}, {loss} %")));
        rows.filter_map(|row| Some((row.clone(), words(place(&row)?)))).collect()
    }

    fn plots(&self) -> Vec<Plot> {
        let all = PAIRS.iter().flat_map(|(pair, _)| LOSSES.map(|loss| format!("{pair}, {loss} %"))).collect();
        let one = format!("{}, 5 %", PAIRS[0].0);
        vec![
            Plot::bars("Two links at once", "goodput", all).axes("", "goodput, Mbit/s"),
            Plot::sharing(format!("whimbrel over {one}"), &one, "whimbrel").axes("time, s", "Mbit/s"),
        ]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_links_and_a_limit() {
        for case in PathsAggregate.cases(&Options { quick: false, seconds: None }) {
            assert_eq!(several::plans(&words(place(&case.condition).unwrap())).unwrap().len(), 2);
            assert!(PathsAggregate.limit(&case.condition, "goodput").unwrap() > 10.0);
        }
    }
}
