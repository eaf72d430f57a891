//! What semi-durable subscriptions cost and save, beside what others keep for subscribers that roam.

use super::points::{self, Point};
use super::{About, Case, Column, Experiment, Options, Trial};
use crate::report::plot::Plot;

pub(crate) struct SemiDurable;

const SEMI_DURABLE: &str = "whimbrel";
const NONDURABLE: &str = "whimbrel-nondurable";
const DURABLE: &str = "whimbrel-durable";
const MOSQUITTO: &str = "mosquitto";
const JETSTREAM: &str = "nats-jetstream";
const SATURATED: &str = "At saturation";
const PAPER_RATE: &str = "At the paper's rate, 285.29 a second";
const HANDOVER: [&str; 2] =
    ["Hand-over between three brokers: 12 s away", "Hand-over between three brokers: 24 s away"];
const ABSENCES: [f64; 2] = [12.0, 24.0];
const BESIDE_OTHERS: &str = "One broker, beside others: 12 s away";
const TOO_SMALL: &str = "One broker, a buffer that is too small: 24 s away";

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (peer, promise) in [(SEMI_DURABLE, "semi-durable"), (NONDURABLE, "nondurable")] {
        let load = |time: f64| format!("roam --promise {promise} --speed 20 --slots 1000000 --time {time}");
        points.push(Point::new(SATURATED, peer, load(6.0), 10.0).quick(load(1.0), 3.5));
        let load = format!("roam --promise {promise} --rate 285.29 --time 20");
        points.push(Point::new(PAPER_RATE, peer, load, 24.0));
    }
    for (condition, absence) in HANDOVER.into_iter().zip(ABSENCES) {
        let load = |time: f64| {
            format!(
                "roam --brokers 3 --rate 5705.8 --speed 20 --absence {absence} --slots 300000 --time {time}"
            )
        };
        let row = Point::new(condition, SEMI_DURABLE, load(20.0), 25.0);
        points.push(if absence == 12.0 { row.quick(load(2.0), 4.5) } else { row });
    }
    let small = "roam --brokers 1 --rate 5705.8 --speed 20 --absence 24 --slots 10000 --time 20";
    points.push(Point::new(TOO_SMALL, SEMI_DURABLE, small, 25.0));
    let others = [
        (SEMI_DURABLE, "whimbrel", "semi-durable"),
        (NONDURABLE, "whimbrel", "nondurable"),
        (DURABLE, "whimbrel", "durable"),
        (MOSQUITTO, "mosquitto", "durable"),
        (JETSTREAM, "nats", "durable"),
    ];
    for (peer, make, promise) in others {
        let load = format!(
            "roam --make {make} --promise {promise} --brokers 1 --rate 285.29 --speed 20 --time 20 --slots 30000"
        );
        points.push(Point::new(BESIDE_OTHERS, peer, load, 25.0));
    }
    points
}

impl Experiment for SemiDurable {
    fn name(&self) -> &'static str {
        "semi-durable"
    }

    fn about(&self) -> About {
        About {
            title: "Semi-durable subscriptions of subscribers that roam",
            source: "the broker's own goals: at least 97 % of the nondurable publishing rate, at saturation and at the paper's rate; nothing lost \
                     and nothing twice within the buffer at 12 s and 24 s of mean absence, with hand-over between three brokers",
            measured: "One publisher and 200 subscribers that follow the mobility model of the paper on semi-durable subscriptions (2007), \
                       with its defaults, over loopback. At the paper's rate, time goes as in the paper and there are two brokers. \
                       Elsewhere subscribers come and go 20 times as fast: a mean absence of 12 s takes 0.6 s. At saturation, \
                       the publisher is as fast as subscribers keep up. With three brokers, the rate is 20 times the paper's \
                       285.29 a second, so an absence misses as many messages as in the paper. The buffer holds all that \
                       anybody misses, but for the row that says otherwise. Every subscriber accounts for each message by its \
                       number. *Untold* are those that it lost and was not told of. Beside others, mosquitto keeps persistent sessions at \
                       QoS 1, and nats-server a consumer for each subscriber on a stream in memory. Their subscribers \
                       leave without a word, and select by topic.",
            why: "A semi-durable subscriber names what it has, and any broker sends it the rest from the buffer that it fills anyway. \
                  Recovery and live delivery are one mechanism, so nothing is lost or repeated between them. At saturation, \
                  it gets 7.4 % more messages than a nondurable one, and each recovery is encoded for it alone. The others keep a queue or a \
                  position for each subscriber. What they had sent and the subscriber had not acknowledged comes again.",
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
            Column::higher("published", "X_P, messages/s", 1),
            Column::higher("received", "X_S, messages/s", 1),
            Column::lower("lost", "L, %", 3),
            Column::lower("untold", "lost and untold", 0),
            Column::lower("twice", "twice", 0),
            Column::neutral("reconnects", "reconnects/s", 1),
            Column::lower("broker_us", "brokers, us a message", 1),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn plots(&self) -> Vec<Plot> {
        let lost = vec![BESIDE_OTHERS.to_owned()];
        vec![
            Plot::bars("X_P at saturation", "published", vec![SATURATED.to_owned()])
                .axes("", "messages a second"),
            Plot::bars("Processor time beside others", "broker_us", lost).axes("", "us a message"),
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
