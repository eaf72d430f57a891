//! Figures 4, 5, 7, 8, 9 and 12 (a) of the paper on semi-durable subscriptions: the throughput of brokers whose subscribers roam.

use super::points::{self, Point};
use super::{About, Case, Column, Experiment, Options, Quoted, Trial};
use crate::report::plot::Plot;

pub(crate) struct AcmMobility;

const NONDURABLE: &str = "nondurable";
const SEMI_DURABLE: &str = "semi-durable";
const DURABLE: &str = "durable";
/// Seconds of a trial, and of a quick one.
const SPAN: f64 = 4.0;
const QUICK_SPAN: f64 = 1.0;
/// What a trial takes beside: brokers and 200 subscribers that begin, and the rest that is waited for.
const BESIDE: f64 = 4.0;
const FIXED: &str = "fixed subscribers";
const MOBILE: &str = "mobile subscribers";
const RATE: &str = "Figure 7, at a given rate: 285.29 a second, 20 times as fast";
const SHARES: [f64; 6] = [0.0, 0.01, 0.025, 0.05, 0.0742, 0.15];
const SIZES: [u32; 4] = [50, 100, 200, 500];
const POLICIES: [&str; 3] = ["lrp", "ran", "pwp"];

fn away(share: f64) -> String {
    format!("Figure 8, frequency of handoffs: away for {} % of the time", percent(share))
}

/// The share in percent, with two digits after the point at most.
fn percent(share: f64) -> f64 {
    (share * 1e4).round() / 100.0
}

fn size(bytes: u32) -> String {
    format!("Figure 9, message size: {bytes} bytes")
}

fn policy(name: &str) -> String {
    format!("Figure 12 (a), overwriting policies: {name}")
}

/// The load of a row. Buffers are large enough for the rate, as the paper's are.
fn load(promise: &str, more: &str, seconds: f64) -> String {
    format!("roam --promise {promise} --speed 20 --slots 1000000 --time {seconds} {more}")
}

fn point(condition: String, promise: &str, more: &str) -> Point {
    Point::new(condition, promise, load(promise, more, SPAN), SPAN + BESIDE)
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (figure, promise, brokers) in [("Figure 4", NONDURABLE, 2), ("Figure 5", DURABLE, 1)] {
        for (subscribers, share) in [(FIXED, 0.0), (MOBILE, 0.0742)] {
            let more = format!("--share {share} --brokers {brokers}");
            points.push(point(format!("{figure}, {promise}: {subscribers}"), promise, &more));
        }
    }
    for promise in [NONDURABLE, SEMI_DURABLE, DURABLE] {
        let brokers = if promise == DURABLE { 1 } else { 2 };
        let more = format!("--rate 5705.8 --brokers {brokers}");
        points.push(point(RATE.to_owned(), promise, &more));
    }
    for promise in [NONDURABLE, SEMI_DURABLE] {
        for share in SHARES {
            let more = format!("--share {share}");
            let row = point(away(share), promise, &more);
            let quick = load(promise, &more, QUICK_SPAN);
            points.push(if share == 0.0742 { row.quick(quick, QUICK_SPAN + 2.5) } else { row });
        }
        points.extend(SIZES.map(|bytes| point(size(bytes), promise, &format!("--size {bytes}"))));
    }
    points.extend(POLICIES.map(|name| point(policy(name), SEMI_DURABLE, &format!("--policy {name}"))));
    points
}

