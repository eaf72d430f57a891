//! Helpers that experiments over several links share.

use std::future::Future;
use std::time::Duration;

use super::measure::both_ways;
use crate::clock;
use crate::testbed::{LinkPlan, Testbed};

/// Peers that can use several links at once. TCP over the first link shows what one link alone gives.
const PEERS: [&str; 6] = ["whimbrel", "mptcp-cubic", "mptcp-bbr", "noq", "sctp", "tcp-bbr"];
/// The most informative of them.
const FEW: [&str; 3] = ["whimbrel", "mptcp-bbr", "tcp-bbr"];
/// Interval at which the links are asked what they have carried.
const STEP: Duration = Duration::from_millis(50);

/// Returns the peers of an experiment over several links.
pub(super) fn peers(few: bool) -> &'static [&'static str] {
    if few { &FEW } else { &PEERS }
}

/// Parses links in the syntax of `whimbrel link`, joined by ` | `.
pub(super) fn plans(words: &str) -> anyhow::Result<Vec<LinkPlan>> {
    words.split(" | ").map(both_ways).collect()
}

/// Bytes that links delivered from caller to server, over time.
pub(super) struct Carried {
    /// Nanoseconds of the clock, and the bytes that each link has carried until then.
    samples: Vec<(u64, Vec<u64>)>,
}

impl Carried {
    /// Watches the links while a future runs.
    pub(super) async fn during<T>(
        testbed: &Testbed,
        links: usize,
        run: impl Future<Output = T>,
    ) -> (T, Self) {
        let (mut samples, mut ticks) = (Vec::new(), tokio::time::interval(STEP));
        tokio::pin!(run);
        loop {
            tokio::select! {
                done = &mut run => return (done, Self { samples }),
                _ = ticks.tick() => {
                    let bytes = (0..links).map(|link| testbed.report(link).up.delivered_bytes);
                    samples.push((clock::now(), bytes.collect()));
                }
            }
        }
    }

    /// Returns the first moment from `after` on at which a link has carried `rate` bit/s for a fifth of a second.
    pub(super) fn reaches(&self, link: usize, after: u64, rate: f64) -> Option<u64> {
        self.samples.windows(5).find_map(|window| {
            let ((from, before), (until, now)) = (window.first()?, window.last()?);
            let bits = (now[link] - before[link]) as f64 * 8.0;
            (*from >= after && bits / ((until - from) as f64 / 1e9) >= rate).then_some(*until)
        })
    }

    /// Returns Mbit/s of a link over time, in seconds from `start`.
    pub(super) fn rates(&self, link: usize, start: u64) -> Vec<(f64, f64)> {
        let points = self.samples.iter().step_by(4).collect::<Vec<_>>();
        let rate = |pair: &[&(u64, Vec<u64>)]| {
            let ((from, before), (until, now)) = (pair[0], pair[1]);
            let seconds = (until - from) as f64 / 1e9;
            let at = from.saturating_sub(start) as f64 / 1e9 + seconds / 2.0;
            (at, (now[link] - before[link]) as f64 * 8.0 / 1e6 / seconds)
        };
        points.windows(2).map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_in_use_once_it_carries_so_much_for_a_while() {
        // Samples are 50 ms apart. From 1 s on, link 1 carries 5,000 bytes in each, which is 0.8 Mbit/s.
        let samples = (0..40u64).map(|step| (step * 50_000_000, vec![0, step.saturating_sub(20) * 5000]));
        let carried = Carried { samples: samples.collect() };
        assert_eq!(carried.reaches(0, 0, 1e5), None);
        assert_eq!(carried.reaches(1, 0, 0.79e6), Some(1_200_000_000));
        assert_eq!(carried.reaches(1, 1_500_000_000, 0.79e6), Some(1_700_000_000));
        assert_eq!(carried.reaches(1, 0, 0.9e6), None);
        let rates = carried.rates(1, 0);
        assert!(rates[0].1 == 0.0 && (rates[rates.len() - 1].1 - 0.8).abs() < 1e-9, "{rates:?}");
    }

    #[test]
    fn links_are_joined_by_a_bar() {
        assert_eq!(plans("rate=10mbit | rate=5mbit, delay=3ms").unwrap().len(), 2);
    }
}
