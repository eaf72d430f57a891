//! The throughput and latency that a processor allows, without a link.

use serde::Deserialize;

use super::workspace;
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::report::plot::Plot;
use crate::sample::Metrics;

pub(crate) struct Loopback;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 1.0;
const QUICK_SPAN: f64 = 0.5;
/// Conditions, their workloads in the benches, and the peers that have them.
const LOADS: [(&str, &str, &[&str]); 5] = [
    ("Bulk: as many bytes as will go", "bulk", &["whimbrel", "quinn", "noq", "tcp", "udp"]),
    ("Messages of 50 bytes: in order, a call each", "each", &["whimbrel", "quinn", "noq", "tcp"]),
    ("Messages of 50 bytes: in order, 64 a call", "batch", &["whimbrel", "quinn", "noq", "tcp", "udp"]),
    ("Messages of 50 bytes: datagrams", "datagrams", &["whimbrel", "quinn", "noq", "udp"]),
    ("Round trip: 64 bytes there and back", "latency", &["whimbrel", "quinn", "noq", "tcp", "udp"]),
];
/// Seconds for which the benches warm up before a measurement counts.
const WARM_UP: f64 = 0.3;

#[derive(Deserialize)]
struct BenchReport {
    rows: Vec<BenchRow>,
}

#[derive(Deserialize)]
struct BenchRow {
    figures: Vec<BenchFigures>,
    failures: Vec<String>,
}

#[derive(Deserialize)]
struct BenchFigures {
    bits_per_s: f64,
    messages_per_s: f64,
    lost: f64,
    rtt_us_p50: f64,
}

impl Experiment for Loopback {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn about(&self) -> About {
        About {
            title: "Loopback",
            source: "the goals of the transport's own issue",
            measured: "The loads of `cargo xtask bench peers` run one trial at a time, with nothing beside. Two \
                       processes, each pinned to a core, run for 1 s after a warm-up of 0.3 s, and the figures are the \
                       receiver's. UDP payloads are 1,452 bytes. quinn and noq have their default settings, and TCP \
                       has TCP_NODELAY. Bare UDP with GSO and GRO is the floor: it shows what the same sockets do with \
                       nothing above them. Read it as the limit of a peer that sends pieces as large. UDP and TCP \
                       encrypt nothing. Processor time is that of both sides over all that was carried, warm-up \
                       included.",
            why: "There is no link here, so a figure shows the cost in processor time, and next to nothing about networks. Calls into the kernel are \
                  expensive. Bulk therefore depends on how many segments one call carries, and small messages on the work for each before \
                  they are put together.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let quick = |peer: &&&str| !options.quick || ["whimbrel", "quinn"].contains(*peer);
        let loads = LOADS.iter().filter(|(_, load, _)| !options.quick || ["bulk", "each"].contains(load));
        let row = |condition: &str, peer: &str| Case::new(condition, peer, Cost::Heavy);
        loads
            .flat_map(|(condition, _, peers)| {
                peers.iter().filter(quick).map(move |peer| row(condition, peer))
            })
            .collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, _: u64) -> Trial<'a> {
        Box::pin(async move {
            let load = LOADS.iter().find(|(condition, ..)| *condition == case.condition);
            let (_, load, _) = load.ok_or_else(|| anyhow::anyhow!("no such load"))?;
            let seconds = options.span(SPAN, QUICK_SPAN);
            let arguments =
                format!("--json --trials 1 --time {seconds} --peers {} --workloads {load}", case.peer);
            let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
            let before = workspace::cpu_of_children()?;
            let report: BenchReport = serde_json::from_str(&workspace::run("peers", &arguments).await?)?;
            let cpu = workspace::cpu_of_children()? - before;
            let row = report.rows.first().ok_or_else(|| anyhow::anyhow!("no row for this peer and load"))?;
            let Some(figures) = row.figures.first() else {
                anyhow::bail!("{}", row.failures.join("; "));
            };
            let mut metrics = Metrics::default();
            match *load {
                "latency" => metrics.set("rtt_us", figures.rtt_us_p50),
                "bulk" => metrics.set("gbits", figures.bits_per_s / 1e9),
                _ => metrics.set("messages", figures.messages_per_s / 1e6),
            }
            if *load != "latency" {
                let gigabytes = figures.bits_per_s / 8e9 * (seconds + WARM_UP);
                metrics.set("cpu_per_gb", cpu / gigabytes);
                metrics.set("lost", figures.lost * 100.0);
            }
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "TCP carries more in bulk, as it seals nothing. The kernel also takes TCP's segments of 64 KiB through \
             the loopback interface whole. UDP makes datagrams of 1,452 bytes of them, each of which is sealed, \
             recorded and acknowledged. docs/decisions/tried-loopback-bulk.md says what was tried to reach twice \
             quinn's rate.",
        )
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::higher("gbits", "Gbit/s", 2),
            Column::higher("messages", "M messages/s", 2),
            Column::lower("rtt_us", "round trip p50, us", 1),
            Column::lower("cpu_per_gb", "processor time, s a GB", 2),
            Column::neutral("lost", "lost, %", 1),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn plots(&self) -> Vec<Plot> {
        let one = |index: usize| vec![LOADS[index].0.to_owned()];
        let messages = LOADS[1..4].iter().map(|(condition, ..)| (*condition).to_owned()).collect();
        vec![
            Plot::bars("Bulk on loopback", "gbits", one(0)).axes("", "Gbit/s"),
            Plot::bars("Small messages on loopback", "messages", messages).axes("", "million a second"),
            Plot::bars("Round trip on loopback", "rtt_us", one(4)).axes("", "us"),
        ]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 0.6
    }

    fn needs_testbed(&self) -> bool {
        false
    }

    fn prepare(&self) -> anyhow::Result<()> {
        workspace::build()
    }
}