impl Experiment for AcmMobility {
    fn name(&self) -> &'static str {
        "acm-mobility"
    }

    fn about(&self) -> About {
        About {
            title: "Throughput of brokers whose subscribers roam",
            source: "Farooq, Majumdar and Parsons, High performance publish/subscribe middleware for mobile wireless networks (2007), \
                     Figures 4, 5, 7, 8, 9 and 12 (a)",
            measured: "Two brokers, one publisher and 200 subscribers with the defaults of Table 1, over loopback. Each message has a random \
                       value of 100, and each subscriber selects ten of them. Subscribers follow the paper's mobility model, 20 times as fast: \
                       a mean absence takes 0.6 s. Buffers have ten partitions with a million slots in all, since the rates are \
                       hundreds of times those of the paper. X_P is the number of messages a second that the publisher delivers. It publishes \
                       as fast as subscribers keep up: none that is connected and has caught up may lag by 500 messages of its tenth. X_S is what \
                       all subscribers receive, over the fan-out. L is what they lose. Whoever leaves says so to the broker. Durable \
                       subscriptions have one broker, and its log is on disk. The paper's wireless link of 220 kB/s is left out.",
            why: "Nondurable subscribers get nothing of what they miss, so each message is delivered to fewer of them. Semi-durable ones get \
                  all of it, and each gets what it missed by itself, while live deliveries are made once for all who select the same. \
                  Durable subscriptions write every message to disk and each acknowledgement too.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        points::cases(&points(), options)
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(points::trial(points(), case, options, Some(seed)))
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::higher("published", "X_P, messages/s", 0),
            Column::higher("received", "X_S, messages/s", 0),
            Column::lower("lost", "L, %", 3),
            Column::higher("kilobytes", "delivered of X_S, kB/s", 0),
            Column::neutral("reconnects", "reconnects/s", 1),
            Column::lower("broker_us", "brokers, us a message", 1),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn quoted(&self) -> Vec<Quoted> {
        let row = |condition, peer, metric, value| Quoted { condition, peer, metric, value };
        const DEFAULTS: &str = "Figure 8, frequency of handoffs: away for 7.42 % of the time";
        const LRP: &str = "Figure 12 (a), overwriting policies: lrp";
        const PWP: &str = "Figure 12 (a), overwriting policies: pwp";
        vec![
            row(DEFAULTS, "the paper's semi-durable (2007)", "published", 285.29),
            row(DEFAULTS, "the paper's semi-durable (2007)", "lost", 0.18),
            row(DEFAULTS, "the paper's nondurable (2007)", "lost", 7.45),
            row(LRP, "the paper's (2007)", "received", 289.79),
            row(PWP, "the paper's (2007)", "received", 258.63),
        ]
    }

    fn plots(&self) -> Vec<Plot> {
        let shares = SHARES.map(|share| (percent(share), away(share))).to_vec();
        let sizes = SIZES.map(|bytes| (f64::from(bytes), size(bytes))).to_vec();
        let subscribers = |figure: &str, promise: &str| {
            [FIXED, MOBILE].map(|one| format!("{figure}, {promise}: {one}")).to_vec()
        };
        let by_share = |title: &str, metric, axis: &str| {
            Plot::lines(title, metric, shares.clone()).axes("share of time away, %", axis)
        };
        let by_size = |title: &str, metric, axis: &str| {
            Plot::lines(title, metric, sizes.clone()).axes("bytes of a payload", axis)
        };
        let policies = POLICIES.map(policy).to_vec();
        vec![
            Plot::bars("Figure 4: X_S, nondurable", "received", subscribers("Figure 4", NONDURABLE))
                .axes("", "messages a second"),
            Plot::bars("Figure 5: X_S, durable", "received", subscribers("Figure 5", DURABLE))
                .axes("", "messages a second"),
            Plot::bars("Figure 7: X_S at a given rate", "received", vec![RATE.to_owned()])
                .axes("", "messages a second"),
            by_share("Figure 8 (a): X_P", "published", "messages a second"),
            by_share("Figure 8 (b): X_S", "received", "messages a second"),
            by_share("Figure 8 (c): L", "lost", "L, %"),
            by_size("Figure 9 (a): X_P", "published", "messages a second"),
            by_size("Figure 9 (b): X_S", "received", "messages a second"),
            by_size("Figure 9 (c): L", "lost", "L, %"),
            by_size("Figure 9 (d): information delivered", "kilobytes", "kB a second"),
            Plot::bars("Figure 12 (a): X_S by policy", "received", policies).axes("", "messages a second"),
        ]
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        points::seconds(&points(), case, options)
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("its trials end when everything has come")
    }

    fn needs_testbed(&self) -> bool {
        false
    }

    fn prepare(&self) -> anyhow::Result<()> {
        super::workspace::build()
    }
}
