//! Reloads and upgrades of our proxy under load: what becomes of flows.

use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::Instant;

use super::measure::both_ways;
use super::programs::{self, Request, Server, exchange, exchanged, fetch, reach};
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::carrier::{Carrier, OURS, OURS_TCP, Place};
use crate::program::Load;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::stats::{percentile, sorted};
use crate::testbed::{Side, Testbed};

pub(crate) struct ProxyReload;

const RELOADS: &str = "1,000 reloads";
const UPGRADES: &str = "100 upgrades";
const LINK: &str = "rate=20mbit, delay=5ms, loss=1%";
/// The number of each, and in a quick run.
const COUNTS: (usize, usize) = (1_000, 100);
const QUICK_COUNTS: (usize, usize) = (20, 2);
/// Seconds that one of each takes at most, as a rule, and the pause after it.
const TAKES: (f64, f64) = (0.04, 1.0);
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// Connections that make exchanges meanwhile, and how often.
const CONNECTIONS: usize = 50;
const EVERY_MS: u64 = 50;
/// How long the reply to a connection's last exchange may take. Over TCP, a lost packet holds up all of them.
const LAST_MS: u64 = 10_000;
/// The length of the file that curl fetches meanwhile, again and again.
const BYTES: u64 = 3_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

impl Experiment for ProxyReload {
    fn name(&self) -> &'static str {
        "proxy-reload"
    }

    fn about(&self) -> About {
        About {
            title: "Reloads and upgrades of a proxy under load",
            source: "the goals of the proxy's own issue: no flow reset, no byte lost",
            measured: "A program holds 50 connections to an echo server through SOCKS5, makes an exchange of 64 bytes on each every 50 ms, and \
                       compares what comes back. curl fetches 3 MB again and again. Meanwhile the near proxy's file changes and is read again a thousand \
                       times. Or, a hundred times, a new process takes over from the near and the far proxy in turns (`--replace`). A flow is \
                       reset if a connection or a download ends early. Bytes lost are those that curl lacked, and 64 for each exchange that was \
                       wrong or without an end. Over TCP there are no upgrades.",
            why: "A reload replaces rules, and touches no socket. An upgrade hands sockets, sessions and what is in hand to the next process; programs \
                  see that as a pause. A session over TCP cannot be handed over.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let cases = [(RELOADS, OURS), (RELOADS, OURS_TCP), (UPGRADES, OURS)];
        let cases = cases.into_iter().filter(|(_, peer)| !options.quick || *peer == OURS);
        cases.map(|(what, peer)| Case::new(what, peer, Cost::Carries(20.0))).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let testbed = Testbed::new(&[both_ways(LINK)?], seed)?;
            let at = testbed.addresses(Side::Server)[0];
            let text = at.to_string();
            let web = Server::start(&testbed, Side::Server, &["web", "--at", &text]).await?;
            let echo = Server::echo(&testbed, Side::Server, at, 1, None).await?;
            let place = Place { near: Side::Caller, far: Side::Server, at, forwarded: None };
            let mut carrier = Carrier::start(&testbed, &case.peer, place).await?;
            reach(&testbed, &carrier, echo.places[0], carrier.socks()).await?;
            let lasting = changing(case, options) + 2.0;
            let load = Load::Beat {
                connections: CONNECTIONS,
                every_ms: EVERY_MS,
                seconds: lasting,
                last_ms: LAST_MS,
            };
            let mut client = exchange(&testbed, &echo.places, carrier.socks(), &load)?;
            client.next_within("started", programs::START).await?;
            let end = Instant::now() + Duration::from_secs_f64(lasting);
            let socks = carrier.socks();
            let request =
                Request { from: web.places[0], path: None, bytes: BYTES, patience: PATIENCE, socks };
            let (took, fetched) = tokio::try_join!(
                change(&testbed, &mut carrier, case, options, end),
                fetch_until(&testbed, &request, end),
            )?;
            let patience = end.saturating_duration_since(Instant::now()) + PATIENCE;
            let found = exchanged(&mut client, patience).await;
            let found = found.map_err(|error| carrier.explain(error))?;
            let mut metrics = Metrics::default();
            let broken = found.errors.values().sum::<u64>();
            metrics.set("done", took.len() as f64);
            metrics.set("reset", (broken + fetched.broken) as f64);
            metrics.set("lost_bytes", (fetched.lost + 64 * broken) as f64);
            metrics.set("exchanges", found.replies.iter().map(Vec::len).sum::<usize>() as f64);
            metrics.set("fetched", fetched.whole as f64);
            metrics
                .set("took_ms", percentile(&sorted(took.iter().copied()), 0.5).context("nothing was done")?);
            let gap =
                found.replies.iter().flat_map(|replies| replies.windows(2).map(|two| two[1] - two[0])).max();
            metrics.set("gap_ms", gap.unwrap_or_default() as f64 / 1e6);
            Ok(metrics)
        })
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::neutral("done", "done", 0),
            Column::lower("reset", "flows reset", 0),
            Column::lower("lost_bytes", "bytes lost", 0),
            Column::neutral("exchanges", "exchanges meanwhile", 0),
            Column::neutral("fetched", "downloads of 3 MB", 0),
            Column::lower("took_ms", "one takes p50, ms", 1),
            Column::lower("gap_ms", "longest time between two exchanges, ms", 0),
        ]
    }

    fn limit(&self, _: &str, metric: &str) -> Option<f64> {
        ["reset", "lost_bytes"].contains(&metric).then_some(0.0)
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("it goes by the number of reloads and upgrades")
    }

    fn links(&self) -> Vec<(String, String)> {
        vec![("both".to_owned(), LINK.to_owned())]
    }

    fn plots(&self) -> Vec<Plot> {
        Vec::new()
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        changing(case, options) + if options.quick { 3.0 } else { 6.0 }
    }

    fn prepare(&self) -> anyhow::Result<()> {
        programs::check("curl")
    }
}

