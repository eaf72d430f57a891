//! Connections of unmodified programs through an outage of 50 s.

use std::time::Duration;

use super::measure::{both_ways, millis};
use super::programs::{Server, exchange, exchanged, reach};
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::carrier::{self, Carrier, HYSTERIA, OURS, Place};
use crate::clock;
use crate::program::{Exchanged, Load};
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::stats::{percentile, sorted};
use crate::testbed::{Side, Testbed};

pub(crate) struct ProxyOutage;

/// Seconds that the link is down, and in a quick run.
const OUTAGE: f64 = 50.0;
const QUICK_OUTAGE: f64 = 2.0;
/// Seconds before the outage and after it. A connection that is silent for longer after it counts as lost.
const BEFORE: f64 = 5.0;
const QUICK_BEFORE: f64 = 1.0;
const AFTER: f64 = 30.0;
const LINKS: [(&str, &str); 2] =
    [("0 % loss", "rate=4mbit, delay=25ms, loss=0%"), ("5 % loss", "rate=4mbit, delay=25ms, loss=5%")];
const DOWN: &str = "rate=4mbit, delay=25ms, loss=100%";
const RTT_MS: f64 = 50.0;
const PEERS: [&str; 4] = ["tcp-cubic", "tcp-bbr", HYSTERIA, OURS];
const QUICK_PEERS: [&str; 1] = [OURS];
const CONNECTIONS: usize = 20;
const EVERY_MS: u64 = 100;

impl Experiment for ProxyOutage {
    fn name(&self) -> &'static str {
        "proxy-outage"
    }

    fn about(&self) -> About {
        About {
            title: "Connections of unmodified programs through an outage of 50 s",
            source: "the goals of the proxy's own issue: every held flow goes on within a round trip plus 250 ms",
            measured: "A program holds 20 TCP connections to an echo server, and makes an exchange of 64 bytes on each \
                       every 100 ms. After 5 s the link drops everything for 50 s, then works again. The figure is the \
                       time from its return to the first reply on each connection. A connection is lost if it ends, or \
                       if it is silent for 30 s after the return. With a pair of proxies, the program uses SOCKS5. \
                       Otherwise it connects to the server, whose TCP has CUBIC or BBR.",
            why: "After an outage, a sender does not know that the link is back: it has to try. Kernel TCP doubles the time between two tries, so its connections \
                  sleep for up to as long again, each by its own timer. Our proxies probe at a steady pace, all connections share the session, and it lives for over an \
                  hour without an answer. hysteria2 keeps its connections through 10 s of outage, and goes on as soon. \
                  Its QUIC connection ends after 30 s without an answer, though, and all 20 end with it.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let links = LINKS.iter().filter(|(name, _)| !options.quick || *name == LINKS[0].0);
        let peers = if options.quick { &QUICK_PEERS[..] } else { &PEERS };
        links.flat_map(|(link, _)| peers.iter().map(|peer| Case::new(*link, *peer, Cost::LIGHT))).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let link = LINKS.iter().find(|(name, _)| *name == case.condition);
            let (_, link) = link.ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let testbed = Testbed::new(&[both_ways(link)?], seed)?;
            let at = testbed.addresses(Side::Server)[0];
            let congestion = carrier::congestion(&case.peer);
            let echo = Server::echo(&testbed, Side::Server, at, 1, congestion).await?;
            let place = Place { near: Side::Caller, far: Side::Server, at, forwarded: None };
            let carrier = Carrier::start(&testbed, &case.peer, place).await?;
            reach(&testbed, &carrier, echo.places[0], carrier.socks()).await?;

            let [before, outage, after] = times(options);
            let seconds = before + outage + after;
            let load =
                Load::Beat { connections: CONNECTIONS, every_ms: EVERY_MS, seconds, last_ms: EVERY_MS };
            let mut client = exchange(&testbed, &echo.places, carrier.socks(), &load)?;
            client.next_within("started", Duration::from_secs(20)).await?;
            tokio::time::sleep(Duration::from_secs_f64(before)).await;
            testbed.reconfigure(0, both_ways(DOWN)?);
            tokio::time::sleep(Duration::from_secs_f64(outage)).await;
            testbed.reconfigure(0, both_ways(link)?);
            let back = clock::now();
            let found = exchanged(&mut client, Duration::from_secs_f64(after + 20.0)).await?;
            Ok(judge(&found, back))
        })
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::lower("last_ms", "last connection goes on after, ms", 0),
            Column::lower("median_ms", "median connection, ms", 0),
            Column::lower("lost", "connections lost, of 20", 0),
        ]
    }

    fn limit(&self, _: &str, metric: &str) -> Option<f64> {
        ["last_ms", "median_ms"].contains(&metric).then_some(RTT_MS / 2.0)
    }

    fn links(&self) -> Vec<(String, String)> {
        LINKS.map(|(name, words)| (name.to_owned(), words.to_owned())).to_vec()
    }

    fn plots(&self) -> Vec<Plot> {
        let conditions = LINKS.map(|(name, _)| name.to_owned()).to_vec();
        vec![
            Plot::bars("The last of 20 connections goes on", "last_ms", conditions)
                .axes("", "ms")
                .logarithmic(),
        ]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        times(options).iter().sum::<f64>() + 1.0
    }
}

/// Returns the seconds before, in and after the outage.
fn times(options: &Options) -> [f64; 3] {
    let before = if options.quick { QUICK_BEFORE } else { BEFORE };
    [before, options.span(OUTAGE, QUICK_OUTAGE), AFTER.min(options.span(AFTER, QUICK_OUTAGE))]
}

/// Finds when each connection went on. Those that did not are lost.
fn judge(found: &Exchanged, back: u64) -> Metrics {
    let first = |replies: &Vec<u64>| replies.iter().find(|at| **at >= back).map(|at| millis(back, *at));
    let again = sorted(found.replies.iter().filter_map(first));
    let mut metrics = Metrics::default();
    metrics.set("lost", (CONNECTIONS - again.len().min(CONNECTIONS)) as f64);
    // Where some are lost, the others say little.
    if let (Some(median), Some(last)) = (percentile(&again, 0.5), again.last()) {
        metrics.set("median_ms", median);
        metrics.set("last_ms", *last);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_goes_on_with_its_first_reply_after_the_return() {
        let ms = 1_000_000;
        let mut replies = vec![vec![5 * ms, 130 * ms, 200 * ms]; CONNECTIONS - 2];
        replies.extend([vec![99 * ms, 150 * ms], vec![99 * ms]]);
        let found = judge(&Exchanged { replies, ..Exchanged::default() }, 100 * ms).values;
        assert_eq!((found["median_ms"], found["last_ms"], found["lost"]), (30.0, 50.0, 1.0));
    }
}
