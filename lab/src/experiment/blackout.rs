//! A link that carries nothing for a while.

use super::measure::{self, millis};
use super::{About, Case, Column, Cost, Experiment, Options, Trial, peers_at};
use crate::flow::Flow;
use crate::job::{BIN, Job, Want};
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::stats::percentile;

pub(crate) struct Blackout;

const LINK: &str = "rate=4mbit, delay=25ms, queue=100ms";
const RTT_MS: f64 = 50.0;
const LENGTHS: [u32; 3] = [1, 5, 10];
/// Outage at which all peers run, in seconds. The others have only the most informative peers.
const MOST: u32 = 5;
/// Start of the outage, in seconds from the first packet.
const AT: f64 = 5.0;
/// Updates per second.
const RATE: f64 = 10.0;
const SIZE: usize = 100;
/// Names of the tables.
const BULK: &str = "Bulk";
const NEWEST: &str = "10 updates a second, the newest wanted";
const ORDERED: &str = "10 updates a second, all wanted in order";
const WITHOUT: &[&str] = &["mptcp", "tls", "whimbrel-rs", "whimbrel-cubic", "noq-bbr"];

/// Returns the table of a condition, and the seconds without a link.
fn place(condition: &str) -> Option<(&str, u32)> {
    let (table, row) = Case::place(condition);
    Some((table, row.strip_suffix(" s")?.parse().ok()?))
}

fn link(length: u32) -> String {
    format!("{LINK}, outage=at {AT}s for {length}s")
}

/// Returns the seconds of a trial, long enough for a doubling timer to fire once more.
fn span(length: u32) -> f64 {
    AT + f64::from(length) * 2.2 + 10.0
}

fn job(table: &str, length: u32) -> Job {
    let updates = |want| Job::Messages {
        size: SIZE,
        rate: RATE,
        count: ((AT + f64::from(length) + 6.0) * RATE) as u64,
        want,
    };
    match table {
        BULK => Job::Bulk,
        NEWEST => updates(Want::Newest),
        _ => updates(Want::Ordered),
    }
}

impl Experiment for Blackout {
    fn name(&self) -> &'static str {
        "blackout"
    }

    fn about(&self) -> About {
        About {
            title: "Blackouts",
            source: "the goals of the transport's own issue: silent no longer than the outage plus one round trip plus 250 ms",
            measured: "The link carries 4 Mbit/s with a round trip of 50 ms. 5 s after the first packet, both \
                       directions carry nothing for 1, 5 or 10 s. Bulk: the figure is the longest time in which the \
                       reader read nothing, less the outage. Updates: the first figure is the time from the link's \
                       return to the first update that arrives. The others are whether that update was the newest \
                       there was (1) or not (0), how many of those sent arrived, and the greatest latency. The limit \
                       is half a round trip. Where all updates are wanted, the limit of the greatest latency also has \
                       the outage. All peers are tried with 5 s, and elsewhere the few that say most.",
            why: "A sender cannot know that the link is back: it has to probe. TCP and QUIC double the time between two probes, so the silence lasts \
                  until the next one is due. Bulk over TCP with BBR was silent for longer than a doubled timer sleeps, because it resumes slowly. \
                  Whimbrel's interval stops doubling at 170 ms, or at one round trip where that is longer. Without replacement, the first message to \
                  arrive is the oldest that waited; with it, the newest.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let mut cases = Vec::new();
        for table in [BULK, NEWEST, ORDERED] {
            for length in LENGTHS.into_iter().filter(|length| !options.quick || *length == MOST) {
                // UDP has no order to show in that table. A peer that cannot replace messages has the same row in the
                // one before.
                let replaces = |name: &&str| table != ORDERED || *name == "whimbrel";
                let udp = |name: &&str| table != BULK || *name != "udp";
                let names = peers_at(length == MOST, options, &[job(table, length)], WITHOUT);
                // In a quick run, TCP shows what a doubled timer does to bulk.
                let quick = |name: &&str| !options.quick || table != BULK || *name != "quinn-bbr";
                let names = names.into_iter().filter(replaces).filter(udp).filter(quick);
                let cost = if table == BULK { Cost::LIGHT } else { Cost::Sparse };
                cases.extend(names.map(|peer| Case::new(format!("{table}: {length} s"), peer, cost)));
            }
        }
        cases
    }

    fn trial<'a>(&'a self, case: &'a Case, _: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let (table, length) =
                place(&case.condition).ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let testbed = measure::testbed(&link(length), seed)?;
            let flow = Flow::run(&testbed, &case.peer, &job(table, length), span(length)).await?;
            let mut metrics = Metrics::default();
            // The link's clock starts with the first packet, which follows the connect call.
            let down = flow.started + (AT * 1e9) as u64;
            let back = down + u64::from(length) * 1_000_000_000;
            if table == BULK {
                let silence = silence(&flow, down)
                    .ok_or_else(|| anyhow::anyhow!("nothing came after the outage in {} s", span(length)))?;
                metrics.set("silence_ms", silence - f64::from(length) * 1e3);
                metrics.draw("rate", flow.rates(span(length), 0.2));
            } else {
                updates(&mut metrics, &flow, back)?;
            }
            measure::note_queue(&mut metrics, &testbed);
            Ok(metrics)
        })
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "With updates of which the newest is wanted, QUIC's first one came sooner after the link's return than \
             ours. QUIC sends each update when it is due, ten a second. Ours asks every 170 ms with a probe that \
             carries the newest. The goal, a round trip and 250 ms, is kept. Probes as often as there are updates have \
             not been tried.",
        )
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("a trial lasts as long as its outage, and for a while after it")
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::lower("silence_ms", "silence beyond the outage, ms", 0),
            Column::lower("first_ms", "first update after the return, ms", 0),
            Column::higher("newest", "it was the newest", 0),
            Column::lower("max_ms", "latency, max, ms", 0),
            Column::neutral("arrived", "arrived, %", 1),
            Column::neutral("disorder", "arrived after a later one", 0),
        ]
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        let (table, length) = place(condition)?;
        match metric {
            "silence_ms" | "first_ms" => Some(RTT_MS / 2.0),
            "max_ms" if table == ORDERED => Some(f64::from(length) * 1e3 + RTT_MS / 2.0),
            _ => None,
        }
    }

    fn links(&self) -> Vec<(String, String)> {
        LENGTHS.map(|length| (format!("{length} s"), link(length))).to_vec()
    }

    fn plots(&self) -> Vec<Plot> {
        let points =
            |table: &str| LENGTHS.map(|length| (f64::from(length), format!("{table}: {length} s"))).to_vec();
        vec![
            Plot::curves("Bulk around an outage of 5 s", "rate", format!("{BULK}: 5 s"))
                .axes("time, s", "Mbit/s")
                .shaded(AT, AT + 5.0),
            Plot::lines("Silence beyond the outage", "silence_ms", points(BULK))
                .axes("outage, s", "ms")
                .logarithmic(),
            Plot::lines("First update after the return", "first_ms", points(NEWEST))
                .axes("outage, s", "ms")
                .logarithmic(),
        ]
    }

    fn seconds(&self, case: &Case, _: &Options) -> f64 {
        place(&case.condition).map_or(30.0, |(table, length)| match table {
            BULK => span(length) + 1.0,
            _ => AT + f64::from(length) * 1.5 + 7.0,
        })
    }
}