/// Returns the number of reloads or upgrades.
fn count(case: &Case, options: &Options) -> usize {
    let (reloads, upgrades) = if options.quick { QUICK_COUNTS } else { COUNTS };
    if case.condition == RELOADS { reloads } else { upgrades }
}

/// Estimates the seconds that they take.
fn changing(case: &Case, options: &Options) -> f64 {
    count(case, options) as f64 * if case.condition == RELOADS { TAKES.0 } else { TAKES.1 }
}

/// Reloads or upgrades while the load lasts. Returns the time that each took, ms.
async fn change(
    testbed: &Testbed,
    carrier: &mut Carrier,
    case: &Case,
    options: &Options,
    end: Instant,
) -> anyhow::Result<Vec<f64>> {
    let (count, is_reload) = (count(case, options), case.condition == RELOADS);
    let mut took = Vec::new();
    for number in 0..count {
        let start = Instant::now();
        ensure!(start < end, "only {number} of {count} were done while the load lasted");
        let changed = match is_reload {
            true => carrier.reload(number).await,
            false => carrier.upgrade(testbed, number).await,
        };
        changed.map_err(|error| carrier.explain(error))?;
        took.push(start.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(if is_reload { PAUSES.0 } else { PAUSES.1 }).await;
    }
    Ok(took)
}

/// The results of downloads.
#[derive(Default)]
struct Downloads {
    whole: u64,
    broken: u64,
    lost: u64,
}

async fn fetch_until(testbed: &Testbed, request: &Request<'_>, end: Instant) -> anyhow::Result<Downloads> {
    let mut downloads = Downloads::default();
    while Instant::now() < end {
        let fetched = fetch(testbed, request).await?;
        match fetched.complete {
            true => downloads.whole += 1,
            false => {
                downloads.broken += 1;
                downloads.lost += request.bytes - fetched.bytes.min(request.bytes);
            }
        }
    }
    Ok(downloads)
}
