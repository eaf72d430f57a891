//! MMSP's Figures 4.1 and 4.2: a primary link that damages packets.

use super::measure::{self, PAYLOAD_SHARE};
use super::mmsp_table42::{self, THEN, TODAY, cost};
use super::{About, Case, Column, Experiment, Options, Trial};
use crate::condition;
use crate::flow::Flow;
use crate::job::Job;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::testbed::{LinkPlan, Testbed};

pub(crate) struct MmspFigures;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 2.0;
const QUICK_SPAN: f64 = 1.5;
/// Figures, with their primary and secondary links and the Mbit/s of both.
const FIGURES: [(&str, [(&str, f64); 2]); 4] = [
    ("Figure 4.1, wired primary", THEN),
    ("Figure 4.2, wireless primary", [THEN[1], THEN[0]]),
    ("Figure 4.1 with links of today, wired primary", TODAY),
    ("Figure 4.2 with links of today, wireless primary", [TODAY[1], TODAY[0]]),
];
/// Percentage of packets damaged on the primary link. A damaged packet does not arrive.
const DAMAGED: [u32; 4] = [0, 10, 40, 80];
const PEERS: [&str; 3] = ["whimbrel", "mptcp-bbr", "tcp-bbr"];

fn place(condition: &str) -> Option<([(&'static str, f64); 2], u32)> {
    let (figure, damaged) = Case::place(condition);
    let (_, links) = FIGURES.into_iter().find(|(name, _)| *name == figure)?;
    Some((links, damaged.strip_suffix(" %")?.parse().ok()?))
}

/// Returns the Mbit/s that the links carry at most. TCP uses the primary link alone.
fn carried([primary, secondary]: [(&str, f64); 2], peer: &str) -> f64 {
    primary.1 + if peer.starts_with("tcp") { 0.0 } else { secondary.1 }
}

fn plans(links: [(&str, f64); 2], damaged: u32) -> anyhow::Result<Vec<LinkPlan>> {
    let mut plans = Vec::new();
    for (name, _) in links {
        plans.push(condition::link(name)?);
    }
    plans[0].up.set("loss", &format!("{damaged}%"))?;
    Ok(plans)
}

impl Experiment for MmspFigures {
    fn name(&self) -> &'static str {
        "mmsp-figures"
    }

    fn about(&self) -> About {
        About {
            title: "MMSP, Figures 4.1 and 4.2: a primary link that damages what it carries",
            source: "MMSP (2008), section 4.2, Figures 4.1 and 4.2",
            measured: "Bulk: the figure is the payload read within 2 s of the connect call. On the first link, the \
                       given share of the packets from caller to server is damaged, and so never arrives. TCP has that \
                       link alone. The others have a second, sound one beside it: wireless in Figure 4.1, wired in \
                       Figure 4.2. The paper damaged whole parts of 100 MB in its program, up to 80 %. It also had a \
                       second wireless link, which carried nothing. The limit is what both links leave after damage \
                       and TCP's headers.",
            why: "BBR does not take each loss for congestion, and with one damaged packet in ten it uses most of what is left. At four in ten, \
                  TCP's retransmissions are damaged so often that it waits for its timer, which doubles each time. With a sound link beside the damaged \
                  one, retransmissions can take the sound link, and so can data. In Figure 4.2 the sound link is ten times as fast.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let mut cases = Vec::new();
        let figures = FIGURES.into_iter().take(if options.quick { 2 } else { FIGURES.len() });
        for (figure, links) in figures {
            for damaged in DAMAGED.into_iter().filter(|damaged| !options.quick || *damaged == 10) {
                let peers =
                    PEERS.iter().filter(|peer| !options.quick || ["whimbrel", "tcp-bbr"].contains(peer));
                let name = format!("{figure}: {damaged} %");
                let case = |peer: &&str| Case::new(&name, *peer, cost(carried(links, peer)));
                cases.extend(peers.map(case));
            }
        }
        cases
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let (links, damaged) =
                place(&case.condition).ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let (testbed, seconds) =
                (Testbed::new(&plans(links, damaged)?, seed)?, options.span(SPAN, QUICK_SPAN));
            let flow = Flow::run(&testbed, &case.peer, &Job::Bulk, seconds).await?;
            let mut metrics = Metrics::default();
            metrics.set("goodput", flow.goodput(seconds) / 1e6);
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "At 80 %, many trials read nothing at all, whoever the peer, even with the sound link beside. A \
             connection is set up over the first link alone, since only then do the two sides tell each other of a \
             second one. Two packets in a row from the caller have to survive it, which one pair in 25 does. Each try \
             waits longer than the one before, so 2 s are over first. Two trials that had read nothing in 2 s were \
             repeated with the same dice and 6 s. They read their first bytes after 3.0 and 3.5 s, and then at most at \
             the sound link's rate. MPTCP's read nothing in 6 s either. Setting up over several links at once has not \
             been tried.",
        )
    }

    fn columns(&self) -> Vec<Column> {
        let own = [Column::higher("goodput", "goodput, Mbit/s", 2)];
        own.into_iter().chain(measure::queue_columns()).collect()
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        let ([(_, primary), (_, secondary)], damaged) = place(condition)?;
        let left = primary * (1.0 - f64::from(damaged) / 100.0) + secondary;
        (metric == "goodput").then_some(left * PAYLOAD_SHARE)
    }

    fn links(&self) -> Vec<(String, String)> {
        mmsp_table42::described()
    }

    fn plots(&self) -> Vec<Plot> {
        let plot = |(figure, _): (&str, _)| {
            let points = DAMAGED.map(|damaged| (f64::from(damaged), format!("{figure}: {damaged} %")));
            Plot::lines(figure, "goodput", points.to_vec())
                .axes("damaged on the primary link, %", "goodput, Mbit/s")
        };
        FIGURES.map(plot).to_vec()
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_primary_link_damages() {
        for case in MmspFigures.cases(&Options { quick: false, seconds: None }) {
            let (links, damaged) = place(&case.condition).unwrap();
            let plans = plans(links, damaged).unwrap();
            assert_eq!(plans[0].up == condition::link(links[0].0).unwrap().up, damaged == 0);
            assert_eq!(plans[1].up, condition::link(links[1].0).unwrap().up);
        }
    }
}
