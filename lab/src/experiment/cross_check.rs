//! The laboratory's links beside those of another emulator, with the same settings.

use std::time::Duration;

use anyhow::{Context, bail};

use super::measure::both_ways;
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::machine::{OURS, RATTAN};
use crate::sample::{LATE_P99, Metrics};
use crate::testbed::Testbed;
use crate::testbed::probe::{Load, Probe};

pub(crate) struct CrossCheck;

/// A link, and the property to measure on it.
struct Setting {
    name: &'static str,
    /// The link in the syntax of `whimbrel link`.
    link: &'static str,
    aim: Aim,
}

/// The property to measure, with the value that was set.
#[derive(Clone, Copy, PartialEq)]
enum Aim {
    /// Mbit/s of IP bytes, sent by TCP.
    Tcp(f64),
    /// The same with a delay, where TCP's recovery from losses takes its share.
    FarTcp(f64),
    /// Mbit/s of IP bytes, sent by UDP at a tenth above the rate.
    Udp(f64),
    /// Round trip of a lone packet and its answer, ms.
    RoundTrip(f64),
    /// Percentage of packets lost, at a steady pace.
    Loss(f64),
    /// One-way delay of a packet through a full queue, ms. The link has 10 Mbit/s, and twice that is offered.
    Wait(f64),
}

#[rustfmt::skip]
const SETTINGS: &[Setting] = &[
    Setting { name: "TCP, IP bytes, Mbit/s: 10", link: "rate=10mbit, queue=50ms", aim: Aim::Tcp(10.0) },
    Setting { name: "TCP, IP bytes, Mbit/s: 100", link: "rate=100mbit, queue=50ms", aim: Aim::Tcp(100.0) },
    Setting { name: "TCP, IP bytes, Mbit/s: 1000", link: "rate=1000mbit, queue=50ms", aim: Aim::Tcp(1000.0) },
    Setting { name: "TCP, IP bytes, Mbit/s: 100, 20 ms of round trip", link: "rate=100mbit, delay=10ms, queue=20ms", aim: Aim::FarTcp(100.0) },
    Setting { name: "UDP, IP bytes, Mbit/s: 10", link: "rate=10mbit, queue=50ms", aim: Aim::Udp(10.0) },
    Setting { name: "UDP, IP bytes, Mbit/s: 100", link: "rate=100mbit, queue=50ms", aim: Aim::Udp(100.0) },
    Setting { name: "round trip, ms: 10", link: "delay=5ms", aim: Aim::RoundTrip(10.0) },
    Setting { name: "round trip, ms: 100", link: "delay=50ms", aim: Aim::RoundTrip(100.0) },
    Setting { name: "loss, %: 5 %", link: "loss=5%", aim: Aim::Loss(5.0) },
    Setting { name: "way through a full queue, ms: 48 ms, 10 Mbit/s", link: "rate=10mbit, queue=48ms", aim: Aim::Wait(49.2) },
];
/// The setting that a quick run measures.
const QUICK: &str = "TCP, IP bytes, Mbit/s: 100";
const FULL: usize = 1500;
const SMALL: usize = 200;
/// Serialisation time of a full packet at 10 Mbit/s, ms.
const ONE_PACKET: f64 = FULL as f64 * 8.0 / 10e6 * 1e3;

impl Experiment for CrossCheck {
    fn name(&self) -> &'static str {
        "cross-check"
    }

    fn about(&self) -> About {
        About {
            title: "The laboratory's links beside another emulator's, set alike",
            source: "the project's own: a model that is wrong would be wrong in every experiment alike",
            measured: "The same probes as in `self` go over one of our links and over one of rattan's, with the same \
                       rate, queue, delay and loss both ways. The trials run one after the other, with nothing beside \
                       them. `Link` is ours: a TUN device in each host. Rattan's is a veth pair at each host and \
                       AF_PACKET. The medians are compared. How far they may lie apart was set before any was seen. \
                       Rates may differ by 3 %, or by 5 % where TCP's recovery over 20 ms is a part of the rate. Round \
                       trips may differ by 0.5 ms and 1 %, for the ways through the hosts. Losses may differ by four \
                       standard deviations of the difference between two trials' dice. The way through a full queue \
                       may differ as a round trip may, and by one packet, since rattan's limit is whole packets. \
                       Nobody records how late rattan's packets were.",
            why: "Both emulators count IP bytes, drop at the tail, and decide the loss of each packet at random. They differ in the way a packet takes \
                  through the machine. A round trip over rattan takes 0.1 to 0.2 ms more. Two cores, which also run both ends of TCP, do not carry a gigabit \
                  over rattan: it reaches 0.85 of it, our emulator 0.98. Both reach less while the machine has other work.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let chosen = SETTINGS.iter().filter(|setting| !options.quick || setting.name == QUICK);
        chosen
            .flat_map(|setting| [OURS, RATTAN].map(|peer| Case::new(setting.name, peer, Cost::Heavy)))
            .collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let setting = SETTINGS.iter().find(|setting| setting.name == case.condition);
            let Setting { link, aim, .. } = setting.context("no such case")?;
            let (plan, seconds) = (both_ways(link)?, self.seconds(case, options));
            let testbed = match case.peer.as_str() {
                OURS => Testbed::new(&[plan], seed)?,
                RATTAN => Testbed::by_rattan(&plan, seed).await?,
                other => bail!("there is no emulator {other}"),
            };
            tokio::task::spawn_blocking(move || aim.measure(&testbed, seconds)).await?
        })
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        // A loss rate needs many packets.
        options.span(if case.condition.starts_with("loss") { 10.0 } else { 5.0 }, 2.0)
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::neutral("set", "set", 2),
            Column::alike("found", "found", 3, "allowed"),
            Column::neutral(LATE_P99, "late p99, ms", 3),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn links(&self) -> Vec<(String, String)> {
        SETTINGS.iter().map(|setting| (setting.name.to_owned(), setting.link.to_owned())).collect()
    }
}

