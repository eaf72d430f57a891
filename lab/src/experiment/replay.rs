//! How fast one subscriber gets all that a buffer holds.

use super::points::{self, Point};
use super::{About, Case, Column, Experiment, Options, Trial};
use crate::report::plot::Plot;

pub(crate) struct Replay;

const OURS: &str = "whimbrel";
const IN_PROCESS: [&str; 2] = ["In process: all", "In process: a tenth, by a selector"];
const LOOPBACK: [&str; 2] = ["Over loopback: all", "Over loopback: a tenth, by a selector"];

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (conditions, place) in [(IN_PROCESS, " --in-process"), (LOOPBACK, "")] {
        for (condition, tenth) in conditions.into_iter().zip(["", " --tenth"]) {
            let load = |messages: u64, rounds: u64| {
                format!("replay --messages {messages} --rounds {rounds}{place}{tenth}")
            };
            let row = Point::new(condition, OURS, load(1_000_000, 5), 15.0);
            points.push(if tenth.is_empty() { row.quick(load(100_000, 3), 1.5) } else { row });
        }
    }
    points
}

impl Experiment for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn about(&self) -> About {
        About {
            title: "Replay of a buffer to one subscriber",
            source: "the broker's own goals: 5 M messages of 128 bytes a second in process, 1 M over loopback, half of that with a selector \
                     that takes a tenth",
            measured: "A buffer holds a million messages of 128 bytes, each with one property. A new semi-durable subscription begins with all that is \
                       held. In process, a reader passes them, and nothing is encoded or sent. Over loopback, the broker is a process of its own, and \
                       a raw client counts deliveries. Its time begins with the request to connect a subscription. *Passed* are the messages \
                       that the reader looks at, whether it wants them or not. The figures of a trial are the median of five replays.",
            why: "Reading a message takes one look-up by arrival and the check of what the subscriber has. Over loopback, the transport at \
                  both ends costs more than the broker: sealing, packets and acknowledgements.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        points::cases(&points(), options)
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, _: u64) -> Trial<'a> {
        Box::pin(points::trial(points(), case, options, None))
    }

    fn columns(&self) -> Vec<Column> {
        vec![Column::higher("passed", "passed, M/s", 2), Column::higher("delivered", "delivered, M/s", 2)]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn plots(&self) -> Vec<Plot> {
        let all = IN_PROCESS.into_iter().chain(LOOPBACK).map(str::to_owned).collect();
        vec![Plot::bars("Replay of 128-byte messages", "passed", all).axes("", "million a second")]
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        points::seconds(&points(), case, options)
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("a trial is five replays")
    }

    fn needs_testbed(&self) -> bool {
        false
    }

    fn prepare(&self) -> anyhow::Result<()> {
        super::workspace::build()
    }
}
