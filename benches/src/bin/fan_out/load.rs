//! The steps of a load.

use std::time::Duration;

use serde::Serialize;

use crate::audience::Audience;
use crate::broker::{Broker, usage};
use crate::publisher::Publishers;
use crate::stamp;

/// The part of what was offered that has to be published and delivered in a step that counts.
const KEPT_UP: f64 = 0.97;
/// For how long nothing may come before what did not is lost.
const SILENCE: Duration = Duration::from_millis(700);
/// The longest that a step is waited for.
const DRAIN: Duration = Duration::from_secs(10);
/// Steps in a row that do not count before the load is over.
const FAILURES: usize = 3;
/// Until a step counts, the rate is divided by this, down to so many messages a second.
const DOWN: f64 = 2.0;
const LOWEST: f64 = 0.5;

/// Steps, each at a higher rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) rate: f64,
    pub(crate) factor: f64,
    pub(crate) steps: usize,
    pub(crate) time: Duration,
    pub(crate) p99: Duration,
}

/// The result of a load.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Memory of the broker for each subscriber, before anything is published.
    pub(crate) bytes_each: f64,
    pub(crate) steps: Vec<Figures>,
    /// The step with the most deliveries of those that count.
    pub(crate) best: Option<Figures>,
}

/// The figures of a step.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    /// Messages a second that were offered, and that the broker took.
    pub(crate) offered: f64,
    pub(crate) published: f64,
    /// Deliveries a second, from the first message to the last delivery.
    pub(crate) deliveries: f64,
    /// The part that was not delivered, and the part that came twice or out of order.
    pub(crate) lost: f64,
    pub(crate) disordered: f64,
    /// From when a message was due until it came, ms.
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Processor time of a delivery, ns.
    pub(crate) broker_ns: f64,
    pub(crate) clients_ns: f64,
}

impl Plan {
    /// Runs the steps until several in a row do not count.
    pub(crate) async fn run(
        &self,
        broker: &Broker,
        audience: &Audience,
        publishers: &Publishers,
    ) -> anyhow::Result<(Vec<Figures>, Option<Figures>)> {
        let (mut steps, mut best, mut failures) = (Vec::<Figures>::new(), None::<Figures>, 0);
        let mut rate = self.rate;
        // The first step warms up.
        self.step(broker, audience, publishers, rate, 0).await?;
        for number in 1..=self.steps as u32 {
            let figures = self.step(broker, audience, publishers, rate, number).await?;
            eprintln!(
                "{:9.0} /s  {:9.0} taken  {:9.0} deliveries/s  lost {:5.2} %  p50 {:7.2} p99 {:7.2} ms  broker {:6.0} clients {:6.0} ns",
                figures.offered,
                figures.published,
                figures.deliveries,
                figures.lost * 100.0,
                figures.p50_ms,
                figures.p99_ms,
                figures.broker_ns,
                figures.clients_ns,
            );
            steps.push(figures);
            if self.counts(&figures) {
                failures = 0;
                rate *= self.factor;
                if best.is_none_or(|best| best.deliveries < figures.deliveries) {
                    best = Some(figures);
                }
            } else if best.is_none() && rate / DOWN >= LOWEST {
                rate /= DOWN;
            } else {
                failures += 1;
                rate *= self.factor;
                if failures == FAILURES {
                    break;
                }
            }
        }
        Ok((steps, best))
    }

    fn counts(&self, figures: &Figures) -> bool {
        let is_whole = figures.published >= KEPT_UP * figures.offered && figures.lost == 0.0;
        is_whole && figures.disordered == 0.0 && figures.p99_ms <= self.p99.as_secs_f64() * 1e3
    }

    /// Runs a step. Returns its figures.
    async fn step(
        &self,
        broker: &Broker,
        audience: &Audience,
        publishers: &Publishers,
        rate: f64,
        number: u32,
    ) -> anyhow::Result<Figures> {
        audience.begin(number);
        let (ours, theirs) = (usage("self")?.cpu, broker.usage()?.cpu);
        let published = publishers.run(number, rate, self.time).await?;
        let expected = published.messages * audience.len() as u64;
        wait(audience, expected).await;
        let (ours, theirs) = (usage("self")?.cpu - ours, broker.usage()?.cpu - theirs);
        let sums = audience.sums();
        let seconds = sums.last.saturating_sub(published.began) as f64 / 1e9;
        let each = |time: Duration| time.as_secs_f64() * 1e9 / sums.received.max(1) as f64;
        Ok(Figures {
            offered: rate,
            published: published.messages as f64 / self.time.as_secs_f64(),
            deliveries: sums.received as f64 / seconds.max(self.time.as_secs_f64()),
            lost: 1.0 - sums.received as f64 / expected.max(1) as f64,
            disordered: sums.disordered as f64 / expected.max(1) as f64,
            p50_ms: sums.quantile(0.5) * 1e3,
            p99_ms: sums.quantile(0.99) * 1e3,
            broker_ns: each(theirs),
            clients_ns: each(ours),
        })
    }
}

/// Waits until everything has come, or nothing comes any more.
async fn wait(audience: &Audience, expected: u64) {
    let (began, mut last, mut since) = (stamp::now(), 0, stamp::now());
    loop {
        let (received, now) = (audience.received(), stamp::now());
        if received != last {
            (last, since) = (received, now);
        }
        let is_over = |since: u64, limit: Duration| now - since > limit.as_nanos() as u64;
        if received >= expected || is_over(since, SILENCE) || is_over(began, DRAIN) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
