//! Clients that connect and disconnect, and subscribers that come back by the thousand, beside live traffic.

use super::points::{self, Point};
use super::{About, Case, Column, Experiment, Options, Trial};
use crate::report::plot::Plot;

pub(crate) struct Churn;

const OURS: &str = "whimbrel";
const BY_KEY: &str = "Connects: by key with tickets, 3,000 a second";
const BY_TLS: &str = "Connects: by TLS, resumed, with a password, 1,000 a second";
const RETURN: &str = "Return: 100,000 semi-durable subscribers";

fn points() -> Vec<Point> {
    let churn = |by: &str, rate: u32, time: f64| format!("churn --by {by} --rate {rate} --time {time}");
    let few = "returning --count 1500 --within 1 --quiet 0.5";
    vec![
        Point::new(BY_KEY, OURS, churn("key", 3_000, 8.0), 22.0).quick(churn("key", 500, 0.7), 2.5),
        Point::new(BY_TLS, OURS, churn("tls", 1_000, 8.0), 22.0),
        Point::new(RETURN, OURS, "returning", 75.0).quick(few, 2.5),
    ]
}

impl Experiment for Churn {
    fn name(&self) -> &'static str {
        "churn"
    }

    fn about(&self) -> About {
        About {
            title: "Clients that come and go",
            source: "the broker's own goals: 3,000 connects and disconnects a second by key with tickets, and 1,000 by TLS; 100,000 subscribers \
                     that were away cost nothing while away, and come back within 60 s; live p99 within 2 times all the while",
            measured: "One broker over loopback, and one process of clients on the same two cores. Live traffic is 200 messages a second to 10 \
                       subscribers, and has threads of its own. Its p99 is measured without the clients and with them. By key, each client \
                       makes a session with a ticket, says hello, attaches a semi-durable subscription and leaves. \
                       By TLS, it resumes, sends CONNECT of MQTT 3.1.1 with user and password, and leaves after the answer. \
                       Of subscribers that come back, each shares a socket and a key with 999 others. They come evenly in 55 s. Each names what it \
                       has, and gets the ten messages that it missed, among a thousand of others. Then it stays. Memory is \
                       that of the broker, with the buffer.",
            why: "A ticket saves a round trip, not the key agreement, which is most of a connect. A password is checked with argon2 once, \
                  and remembered. Nothing is kept for a subscriber that is away. Recoveries take turns with live deliveries. \
                  On two cores, the clients take as much of the processor as the broker.",
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
            Column::higher("connects", "connects/s", 0),
            Column::lower("seconds", "all back after, s", 1),
            Column::lower("failed", "failed", 0),
            Column::lower("lost", "lost", 0),
            Column::lower("twice", "twice", 0),
            Column::neutral("resumed", "resumed, %", 1),
            Column::lower("p99_quiet_ms", "live p99 without, ms", 2),
            Column::lower("p99_ms", "live p99 with, ms", 2),
            Column::lower("p99_ratio", "with over without", 2),
            Column::lower("broker_us", "the broker, us a client", 0),
            Column::lower("client_us", "the client, us", 0),
            Column::lower("away_bytes", "memory while away, bytes each", 1),
            Column::lower("back_bytes", "once back, bytes each", 0),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn plots(&self) -> Vec<Plot> {
        let all = [BY_KEY, BY_TLS, RETURN].map(str::to_owned).to_vec();
        vec![Plot::bars("Live p99 with clients that come and go, over that without", "p99_ratio", all)]
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        points::seconds(&points(), case, options)
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("its rates are part of its goals")
    }

    fn needs_testbed(&self) -> bool {
        false
    }

    fn prepare(&self) -> anyhow::Result<()> {
        super::workspace::build()
    }
}
