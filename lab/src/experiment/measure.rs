//! Helpers that experiments share: links from their settings, and figures of flows.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use anyhow::Context;
use whimbrel_link::LinkConfig;

use super::Column;
use crate::condition;
use crate::flow::Flow;
use crate::job::BIN;
use crate::sample::Metrics;
use crate::stats::{percentile, sorted};
use crate::testbed::{LinkPlan, Testbed};

/// Share of payload in a full packet of 1,500 bytes. It is that of TCP with timestamps, which carries the most of all
/// peers, so that none beats physics. A packet of ours carries 1,437 bytes.
pub(crate) const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

/// Returns a link with the same settings in both directions.
pub(crate) fn both_ways(words: &str) -> anyhow::Result<LinkPlan> {
    let config: LinkConfig = words.parse().with_context(|| format!("not a link: {words}"))?;
    Ok(LinkPlan { up: config.clone(), down: config })
}

/// Creates two hosts with one such link.
pub(crate) fn testbed(words: &str, seed: u64) -> anyhow::Result<Testbed> {
    Testbed::new(&[both_ways(words)?], seed)
}

/// Describes a named condition for the report, with its source.
pub(crate) fn words(name: &str) -> Vec<(String, String)> {
    let Some(condition) = condition::ALL.iter().find(|condition| condition.name == name) else {
        return Vec::new();
    };
    let mut words = vec![(format!("{name} ({})", condition.source), condition.up.to_owned())];
    if condition.down != condition.up {
        words.push((format!("{name}, back"), condition.down.to_owned()));
    }
    words
}

/// Returns the seconds that a cold transfer takes at best. It needs a round trip for set-up, half of one to the
/// receiver, and the time for its bytes. Loss and headers leave them a share of the rate.
pub(crate) fn ideal(bytes: f64, rate: f64, rtt: f64, loss: f64, payload_share: f64) -> f64 {
    1.5 * rtt + bytes * 8.0 / (rate * (1.0 - loss) * payload_share)
}

/// Records how the first link's queue fared from caller to server: the queueing delay, and the percentage of packets
/// dropped.
pub(crate) fn note_queue(metrics: &mut Metrics, testbed: &Testbed) {
    let report = testbed.report(0);
    metrics.set("queue_p95_ms", report.up.queue_delay.quantile(0.95).as_secs_f64() * 1e3);
    metrics.set("queue_drops", 100.0 * report.up.queue_drops as f64 / (report.up.offered as f64).max(1.0));
}

/// Returns the columns for the figures of [`note_queue`].
pub(crate) fn queue_columns() -> [Column; 2] {
    [
        Column::lower("queue_p95_ms", "queueing delay p95, ms", 0),
        Column::lower("queue_drops", "dropped at the queue, %", 1),
    ]
}

impl Flow {
    /// Returns the payload bits per second in the first `seconds` after the connect call.
    pub(crate) fn goodput(&self, seconds: f64) -> f64 {
        let end = self.started + (seconds * 1e9) as u64;
        let bits: f64 =
            self.figures.bins.iter().map(|(bin, bytes)| *bytes as f64 * 8.0 * share(*bin, end)).sum();
        bits / seconds
    }

    /// Returns Mbit/s over time, in steps of seconds from the connect call.
    pub(crate) fn rates(&self, seconds: f64, step: f64) -> Vec<(f64, f64)> {
        let mut steps = vec![0.0; (seconds / step).round() as usize];
        for (bin, bytes) in &self.figures.bins {
            let at = (bin * BIN).saturating_sub(self.started) as f64 / 1e9;
            if let Some(sum) = steps.get_mut((at / step) as usize) {
                *sum += *bytes as f64 * 8.0 / 1e6;
            }
        }
        steps.iter().enumerate().map(|(index, sum)| ((index as f64 + 0.5) * step, sum / step)).collect()
    }

    /// Returns the seconds from the connect call to the last byte read.
    pub(crate) fn duration(&self) -> f64 {
        self.figures.last.saturating_sub(self.started) as f64 / 1e9
    }

    /// Returns the latency of each message from its send call, in ms, ascending.
    pub(crate) fn latencies(&self) -> Vec<f64> {
        sorted(self.figures.messages.iter().map(|(_, sent, arrived)| millis(*sent, *arrived)))
    }