impl Aim {
    fn measure(self, testbed: &Testbed, seconds: f64) -> anyhow::Result<Metrics> {
        let load = |size: usize, gap: f64| Load { size, gap: Duration::from_secs_f64(gap), seconds };
        let full = |rate: f64| load(FULL, FULL as f64 * 8.0 / rate);
        let sent = |load| Probe::new(testbed)?.run(load);
        let few = "too few packets arrived";
        let (set, found, allowed) = match self {
            Self::Tcp(rate) => (rate, Probe::tcp(testbed, seconds)? / 1e6, rate * 0.03),
            Self::FarTcp(rate) => (rate, Probe::tcp(testbed, seconds)? / 1e6, rate * 0.05),
            Self::Udp(rate) => (rate, sent(full(rate * 1.1e6))?.rate().context(few)? / 1e6, rate * 0.03),
            Self::RoundTrip(trip) => {
                (trip, Probe::new(testbed)?.round_trip(seconds)? * 1e3, 0.5 + trip * 0.01)
            }
            Self::Loss(share) => {
                let arrivals = sent(load(SMALL, 100e-6))?;
                (share, arrivals.loss() * 100.0, 100.0 * four_deviations(share / 100.0, arrivals.sent))
            }
            Self::Wait(wait) => {
                let delay = sent(full(20e6))?.delay(0.5).context(few)?;
                (wait, delay * 1e3, 0.5 + wait * 0.01 + ONE_PACKET)
            }
        };
        let mut metrics = Metrics::default();
        for (name, value) in [("set", set), ("found", found), ("allowed", allowed)] {
            metrics.set(name, value);
        }
        Ok(metrics)
    }
}

/// Returns four standard deviations of the difference between two loss rates, each measured on `dice` packets.
fn four_deviations(share: f64, dice: u64) -> f64 {
    4.0 * (2.0 * share * (1.0 - share) / dice as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{missing, rattan};

    /// The first match of several tries counts, since a busy machine can spoil one of them.
    #[tokio::test]
    async fn our_link_and_rattans_do_the_same() {
        if let Some(missing) = missing().or_else(rattan::missing) {
            whimbrel_testing::skipped(&missing);
            return;
        }
        for aim in [Aim::Udp(10.0), Aim::RoundTrip(10.0), Aim::Loss(5.0)] {
            let Setting { name, link, .. } = SETTINGS.iter().find(|one| one.aim == aim).unwrap();
            let plan = both_ways(link).unwrap();
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for seed in 1..=5 {
                let link = Testbed::new(std::slice::from_ref(&plan), seed).unwrap();
                let found = aim.measure(&link, 1.0).unwrap().values;
                ours.push(found["found"]);
                let link = Testbed::by_rattan(&plan, seed).await.unwrap();
                theirs.push(aim.measure(&link, 1.0).unwrap().values["found"]);
                let alike = |one: &f64| theirs.iter().any(|other| (one - other).abs() <= found["allowed"]);
                if ours.iter().any(alike) {
                    break;
                }
                assert!(seed < 5, "{name}: ours {ours:?}, rattan's {theirs:?}");
            }
        }
    }

    #[test]
    fn dice_are_allowed_four_deviations_of_their_difference() {
        // With 20,000 packets and a loss of one half, the deviation is 0.0035 for each rate and 0.005 for their
        // difference.
        assert!((four_deviations(0.5, 20_000) - 0.02).abs() < 1e-12);
    }
}
