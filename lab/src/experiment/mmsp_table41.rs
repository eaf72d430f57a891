//! MMSP's Table 4.1: whether a connection survives while its links go down and come up.

use std::time::Duration;

use tokio::time::sleep;

use super::measure::millis;
use super::mmsp_table42::{self, THEN, TODAY};
use super::{About, Case, Column, Cost, Experiment, Options, Quoted, Trial};
use crate::clock;
use crate::condition;
use crate::flow::Running;
use crate::job::{Job, Want};
use crate::sample::Metrics;
use crate::testbed::{LinkPlan, Side, Testbed};

pub(crate) struct MmspTable41;

/// The paper's rows in its order, and the links that go down (false) or come up (true) in each. A row starts in the
/// state that the one before ended in.
const STEPS: [(&str, &[(usize, bool)]); 6] = [
    ("1: all three paths", &[]),
    ("2: primary path disconnected", &[(0, false)]),
    ("3: primary path reconnected", &[(0, true)]),
    ("4: one secondary path disconnected", &[(1, false)]),
    ("5: both secondary paths disconnected", &[(2, false)]),
    ("6: all paths disconnected, then all back", &[(0, false), (0, true), (1, true), (2, true)]),
];
const PEERS: [&str; 5] = ["whimbrel", "mptcp-cubic", "sctp", "noq", "tcp-cubic"];
/// Duration of each state.
const STATE: Duration = Duration::from_secs(3);
/// Time without any link.
const NONE: Duration = Duration::from_secs(5);
/// Seconds for which messages go on after the last state. Changing an interface takes time on a busy machine.
const SPARE: f64 = 5.0;
const RATE: f64 = 100.0;
const SIZE: usize = 500;

/// Returns the seconds of the whole walk through the states.
fn span() -> f64 {
    (STATE * STEPS.len() as u32 + NONE).as_secs_f64()
}

/// Conditions, each with all rows: over the paper's links, and over those of today.
const PAPERS: &str = "all six states in a row";
const TODAYS: &str = "all six states in a row, links of today";

/// Returns one wired link, the primary one, and two wireless links.
fn links(condition: &str) -> anyhow::Result<Vec<LinkPlan>> {
    let [(wired, _), (wireless, _)] = if condition == TODAYS { TODAY } else { THEN };
    [wired, wireless, wireless].into_iter().map(condition::link).collect()
}

/// Goes through the rows. Returns the time at which each state began.
async fn walk(testbed: &Testbed) -> anyhow::Result<Vec<u64>> {
    let mut begun = Vec::new();
    for (_, changes) in STEPS {
        for (link, up) in changes {
            if *up {
                if changes.len() > 1 && *link == 0 {
                    sleep(NONE).await;
                }
                testbed.link_up(Side::Caller, *link)?;
            } else {
                testbed.link_down(Side::Caller, *link)?;
            }
        }
        begun.push(clock::now());
        sleep(STATE).await;
    }
    Ok(begun)
}

impl Experiment for MmspTable41 {
    fn name(&self) -> &'static str {
        "mmsp-table41"
    }

    fn about(&self) -> About {
        About {
            title: "MMSP, Table 4.1: a connection while its links go and come",
            source: "MMSP (2008), section 4.1, Table 4.1",
            measured: "There are one wired link and two wireless ones, first with the rates that the paper's TCP \
                       found and then with today's, 500 and 100 Mbit/s. 100 messages of 500 bytes a second, all \
                       wanted, go through all six states of the paper in its order, 3 s each. Interfaces of the caller \
                       are taken down and brought up. Connected is the share of the messages sent in that state that \
                       arrived in the end. The gap is the longest time without an arrival in that state. In the last \
                       state, all links come back after 5 s without any. The paper's connection had ended by then, as \
                       its timer was 5 s. TCP has the wired link alone.",
            why: "A connection with several paths lives as long as one of them works or comes back in time. A connection with a single path \
                  stands still while its link is down, and sends again when its timer fires.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let peers = PEERS.iter().filter(|peer| !options.quick || ["whimbrel", "tcp-cubic"].contains(peer));
        let conditions = if options.quick { &[PAPERS][..] } else { &[PAPERS, TODAYS] };
        let row = |condition: &&'static str, peer: &&'static str| Case::new(*condition, *peer, Cost::Sparse);
        conditions.iter().flat_map(|condition| peers.clone().map(move |peer| row(condition, peer))).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, _: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let testbed = Testbed::new(&links(&case.condition)?, seed)?;
            let count = ((span() + SPARE) * RATE) as u64;
            let job = Job::Messages { size: SIZE, rate: RATE, count, want: Want::Each };
            let flow = Running::start(&testbed, &case.peer, &job).await?;
            let (flow, begun) = tokio::join!(flow.finish(span() + SPARE + 12.0), walk(&testbed));
            let (flow, begun, mut metrics) = (flow?, begun?, Metrics::default());
            let messages = &flow.figures.messages;
            for (state, from) in begun.iter().enumerate() {
                let until = from + STATE.as_nanos() as u64;
                let sent = messages.iter().filter(|(_, sent, _)| (*from..until).contains(sent)).count();
                let expected = STATE.as_secs_f64() * RATE;
                metrics.set(CONNECTED[state], (100.0 * sent as f64 / expected).min(100.0));
                let mut arrivals: Vec<u64> = messages.iter().map(|(.., at)| *at).collect();
                arrivals.retain(|at| (*from..until).contains(at));
                arrivals.extend([*from, until]);
                arrivals.sort_unstable();
                metrics.set(
                    GAP[state],
                    arrivals.windows(2).map(|two| millis(two[0], two[1])).fold(0.0, f64::max),
                );
            }
            metrics.set("lost", flow.figures.lost(count) as f64);
            Ok(metrics)
        })
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("a trial is six states of 3 s")
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some("On one link, TCP's head is shorter: 1,448 of 1,500 bytes are payload, and of ours 1,437.")
    }

    fn columns(&self) -> Vec<Column> {
        let rows = TITLES.iter().enumerate().flat_map(|(state, (connected, gap))| {
            [Column::higher(CONNECTED[state], connected, 0), Column::lower(GAP[state], gap, 0)]
        });
        rows.chain([Column::lower("lost", "lost in all", 0)]).collect()
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn links(&self) -> Vec<(String, String)> {
        mmsp_table42::described()
    }

    fn quoted(&self) -> Vec<Quoted> {
        let values = [100.0, 100.0, 100.0, 100.0, 100.0, 0.0];
        let row = |(state, value): (usize, f64)| Quoted {
            condition: PAPERS,
            peer: "the paper's MMSP (2008)",
            metric: CONNECTED[state],
            value,
        };
        values.into_iter().enumerate().map(row).collect()
    }

    fn seconds(&self, _: &Case, _: &Options) -> f64 {
        span() + SPARE + 4.0
    }
}

const CONNECTED: [&str; 6] =
    ["connected1", "connected2", "connected3", "connected4", "connected5", "connected6"];
const GAP: [&str; 6] = ["gap1", "gap2", "gap3", "gap4", "gap5", "gap6"];
const TITLES: [(&str, &str); 6] = [
    ("1 all three: connected, %", "gap, ms"),
    ("2 primary gone: connected, %", "gap, ms"),
    ("3 primary back: connected, %", "gap, ms"),
    ("4 one secondary gone: connected, %", "gap, ms"),
    ("5 both gone: connected, %", "gap, ms"),
    ("6 all gone and back: connected, %", "gap, ms"),
];
