//! Links drawn from a seed, so that nothing can be tuned to a list of them.

mod draws;
mod findings;

use std::time::Duration;

use whimbrel_link::{Drawn, LinkStats};

use super::measure::queue_columns;
use super::{About, Case, Column, Cost, Experiment, Options, Trial, few};
use crate::flow::Flow;
use crate::job::{Job, Want};
use crate::report::goal::Goal;
use crate::sample::{Metrics, Record};
use crate::stats::percentile;
use crate::testbed::{LinkPlan, Testbed};

pub(crate) struct RandomLinks;

/// The draws of a whole and of a quick run.
const DRAWS: u64 = 200;
const QUICK_DRAWS: u64 = 1;
/// The highest rate, in bits per second.
const MOST: u64 = 200_000_000;
/// Seconds of bulk, of a quick run, and those in which a sender may fill the queue.
const SPAN: f64 = 30.0;
const QUICK_SPAN: f64 = 4.0;
const FIRST: Duration = Duration::from_secs(2);
/// Names of the tables.
const BULK: &str = "Bulk";
const TRANSFER: &str = "Transfer";
const MESSAGES: &str = "Messages";
/// All draws are one row.
const ALL: &str = "all draws";
const TRANSFERRED: u64 = 100_000;
/// Messages a second, their bytes, the bytes of each with all headers, and seconds.
const RATE: f64 = 50.0;
const SIZE: usize = 100;
const PACKET: u64 = 160;
const MESSAGES_SPAN: f64 = 20.0;
/// Seconds after the last message was sent in which arrivals still count.
const SETTLE: f64 = 15.0;
/// Names of figures.
const SHARE: &str = "share";
const DROPPED: &str = "dropped";
const DROPPED_LATER: &str = "dropped_later";
const QUEUED: &str = "queue_p95_ms";
const TOOK: &str = "transfer_ms";
const LATE: &str = "p99_ms";

fn condition(table: &str) -> String {
    format!("{table}: {ALL}")
}

/// Other draws than those of the simulator's tests, by which the transport was tuned.
const HELD_OUT: u64 = 2_000_000;

/// The link of a draw.
pub(super) fn drawn(seed: u64) -> Drawn {
    Drawn::new(HELD_OUT + seed, MOST)
}

/// Whether the link has room for the messages: they take under half its lowest rate.
fn is_roomy(drawn: &Drawn) -> bool {
    drawn.lowest() > 2 * RATE as u64 * PACKET * 8
}

