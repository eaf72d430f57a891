//! One of two links, or both, carry nothing for a while.

use std::future::pending;
use std::time::Duration;

use tokio::time::sleep;

use super::measure::millis;
use super::several::{self, Carried};
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::clock;
use crate::flow::Running;
use crate::job::Job;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::testbed::Testbed;

pub(crate) struct PathsDark;

/// The two links: Mbit/s, and one-way delay in ms.
const LINKS: [(f64, u32); 2] = [(10.0, 10), (5.0, 30)];
const CARRIES: Cost = Cost::Carries(LINKS[0].0 + LINKS[1].0);
/// Start of the outage, in seconds from the first packet of each link.
const AT: f64 = 5.0;
const ONE: &str = "the first link: 5 s";
const BOTH: [u32; 3] = [5, 30, 60];
/// Seconds after its return for which a trial with one dark link is measured.
const AFTER: f64 = 4.0;
/// A trial with both links dark ends this long after the links have carried [`ENOUGH`] bytes again. By then something
/// has been read.
const SEEN: Duration = Duration::from_secs(1);
const ENOUGH: u64 = 200_000;

/// Returns the seconds of the outage, and whether both links go dark.
fn place(condition: &str) -> Option<(f64, bool)> {
    let (which, length) = Case::place(condition);
    Some((length.strip_suffix(" s")?.parse().ok()?, which == "both links"))
}

fn words((length, both): (f64, bool)) -> String {
    let mut links = LINKS.map(|(rate, delay)| format!("rate={rate}mbit, delay={delay}ms, queue=100ms"));
    for link in links.iter_mut().take(if both { 2 } else { 1 }) {
        link.push_str(&format!(", outage=at {AT}s for {length}s"));
    }
    links.join(" | ")
}

/// Returns the seconds of a trial, long enough for a doubling timer to fire once more.
fn span((length, both): (f64, bool)) -> f64 {
    AT + length + if both { length * 1.2 + 5.0 } else { AFTER }
}

/// Waits until data has come through after `back`.
async fn resumed(testbed: &Testbed, back: u64) {
    sleep(Duration::from_nanos(back.saturating_sub(clock::now()))).await;
    let bytes = || (0..LINKS.len()).map(|link| testbed.report(link).up.delivered_bytes).sum::<u64>();
    let before = bytes();
    while bytes() < before + ENOUGH {
        sleep(Duration::from_millis(100)).await;
    }
    sleep(SEEN).await;
}

impl Experiment for PathsDark {
    fn name(&self) -> &'static str {
        "paths-dark"
    }

    fn about(&self) -> About {
        About {
            title: "Links that go dark",
            source: "the goals for several paths: with one of two dark no gap above 150 ms, both in use within 1 s of its return; with \
                     both dark something arrives within one round trip and 250 ms of the return",
            measured: "Bulk goes over 10 Mbit/s with a round trip of 20 ms and 5 Mbit/s with one of 60 ms, each with \
                       a queue of 100 ms. A link carries nothing in either direction from 5 s after the first packet \
                       on it, and gives no sign of that. One link: the first figure is the longest time without a byte \
                       read, from then until 4 s after the link's return, in steps of 10 ms. The second is when after \
                       its return that link carries half its rate again over 0.2 s. Both links: the figure is the time \
                       from the first link's return to the first byte read. TCP has the first link alone. The limit is \
                       half a round trip.",
            why: "When a link fails, the data in flight on it is not known to be lost until its acknowledgement is overdue. It can then be sent on the \
                  other link at once, or wait for a timer. A receiver with a single order has nothing to read until that gap is filled. Only an answer \
                  to a probe tells a sender that a link is back, so the interval between probes decides.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let one = several::peers(options.quick).iter().map(|peer| Case::new(ONE, *peer, CARRIES));
        let both = BOTH.into_iter().filter(|_| !options.quick);
        let both = both.flat_map(|length| {
            let peers = several::peers(length > 5).iter();
            // Most of the time, neither link carries anything.
            let cost = if length > 5 { Cost::Carries(1.0) } else { CARRIES };
            peers.map(move |peer| Case::new(format!("both links: {length} s"), *peer, cost))
        });
        one.chain(both).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, _: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let place = place(&case.condition).ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let (length, both) = place;
            let testbed = Testbed::new(&several::plans(&words(place))?, seed)?;
            let flow = Running::start(&testbed, &case.peer, &Job::Bulk).await?;
            let down = flow.started() + (AT * 1e9) as u64;
            let back = down + (length * 1e9) as u64;
            let seen = async { if both { resumed(&testbed, back).await } else { pending().await } };
            let (flow, carried) = Carried::during(&testbed, 2, flow.finish_early(span(place), seen)).await;
            let (flow, mut metrics) = (flow?, Metrics::default());
            if both {
                let first =
                    flow.figures.bins.iter().map(|(bin, _)| bin * crate::job::BIN).find(|at| *at >= back);
                let first = first.ok_or_else(|| {
                    anyhow::anyhow!("nothing came after the outage in {} s", span(place) - AT - length)
                })?;
                metrics.set("first_ms", millis(back, first));
            } else {
                let end = back + (AFTER * 1e9) as u64 - crate::job::BIN;
                metrics.set("gap_ms", flow.figures.longest_gap(down, end) * 1e3);
                let again = carried.reaches(0, back, LINKS[0].0 * 1e6 / 2.0);
                metrics.set("again_ms", again.map_or(f64::NAN, |at| millis(back, at)));
            }
            for link in 0..2 {
                metrics.draw(&format!("link {}", link + 1), carried.rates(link, flow.started));
            }
            metrics.draw("rate", flow.rates(span(place), 0.2));
            Ok(metrics)
        })
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("a trial lasts as long as its outage, and for a while after it")
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::lower("gap_ms", "longest gap, ms", 0),
            Column::lower("again_ms", "both in use after the return, ms", 0),
            Column::lower("first_ms", "first byte after the return, ms", 0),
        ]
    }

    fn limit(&self, _: &str, metric: &str) -> Option<f64> {
        (metric == "first_ms").then_some(f64::from(LINKS[0].1))
    }

    fn links(&self) -> Vec<(String, String)> {
        let both = BOTH.map(|length| format!("both links: {length} s"));
        let rows = [ONE.to_owned()].into_iter().chain(both);
        rows.filter_map(|row| Some((row.clone(), words(place(&row)?)))).collect()
    }

    fn plots(&self) -> Vec<Plot> {
        vec![
            Plot::curves("One of two links is dark for 5 s", "rate", ONE)
                .axes("time, s", "Mbit/s")
                .shaded(AT, AT + 5.0),
            Plot::sharing("whimbrel, link by link", ONE, "whimbrel")
                .axes("time, s", "Mbit/s")
                .shaded(AT, AT + 5.0),
        ]
    }

    fn seconds(&self, case: &Case, _: &Options) -> f64 {
        // A peer that resumes quickly ends its trial early.
        let early = |(length, both): (f64, bool)| if both { length * 0.5 } else { 0.0 };
        place(&case.condition).map_or(30.0, |place| span(place) - early(place)) + 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_links_that_are_meant_go_dark() {
        for case in PathsDark.cases(&Options { quick: false, seconds: None }) {
            let place = place(&case.condition).unwrap();
            assert_eq!(several::plans(&words(place)).unwrap().len(), 2);
            assert_eq!(
                words(place).matches("outage").count(),
                if place.1 { 2 } else { 1 },
                "{}",
                case.condition
            );
        }
    }
}
