//! The laboratory's links, measured beside their settings.

use std::time::Duration;

use anyhow::Context;

use super::measure::both_ways;
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::sample::{LATE_P99, Metrics};
use crate::testbed::probe::{Arrivals, Load, Probe};
use crate::testbed::{LinkPlan, Testbed};

pub(crate) struct SelfTest;

/// A setting of a link, and the measurement that checks it.
#[derive(Clone, Copy)]
enum Aim {
    /// Mbit/s of IP bytes, while a tenth more is offered.
    Rate(f64),
    /// The same with TCP filling the link, since one thread cannot send that much in single packets.
    HighRate(f64),
    /// One-way delay of a lone packet, ms.
    Delay(f64),
    /// Percentage of packets lost, at a steady pace.
    Loss(&'static str, f64),
    /// One-way delay through a full queue limited by time, ms. The link has 10 Mbit/s, and twice that is offered.
    QueueTime(f64),
    /// Packets of 1,500 bytes that a queue limited by bytes lets through of a burst.
    QueueBytes(f64),
    /// Gbit/s of TCP through a link without a rate.
    Highest,
}

const CASES: &[(&str, Aim)] = &[
    ("rate, Mbit/s: 1", Aim::Rate(1.0)),
    ("rate, Mbit/s: 4", Aim::Rate(4.0)),
    ("rate, Mbit/s: 20", Aim::Rate(20.0)),
    ("rate, Mbit/s: 100", Aim::HighRate(100.0)),
    ("rate, Mbit/s: 300", Aim::HighRate(300.0)),
    ("rate, Mbit/s: 1000", Aim::HighRate(1000.0)),
    ("delay one way, ms: 0", Aim::Delay(0.0)),
    ("delay one way, ms: 1", Aim::Delay(1.0)),
    ("delay one way, ms: 25", Aim::Delay(25.0)),
    ("delay one way, ms: 300", Aim::Delay(300.0)),
    ("loss, %: 1 %", Aim::Loss("1%", 1.0)),
    ("loss, %: 5 %", Aim::Loss("5%", 5.0)),
    ("loss, %: 15 %", Aim::Loss("15%", 15.0)),
    ("loss, %: bursts of 50 ms, 5 % of the time", Aim::Loss("ge:950ms/50ms", 5.0)),
    ("wait in a full queue, ms: 100 ms", Aim::QueueTime(100.0)),
    ("wait in a full queue, ms: 20 ms", Aim::QueueTime(20.0)),
    ("packets of a burst that a queue takes: 15,000 bytes", Aim::QueueBytes(10.0)),
    ("TCP without a rate, IP bytes, Gbit/s: both ends and the link on this machine", Aim::Highest),
];
const FULL: usize = 1500;
const SMALL: usize = 200;

impl Experiment for SelfTest {
    fn name(&self) -> &'static str {
        "self"
    }

    fn about(&self) -> About {
        About {
            title: "The laboratory's links: what they do beside what they were told",
            source: "the project's own: no figure of the laboratory is better than its links",
            measured: "UDP packets go from one host to the other, and one clock stamps them on both sides. A rate \
                       counts the IP bytes between the first and the last arrival. Rates of 100 Mbit/s and more are \
                       measured by TCP, after its first second. What is found should be what was set, within what is \
                       allowed. That is 1 % for rates, 1 ms and 1 % for delays, and four standard deviations of as \
                       many dice for losses. A trial whose figure lies further off has failed, and its row is OUT. \
                       `late` is how long after its moment the 99th of a hundred packets left the link. `cross-check` \
                       compares these links with another emulator.",
            why: "The link's thread has priority over all others, and its timers are exact. But each packet costs it two system calls, and the second one \
                  takes the packet through the receiving host's network stack. This limits the highest rate. A one-way delay is longer than \
                  configured, by the time in both hosts' network stacks.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let few =
            |aim: &Aim| matches!(aim, Aim::Rate(20.0) | Aim::Delay(25.0) | Aim::Loss("5%", _) | Aim::Highest);
        let chosen = CASES.iter().filter(|(_, aim)| !options.quick || few(aim));
        chosen.map(|(name, aim)| Case::new(*name, "link", aim.cost())).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let (_, aim) = CASES.iter().find(|(name, _)| *name == case.condition).context("no such case")?;
            let (seconds, testbed) = (self.seconds(case, options), Testbed::new(&[aim.plan()?], seed)?);
            tokio::task::spawn_blocking(move || aim.measure(&testbed, seconds)).await?
        })
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        let own = match case.cost {
            _ if options.quick => 2.0,
            Cost::Heavy => 4.0,
            _ => 10.0,
        };
        options.seconds.unwrap_or(own)
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::neutral("set", "set", 2),
            Column::neutral("found", "found", 3),
            Column::neutral("allowed", "allowed, ±", 3),
            Column::verdict("within", "within"),
            Column::neutral(LATE_P99, "late p99, ms", 3),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }
}

impl Aim {
    fn cost(self) -> Cost {
        match self {
            Self::HighRate(_) | Self::Highest => Cost::Heavy,
            _ => Cost::LIGHT,
        }
    }

    fn plan(self) -> anyhow::Result<LinkPlan> {
        both_ways(&match self {
            Self::Rate(rate) | Self::HighRate(rate) => format!("rate={rate}mbit, queue=50ms"),
            Self::Delay(delay) => format!("delay={delay}ms"),
            Self::Loss(loss, _) => format!("loss={loss}"),
            Self::QueueTime(limit) => format!("rate=10mbit, queue={limit}ms"),
            Self::QueueBytes(packets) => format!("rate=1mbit, queue={}b", packets * FULL as f64),
            Self::Highest => String::new(),
        })
    }

