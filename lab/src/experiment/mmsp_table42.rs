//! MMSP's Table 4.2: throughput over one link and over several.

use super::measure::PAYLOAD_SHARE;
use super::{About, Case, Column, Cost, Experiment, Options, Quoted, Trial, measure};
use crate::condition;
use crate::flow::Flow;
use crate::job::Job;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::testbed::Testbed;

pub(crate) struct MmspTable42;

/// Seconds of a trial, and of a trial in a quick run.
const SPAN: f64 = 2.0;
const QUICK_SPAN: f64 = 1.5;
/// A row: its wired and wireless links, and the Mbit/s that the paper reports for TCP and MMSP.
struct Row {
    name: &'static str,
    wired: usize,
    wireless: usize,
    tcp: Option<f64>,
    mmsp: f64,
}

const ROWS: [Row; 5] = [
    Row { name: "1 wired link", wired: 1, wireless: 0, tcp: Some(174.0), mmsp: 171.0 },
    Row { name: "1 wireless link", wired: 0, wireless: 1, tcp: Some(18.0), mmsp: 18.0 },
    Row { name: "1 wired + 1 wireless", wired: 1, wireless: 1, tcp: None, mmsp: 172.0 },
    Row { name: "1 wired + 2 wireless", wired: 1, wireless: 2, tcp: None, mmsp: 172.0 },
    Row { name: "2 wireless links", wired: 0, wireless: 2, tcp: None, mmsp: 21.0 },
];
/// A wired and a wireless link with their Mbit/s. There are the paper's, and those that such networks have today.
type Links = [(&'static str, f64); 2];
pub(super) const THEN: Links = [("mmsp-wired", 182.0), ("mmsp-802.11g", 19.0)];
pub(super) const TODAY: Links = [
    ("rate=500mbit, delay=250us, queue=20ms", 500.0),
    ("rate=100mbit, delay=2ms, jitter=1ms, queue=50ms", 100.0),
];
const TIMES: [(&str, Links); 2] = [("2008", THEN), ("today", TODAY)];
/// Mbit/s above which a trial runs alone.
const FASTEST: f64 = 300.0;

/// Returns the cost of links that carry this many Mbit/s in all.
pub(super) fn cost(mbits: f64) -> Cost {
    if mbits > FASTEST { Cost::Heavy } else { Cost::Carries(mbits) }
}

/// Describes the links of both times for the report.
pub(super) fn described() -> Vec<(String, String)> {
    let paper = ["mmsp-wired", "mmsp-802.11g"].into_iter().flat_map(measure::words);
    let today = ["today, wired", "today, wireless"].into_iter().zip(TODAY);
    paper.chain(today.map(|(name, (words, _))| (name.to_owned(), words.to_owned()))).collect()
}
const SINGLE: [&str; 2] = ["tcp-cubic", "tcp-bbr"];
const SEVERAL: [&str; 3] = ["whimbrel", "mptcp-cubic", "mptcp-bbr"];

impl Row {
    /// Returns the Mbit/s of its links in all.
    fn rate(&self, links: &Links) -> f64 {
        links[0].1 * self.wired as f64 + links[1].1 * self.wireless as f64
    }

    fn cost(&self, links: &Links) -> Cost {
        cost(self.rate(links))
    }
}

fn place(condition: &str) -> Option<(&'static Links, &'static Row)> {
    let (time, row) = Case::place(condition);
    let (_, links) = TIMES.iter().find(|(name, _)| *name == time)?;
    Some((links, ROWS.iter().find(|known| known.name == row)?))
}

impl Experiment for MmspTable42 {
    fn name(&self) -> &'static str {
        "mmsp-table42"
    }

    fn about(&self) -> About {
        About {
            title: "MMSP, Table 4.2: throughput over one link and over several",
            source: "MMSP (2008), section 4.2, Table 4.2",
            measured: "Bulk: the figure is the payload read within 2 s of the connect call. Trials above 300 Mbit/s \
                       run one at a time. Wired and wireless links have the rates that the paper's TCP found, and then \
                       500 and 100 Mbit/s. The paper's MMSP used further paths only for what it sent again. The limit \
                       is the sum of the links after TCP's headers, 1,448 of 1,500. A packet of ours carries 1,437.",
            why: "Over several links, rates add up if each path is filled independently of the others. Two links of the same kind are the easy case. \
                  Beside a link ten times as fast, a wireless link adds a tenth, and one packet that comes too late can cost as much. At 500 Mbit/s, the \
                  processor is the limit for every peer: it handles single packets in the devices of both hosts and in the link.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let mut cases = Vec::new();
        for (time, links) in TIMES.iter().filter(|(time, _)| !options.quick || *time == "2008") {
            let wanted = |row: &&Row| match (options.quick, *time) {
                (true, _) => row.wired + row.wireless == 2,
                (false, time) => time == "2008" || row.wired + row.wireless < 3,
            };
            for row in ROWS.iter().filter(wanted) {
                let single = if row.wired + row.wireless == 1 { &SINGLE[..] } else { &[] };
                let case = |peer: &&str| Case::new(format!("{time}: {}", row.name), *peer, row.cost(links));
                cases.extend(SEVERAL[..1].iter().chain(single).map(case));
                if single.is_empty() {
                    cases.extend(SEVERAL[1..].iter().map(case));
                }
            }
        }
        cases
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let (kinds, row) = place(&case.condition).ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let mut plans = Vec::new();
            for ((words, _), count) in kinds.iter().zip([row.wired, row.wireless]) {
                plans.extend(std::iter::repeat_n(condition::link(words)?, count));
            }
            let (testbed, seconds) = (Testbed::new(&plans, seed)?, options.span(SPAN, QUICK_SPAN));
            let flow = Flow::run(&testbed, &case.peer, &Job::Bulk, seconds).await?;
            let mut metrics = Metrics::default();
            metrics.set("goodput", flow.goodput(seconds) / 1e6);
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "On one link, TCP's head is shorter: 1,448 of 1,500 bytes are payload, and of ours 1,437. At several \
             hundred Mbit/s, both cores are busy with the links themselves, whose lateness is marked. The spread there \
             is the machine's.",
        )
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::higher("goodput", "goodput, Mbit/s", 1),
            Column::lower("queue_drops", "dropped at the queue, %", 1),
        ]
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        let (kinds, row) = place(condition)?;
        (metric == "goodput").then_some(row.rate(kinds) * PAYLOAD_SHARE)
    }

    fn links(&self) -> Vec<(String, String)> {
        described()
    }

    fn quoted(&self) -> Vec<Quoted> {
        const CONDITIONS: [&str; 5] = [
            "2008: 1 wired link",
            "2008: 1 wireless link",
            "2008: 1 wired + 1 wireless",
            "2008: 1 wired + 2 wireless",
            "2008: 2 wireless links",
        ];
        let mut quoted = Vec::new();
        for (condition, row) in CONDITIONS.into_iter().zip(&ROWS) {
            let found = |peer, value| Quoted { condition, peer, metric: "goodput", value };
            quoted.extend(row.tcp.map(|value| found("the paper's TCP (2008)", value)));
            quoted.push(found("the paper's MMSP (2008)", row.mmsp));
        }
        quoted
    }

    fn plots(&self) -> Vec<Plot> {
        let rows = |time: &str| ROWS.iter().map(|row| format!("{time}: {}", row.name)).collect();
        vec![
            Plot::bars("Links of 2008", "goodput", rows("2008")).axes("", "goodput, Mbit/s"),
            Plot::bars("Links of today", "goodput", rows("today")).axes("", "goodput, Mbit/s"),
        ]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_stands_beside_a_row() {
        for quoted in MmspTable42.quoted() {
            assert!(MmspTable42.limit(quoted.condition, "goodput").unwrap() > quoted.value * 0.9);
        }
    }
}
