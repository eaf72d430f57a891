//! Figures 10, 11 and 12 of the paper on semi-durable subscriptions: what is lost by overwriting.

use super::points::{self, Point};
use super::{About, Case, Column, Experiment, Options, Quoted, Trial};
use crate::report::plot::Plot;

pub(crate) struct AcmOverwriting;

/// The figures on buffer sizes, each with its mean absence in seconds.
const FIGURES: [(&str, f64); 2] = [("Figure 10, 12 s away", 12.0), ("Figure 11, 24 s away", 24.0)];
const RATES: [f64; 5] = [100.0, 150.0, 200.0, 250.0, 285.29];
const SLOTS: [u64; 5] = [5_000, 10_000, 20_000, 30_000, 40_000];
/// The figure on policies, at the paper's point.
const POLICIES: &str = "Figure 12 (b), 24 s away: 258.63 a second, 20,000 slots";
const POLICY_RATE: f64 = 258.63;
const POLICY_SLOTS: f64 = 20_000.0;
const POLICY_ABSENCE: f64 = 24.0;
const NAMES: [&str; 4] = ["lrp", "ran", "pwp", "pwp-short"];
const VARIATIONS: [f64; 4] = [1.0, 1.5, 2.0, 2.5];
/// The share of time away of Table 1.
const SHARE: f64 = 0.0742;

fn slots(number: u64) -> String {
    format!("lrp, {},000 slots", number / 1_000)
}

fn at_rate(figure: &str, rate: f64) -> String {
    format!("{figure}: {rate} a second")
}

fn varying(variation: f64) -> String {
    format!("Variation of absences, 12 s away, 285.29 a second, 30,000 slots: C_V of {variation}")
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (figure, absence) in FIGURES {
        for rate in RATES {
            for number in SLOTS {
                let load = format!("overwriting --absence {absence} --rate {rate} --slots {number}");
                points.push(Point::new(at_rate(figure, rate), slots(number), load, 1.5).simulated());
            }
        }
    }
    for name in NAMES {
        let load = format!("overwriting --policy {name}");
        points.push(Point::new(POLICIES, name, &load, 1.5).simulated().quick(load, 1.5));
    }
    for variation in VARIATIONS {
        let load = format!("overwriting --absence 12 --rate 285.29 --slots 30000 --variation {variation}");
        points.push(Point::new(varying(variation), slots(30_000), load, 1.5).simulated());
    }
    points
}

impl Experiment for AcmOverwriting {
    fn name(&self) -> &'static str {
        "acm-overwriting"
    }

    fn about(&self) -> About {
        About {
            title: "What roaming subscribers lose by overwriting",
            source: "Farooq, Majumdar and Parsons, High performance publish/subscribe middleware for mobile wireless networks (2007), \
                     Figures 10, 11 and 12 (b), and section 6.2",
            measured: "Simulated time, and the broker's own buffer with ten partitions. Messages come at a fixed rate, each with a random \
                       tenth of the selector's values and a random index from 1 to 10. A subscriber is away for 7.42 % of the time. It \
                       loses a message if it is away when the message is published, and still is when it is overwritten. So the \
                       loss follows from the ages at which messages are overwritten. L is the share of messages, and E that of their \
                       indices. The limit is the least L of any policy that does not know who is away. \
                       `pwp` is the paper's policy with priorities, and `pwp-short` the same with places for five sixths of \
                       an absence.",
            why: "The probability that somebody is still away falls ever more slowly with the age of a message. So the loss is least if \
                  all messages are overwritten at the same age, as `lrp` does. It misses the limit only because the tenths do not have \
                  exactly equal rates. `ran` overwrites young messages, too. `pwp` keeps some messages longer \
                  and so all others shorter. In the paper, losses level off as the buffer grows, since its prototype lost messages \
                  between recovery and live delivery. There is no such loss here. Long absences lose the most, so a higher \
                  variation costs more.",
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
            Column::lower("messages", "L, % of messages", 4),
            Column::lower("indices", "E, % of indices", 4),
            Column::neutral("bound", "least L of any policy, %", 4),
        ]
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        let still_away = (-POLICY_SLOTS / POLICY_RATE / POLICY_ABSENCE).exp();
        (condition == POLICIES && metric == "messages").then_some(100.0 * SHARE * still_away)
    }

    fn quoted(&self) -> Vec<Quoted> {
        let row = |peer, metric, value| Quoted { condition: POLICIES, peer, metric, value };
        // E of PwP is in the text. It is 76 % less than with LRP, of which L and E are equal.
        vec![
            row("the paper's LRP (2007)", "messages", 0.46),
            row("the paper's LRP (2007)", "indices", 0.46),
            row("the paper's PwP (2007)", "indices", 0.11),
        ]
    }

    fn plots(&self) -> Vec<Plot> {
        let by_rate = |(figure, _): (&str, f64)| {
            let points = RATES.map(|rate| (rate, at_rate(figure, rate)));
            Plot::lines(figure, "messages", points.to_vec()).axes("messages a second", "L, %")
        };
        let mut plots: Vec<_> = FIGURES.into_iter().map(by_rate).collect();
        let policies = vec![POLICIES.to_owned()];
        plots.push(Plot::bars("Figure 12 (b): L", "messages", policies.clone()).axes("", "L, %"));
        plots.push(Plot::bars("Figure 12 (b): E", "indices", policies).axes("", "E, %"));
        let varying = VARIATIONS.map(|variation| (variation, varying(variation))).to_vec();
        plots.push(
            Plot::lines("Variation of absences", "messages", varying)
                .axes("coefficient of variation", "L, %"),
        );
        plots
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        points::seconds(&points(), case, options)
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("time is simulated")
    }

    fn needs_testbed(&self) -> bool {
        false
    }

    fn prepare(&self) -> anyhow::Result<()> {
        super::workspace::build()
    }
}