impl Experiment for RandomLinks {
    fn name(&self) -> &'static str {
        "random-links"
    }

    fn about(&self) -> About {
        About {
            title: "Links drawn from a seed",
            source: "the goals of the transport's issue on hard links",
            measured: "A draw is a link: rate, round trip, queue and what makes it hard come from the seed of the \
                       trial (`whimbrel_link::Drawn`, where the probabilities are). All peers meet the same draws. Bulk: \
                       the payload that the receiver has read within 30 s of the connect call, as a share of what the \
                       draw leaves to an ideal sender. Drops count from the third second on. Transfer: 100 KB, the time from \
                       the connect call to the last byte. Messages: 50 a second of 100 bytes for 20 s, each wanted as soon as it is there, where \
                       they take under half of the lowest rate. The spread is that of the draws.",
            why: "A list of links invites tuning to the list. A draw has up to ten reasons to be hard, alone or together.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let messages = Job::Messages { size: SIZE, rate: RATE, count: 1, want: Want::Each };
        let jobs =
            [(BULK, Job::Bulk), (TRANSFER, Job::Transfer { bytes: TRANSFERRED }), (MESSAGES, messages)];
        let tables = jobs.into_iter().filter(|(table, _)| !options.quick || *table == BULK);
        let cases = tables.flat_map(|(table, job)| {
            let peers = few(std::slice::from_ref(&job));
            peers.into_iter().map(move |peer| Case::new(condition(table), peer, Cost::LIGHT))
        });
        cases.collect()
    }

    fn trials(&self, options: &Options) -> Option<u64> {
        Some(if options.quick { QUICK_DRAWS } else { DRAWS })
    }

    fn cost(&self, case: &Case, seed: u64) -> Cost {
        match Case::place(&case.condition).0 {
            MESSAGES => Cost::Sparse,
            _ => Cost::Carries(drawn(seed).rate as f64 / 1e6),
        }
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let drawn = drawn(seed);
            let plan = LinkPlan { up: drawn.up.clone(), down: drawn.down.clone() };
            let testbed = Testbed::new(&[plan], seed)?;
            let mut metrics = Metrics::default();
            match Case::place(&case.condition).0 {
                BULK => bulk(&testbed, case, options.span(SPAN, QUICK_SPAN), &drawn, &mut metrics).await?,
                TRANSFER => {
                    let job = Job::Transfer { bytes: TRANSFERRED };
                    let flow = Flow::run(&testbed, &case.peer, &job, patience(&drawn)).await?;
                    metrics.set(TOOK, flow.duration() * 1e3);
                }
                _ if is_roomy(&drawn) => messages(&testbed, case, &mut metrics).await?,
                _ => {}
            }
            metrics.set(DROPPED, dropped(&testbed.report(0).up, &LinkStats::default()));
            Ok(metrics)
        })
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("a transfer has a fixed number of bytes, and messages are sent for 20 s")
    }

    fn columns(&self) -> Vec<Column> {
        let [queued, _] = queue_columns();
        vec![
            Column::higher(SHARE, "of what the link leaves, %", 1),
            Column::lower(TOOK, "time, ms", 0),
            Column::lower(LATE, "p99, ms", 0),
            Column::lower(DROPPED_LATER, "dropped after 2 s, %", 1),
            queued,
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn goals(&self, record: &Record) -> Vec<Goal> {
        findings::goals(record)
    }

    fn findings(&self, record: &Record) -> Vec<String> {
        findings::all(record)
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        match Case::place(&case.condition).0 {
            BULK => options.span(SPAN, QUICK_SPAN) + 1.0,
            TRANSFER => 40.0,
            _ => MESSAGES_SPAN + 3.0,
        }
    }
}

/// How long a transfer may take, in seconds.
fn patience(drawn: &Drawn) -> f64 {
    (5.0 * drawn.first_left(TRANSFERRED as f64).as_secs_f64()).clamp(10.0, 120.0)
}

async fn bulk(
    testbed: &Testbed,
    case: &Case,
    seconds: f64,
    drawn: &Drawn,
    metrics: &mut Metrics,
) -> anyhow::Result<()> {
    let first = async {
        tokio::time::sleep(FIRST).await;
        testbed.report(0).up
    };
    let (flow, first) = tokio::join!(Flow::run(testbed, &case.peer, &Job::Bulk, seconds), first);
    let bytes = flow?.goodput(seconds) * seconds / 8.0;
    let stats = testbed.report(0).up;
    metrics.set(SHARE, 100.0 * bytes / drawn.leaves(Duration::from_secs_f64(seconds)));
    metrics.set(DROPPED_LATER, dropped(&stats, &first));
    metrics.set(QUEUED, stats.queue_delay.quantile(0.95).as_secs_f64() * 1e3);
    Ok(())
}

async fn messages(testbed: &Testbed, case: &Case, metrics: &mut Metrics) -> anyhow::Result<()> {
    let count = (MESSAGES_SPAN * RATE) as u64;
    let job = Job::Messages { size: SIZE, rate: RATE, count, want: Want::Each };
    let flow = Flow::run(testbed, &case.peer, &job, MESSAGES_SPAN + SETTLE).await?;
    let mut latencies = flow.latencies();
    // What never came is later than anything.
    latencies.resize(latencies.len().max(flow.sent.messages as usize), SETTLE * 1e3);
    metrics.set(LATE, percentile(&latencies, 0.99).unwrap_or(f64::NAN));
    Ok(())
}

/// The percentage of packets that the queue or the policer dropped since `before`.
fn dropped(stats: &LinkStats, before: &LinkStats) -> f64 {
    let offered = stats.offered.saturating_sub(before.offered).max(1);
    let drops = |stats: &LinkStats| stats.queue_drops + stats.policed;
    100.0 * drops(stats).saturating_sub(drops(before)) as f64 / offered as f64
}