/// Returns the longest time without a byte that ends after `down`, in ms. `None` if nothing came after `down`.
fn silence(flow: &Flow, down: u64) -> Option<f64> {
    let after = flow.figures.bins.windows(2).filter(|pair| pair[1].0 * BIN > down);
    after.map(|pair| millis(pair[0].0 * BIN, pair[1].0 * BIN)).reduce(f64::max)
}

fn updates(metrics: &mut Metrics, flow: &Flow, back: u64) -> anyhow::Result<()> {
    let messages = &flow.figures.messages;
    let first = messages.iter().filter(|(.., at)| *at >= back).min_by_key(|(.., at)| *at);
    let (_, sent, at) = first.ok_or_else(|| anyhow::anyhow!("nothing came after the outage"))?;
    metrics.set("first_ms", millis(back, *at));
    // An update is the newest if it is at most an interval old, apart from its time on the way.
    let newest = millis(*sent, *at) <= 1e3 / RATE + RTT_MS / 2.0 + 10.0;
    metrics.set("newest", f64::from(u8::from(newest)));
    metrics.set("max_ms", percentile(&flow.latencies(), 1.0).unwrap_or(f64::NAN));
    metrics.set("arrived", 100.0 * messages.len() as f64 / flow.sent.messages.max(1) as f64);
    let overtaken = messages.windows(2).filter(|pair| pair[1].0 < pair[0].0).count();
    metrics.set("disorder", overtaken as f64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Figures, Sent};

    #[test]
    fn silence_is_the_longest_gap_after_the_link_went() {
        // There are bytes until 5 s, then none until 10.2 s. The gap before the outage does not count.
        let bins = (0..10).chain(480..500).chain(1020..1100).map(|bin| (bin, 1)).collect();
        let figures = Figures { bins, ..Figures::default() };
        let flow = Flow { started: 0, figures, sent: Sent::default() };
        assert_eq!(silence(&flow, 4_990_000_000), Some(5210.0));
        assert_eq!(silence(&flow, 20_000_000_000), None);
    }

    #[test]
    fn the_newest_is_told_from_an_old_one() {
        let second = 1_000_000_000;
        let found = |sent: u64| {
            let messages = vec![(1, 0, second), (2, sent, 10 * second + 60_000_000)];
            let flow = Flow {
                started: 0,
                figures: Figures { messages, ..Figures::default() },
                sent: Sent { messages: 2, ..Sent::default() },
            };
            let mut metrics = Metrics::default();
            updates(&mut metrics, &flow, 10 * second).unwrap();
            metrics.values
        };
        assert_eq!((found(10 * second)["newest"], found(10 * second)["first_ms"]), (1.0, 60.0));
        assert_eq!(found(5 * second)["newest"], 0.0);
    }
}
