//! Durable publishing, beside what the disk allows.

use super::points::{self, Point};
use super::{About, Case, Column, Experiment, Options, Trial};
use crate::report::plot::Plot;

pub(crate) struct Durable;

const OURS: &str = "whimbrel";
const FEW: &str = "Publishing: 1,000 in flight";
const MANY: &str = "Publishing: 8,000 in flight, of eight publishers";
const KILLED: &str = "Return after kill -9: 2,000,000 messages stored";

fn points() -> Vec<Point> {
    vec![
        Point::new(FEW, OURS, "durable", 10.0).quick("durable --turns 3 --time 0.2", 2.5),
        Point::new(MANY, OURS, "durable --publishers 8", 10.0),
        Point::new(KILLED, OURS, "durable --kill-after 2000000", 60.0),
    ]
}

impl Experiment for Durable {
    fn name(&self) -> &'static str {
        "durable"
    }

    fn about(&self) -> About {
        About {
            title: "Durable publishing, and the return of a broker that was killed",
            source: "the broker's own goals: durable publishing with `sync` at one replica reaches 80 % of the bare log's rate in the same run; recovery \
                     after kill -9 with 2 M messages takes less than a second",
            measured: "Messages of 128 bytes, acknowledged once they are on disk. Three ways take turns of 0.3 s on the same disk: publishers of a \
                       broker over loopback, the broker's log alone in this process, and a bare loop. The loop writes as many bytes as a group of \
                       the log has, and calls `fdatasync`. The broker has as many messages in flight as the log. A broker that was killed \
                       with its messages stored is started again with the same files. Its time ends when it says that it listens, and when a durable subscriber has the first message.",
            why: "Messages that wait for the disk go there together. So the rate is that of `fdatasync` times the size of a group, and \
                  a publisher's credit limits the group. After a crash, the log reads its last segment, and of the others only their \
                  indices.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        points::cases(&points(), options)
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, _: u64) -> Trial<'a> {
        Box::pin(points::trial(points(), case, options, None))
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::higher("broker", "through a broker, messages/s", 0),
            Column::higher("log", "its log alone, messages/s", 0),
            Column::higher("bare", "the bare loop, messages/s", 0),
            Column::neutral("group", "messages of a group", 0),
            Column::higher("broker_share", "broker over bare loop, %", 0),
            Column::higher("log_share", "log over bare loop, %", 0),
            Column::lower("recovery_ms", "serves again after, ms", 0),
            Column::lower("first_ms", "first stored message after, ms", 0),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn plots(&self) -> Vec<Plot> {
        let all = vec![FEW.to_owned(), MANY.to_owned()];
        vec![Plot::bars("Durable publishing over the bare loop", "broker_share", all).axes("", "%")]
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        points::seconds(&points(), case, options)
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("its turns are short, so that a disk whose speed changes is the same for all")
    }

    fn needs_testbed(&self) -> bool {
        false
    }

    fn prepare(&self) -> anyhow::Result<()> {
        super::workspace::build()
    }
}