    /// Returns the mean and the greatest age of the newest message that the receiver knew, in ms, from its first
    /// arrival to `end`.
    pub(crate) fn age(&self, end: u64) -> Option<(f64, f64)> {
        let mut arrivals: Vec<_> = self.figures.messages.iter().map(|(_, sent, at)| (*at, *sent)).collect();
        arrivals.sort_unstable();
        let (begin, mut newest) = *arrivals.first()?;
        let (mut area, mut greatest, mut since) = (0.0, 0.0_f64, begin);
        for (at, sent) in arrivals.into_iter().filter(|(at, _)| *at <= end).chain([(end, 0)]) {
            // The age grows by a second per second. So its mean over a period is the mean of the ages at both ends.
            let (from, to) = (millis(newest, since), millis(newest, at));
            area += (from + to) / 2.0 * millis(since, at);
            greatest = greatest.max(to);
            (newest, since) = (newest.max(sent), at);
        }
        let length = millis(begin, end);
        (length > 0.0).then(|| (area / length, greatest))
    }
}

/// Returns the share of a bin that lies before `end`, 0 to 1.
fn share(bin: u64, end: u64) -> f64 {
    (end.saturating_sub(bin * BIN) as f64 / BIN as f64).min(1.0)
}

/// Returns the time between two moments, in ms.
pub(crate) fn millis(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e6
}

/// Returns a cumulative distribution as a curve of (value, share). The shares are the same for all curves.
pub(crate) fn distribution(ascending: &[f64]) -> Vec<(f64, f64)> {
    let shares =
        (0..20).map(|step| f64::from(step) / 20.0).chain([0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 1.0]);
    shares.filter_map(|share| Some((percentile(ascending, share)?, share))).collect()
}

/// Runs all futures at the same time.
pub(crate) async fn together<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.into_iter().map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        for (one, done) in pending.iter_mut().filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(output) = Pin::new(one).poll(context) {
                *done = Some(output);
            }
        }
        if pending.iter().all(|(_, done)| done.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    pending.into_iter().filter_map(|(_, done)| done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Figures, Sent};

    fn flow(figures: Figures) -> Flow {
        Flow { started: 1_000_000_000, figures, sent: Sent::default() }
    }

    #[test]
    fn goodput_counts_from_the_connect_call_to_its_end() {
        // There are 1,000 bytes in each bin of 10 ms from 1 s to 3 s, which is 0.8 Mbit/s.
        let bins = (100..300).map(|bin| (bin, 1000)).collect();
        let flow = flow(Figures { bins, ..Figures::default() });
        assert!((flow.goodput(1.0) - 0.8e6).abs() < 1.0);
        assert!((flow.goodput(0.995) - 0.8e6).abs() < 1.0, "a bin counts by its share");
        assert!((flow.goodput(4.0) - 0.4e6).abs() < 1.0);
        let rates = flow.rates(3.0, 0.5);
        assert_eq!(rates.len(), 6);
        assert!((rates[0].1 - 0.8).abs() < 1e-9 && rates[5].1 == 0.0, "{rates:?}");
    }

    #[test]
    fn age_grows_until_something_newer_arrives() {
        let second = 1_000_000_000;
        // Two are sent at 1 s and 2 s, and each takes 10 ms. An older one that arrives late changes nothing.
        let messages = vec![
            (1, second, second + 10_000_000),
            (2, 2 * second, 2 * second + 10_000_000),
            (0, second / 2, 2 * second + 500_000_000),
        ];
        let (mean, greatest) = flow(Figures { messages, ..Figures::default() }).age(3 * second).unwrap();
        assert!((greatest - 1010.0).abs() < 1e-6);
        assert!((mean - (510.0 * 1000.0 + 505.0 * 990.0) / 1990.0).abs() < 1e-6, "{mean}");
    }

    #[test]
    fn an_ideal_transfer_pays_set_up_way_and_serialisation() {
        assert!((ideal(2e6, 4e6, 0.05, 0.0, 1437.0 / 1500.0) - (0.075 + 4.1754)).abs() < 1e-4);
    }
}