    /// Returns the load to offer: bytes of a packet, the gap between packets, and for how long.
    fn load(self, seconds: f64) -> Load {
        let full = |rate: f64, seconds: f64| Load {
            size: FULL,
            gap: Duration::from_secs_f64(FULL as f64 * 8.0 / rate),
            seconds,
        };
        match self {
            Self::Rate(rate) | Self::HighRate(rate) => full(rate * 1.1e6, seconds),
            Self::Delay(_) => Load { size: SMALL, gap: Duration::from_millis(5), seconds },
            Self::Loss(..) => Load { size: SMALL, gap: Duration::from_micros(200), seconds },
            Self::QueueTime(_) => full(20e6, seconds),
            Self::QueueBytes(_) | Self::Highest => Load { size: FULL, gap: Duration::ZERO, seconds: 0.0 },
        }
    }

    fn measure(self, testbed: &Testbed, seconds: f64) -> anyhow::Result<Metrics> {
        let mut metrics = Metrics::default();
        let (set, found, allowed) = match self {
            Self::Highest => (None, Probe::tcp(testbed, seconds)? / 1e9, None),
            Self::HighRate(rate) => (Some(rate), Probe::tcp(testbed, seconds)? / 1e6, Some(rate / 100.0)),
            _ => self.verdict(&Probe::new(testbed)?.run(self.load(seconds))?)?,
        };
        metrics.set("found", found);
        if let (Some(set), Some(allowed)) = (set, allowed) {
            let late = testbed.report(0).late.quantile(0.99).as_secs_f64() * 1e3;
            anyhow::ensure!(
                is_within(set, found, allowed),
                "OUT: found {found:.3}, set {set}, allowed ± {allowed:.3}; late p99 {late:.3} ms"
            );
            metrics.set("set", set);
            metrics.set("allowed", allowed);
            metrics.set("within", 1.0);
        }
        Ok(metrics)
    }

    /// Returns the value set, the value found, and how far apart they may be.
    fn verdict(self, arrivals: &Arrivals) -> anyhow::Result<(Option<f64>, f64, Option<f64>)> {
        let some = |found: Option<f64>| {
            found.with_context(|| format!("too few of {} packets arrived", arrivals.sent))
        };
        let (set, found, allowed) = match self {
            Self::Rate(rate) => (rate, some(arrivals.rate())? / 1e6, rate / 100.0),
            Self::Delay(delay) => (delay, some(arrivals.delay(0.5))? * 1e3, 1.0 + delay / 100.0),
            Self::Loss(loss, share) => {
                (share, arrivals.loss() * 100.0, four_deviations(loss, share, arrivals))
            }
            Self::QueueTime(limit) => {
                // A packet that has waited in the queue is then serialised itself.
                let wait = limit + FULL as f64 * 8.0 / 10e6 * 1e3;
                (wait, some(arrivals.delay(0.5))? * 1e3, 1.0 + wait / 100.0)
            }
            Self::QueueBytes(packets) => (packets, arrivals.received() as f64, 0.0),
            Self::HighRate(_) | Self::Highest => anyhow::bail!("this rate is measured by TCP"),
        };
        Ok((Some(set), found, Some(allowed)))
    }
}

/// Returns whether a figure is close enough. The tolerance covers rounding, since `found` is a floating-point sum.
fn is_within(set: f64, found: f64, allowed: f64) -> bool {
    (found - set).abs() <= allowed + 1e-9
}

/// Returns four standard deviations of the percentage of lost packets. With bursts of loss, it depends on the duration
/// and not on the number of packets.
fn four_deviations(loss: &str, percent: f64, arrivals: &Arrivals) -> f64 {
    let share = percent / 100.0;
    let variance = if loss.starts_with("ge:") {
        // This is the variance of the share of time spent in bad periods. Bad and good periods are exponential with
        // means a and b. It is 2 a² b² / (a + b)³ / T (Cox, Renewal Theory, section 7), here with a + b = 1 s.
        2.0 * (share * (1.0 - share)).powi(2) / arrivals.seconds
    } else {
        share * (1.0 - share) / arrivals.sent as f64
    };
    400.0 * variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_ends_there() {
        assert!(is_within(4.0, 4.04, 0.04) && is_within(4.0, 3.96, 0.04) && is_within(10.0, 10.0, 0.0));
        assert!(!is_within(4.0, 4.041, 0.04) && !is_within(10.0, 11.0, 0.0));
    }

    /// A link keeps to its settings. The best of several tries counts, since a busy machine can spoil one of them.
    #[test]
    fn a_link_keeps_to_its_rate_its_delay_and_its_loss() {
        if let Some(missing) = crate::testbed::missing() {
            whimbrel_testing::skipped(&missing.to_string());
            return;
        }
        for aim in [Aim::Rate(4.0), Aim::Delay(25.0), Aim::Loss("5%", 5.0)] {
            let measured = |seed| {
                let testbed = Testbed::new(&[aim.plan().unwrap()], seed).unwrap();
                aim.measure(&testbed, 1.0)
            };
            let mut tries = (1..=5).map(measured);
            let mut told = Vec::new();
            assert!(
                tries.any(|found| found.map_err(|error| told.push(error.to_string())).is_ok()),
                "{told:?}"
            );
        }
    }
}
