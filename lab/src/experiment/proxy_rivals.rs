//! Proxies beside each other over lossy links: bulk, and exchanges.

use std::time::Duration;

use super::measure::{PAYLOAD_SHARE, both_ways};
use super::programs::{self, Request, Server, exchange, exchanged, fetch, reach};
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::carrier::{self, Carrier, HYSTERIA, OURS, OURS_TCP, Place, SHADOWSOCKS};
use crate::program::Load;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::testbed::{Side, Testbed};

pub(crate) struct ProxyRivals;

/// Conditions, their links, and the share of packets that is lost.
const LINKS: [(&str, &str, f64); 4] = [
    ("0 % loss", "rate=20mbit, delay=25ms, loss=0%", 0.0),
    ("1 % loss", "rate=20mbit, delay=25ms, loss=1%", 0.01),
    ("5 % loss", "rate=20mbit, delay=25ms, loss=5%", 0.05),
    ("10 % loss", "rate=20mbit, delay=25ms, loss=10%", 0.1),
];
const RATE: f64 = 20e6;
const RTT_MS: f64 = 50.0;
const PEERS: [&str; 6] = ["tcp-cubic", "tcp-bbr", SHADOWSOCKS, HYSTERIA, OURS_TCP, OURS];
/// Seconds of bulk, and in a quick run.
const SPAN: f64 = 10.0;
const QUICK_SPAN: f64 = 2.0;
/// More bytes than the link carries in that time.
const BYTES: u64 = 1 << 30;
/// Exchanges over one connection, and new connections a second.
const PINGS: usize = 60;
const OPENED: f64 = 10.0;
/// Longest time that a load may take.
const PATIENCE: Duration = Duration::from_secs(60);

impl Experiment for ProxyRivals {
    fn name(&self) -> &'static str {
        "proxy-rivals"
    }

    fn about(&self) -> About {
        About {
            title: "Proxies beside each other, over links that lose packets",
            source: "the proxy's own issue",
            measured: "Bulk: curl fetches for 10 s over one connection, and the rate is what it has got. Then, with nothing beside: \
                       60 exchanges of 64 bytes over one connection, one after the other, and for 5 s ten new connections a second, each \
                       with one exchange. The figures are the medians. Pairs of proxies are used by SOCKS5, whose reply comes when the far end is \
                       connected, and their session, if they have one, stands before. shadowsocks has none: each connection has its own. Without \
                       proxies, the server's TCP has CUBIC or BBR.",
            why: "CUBIC takes each loss for congestion; BBR, hysteria2 and ours do not. An exchange through hysteria2 takes one round trip and ours two: \
                  it lets a program in before the far end has answered.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let links = LINKS.iter().filter(|(.., loss)| !options.quick || *loss == 0.05);
        let peers = PEERS.iter().filter(|peer| !options.quick || **peer == OURS_TCP);
        let peers: Vec<_> = peers.collect();
        let cases = links.flat_map(|(link, ..)| peers.iter().map(move |peer| (*link, **peer)));
        cases.map(|(link, peer)| Case::new(link, peer, Cost::Carries(20.0))).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let link = LINKS.iter().find(|(name, ..)| *name == case.condition);
            let (_, link, _) = link.ok_or_else(|| anyhow::anyhow!("no such condition"))?;
            let testbed = Testbed::new(&[both_ways(link)?], seed)?;
            let at = testbed.addresses(Side::Server)[0];
            let (text, congestion) = (at.to_string(), carrier::congestion(&case.peer));
            let mut web = vec!["web", "--at", &text];
            web.extend(congestion.iter().flat_map(|name| ["--congestion", name]));
            let web = Server::start(&testbed, Side::Server, &web).await?;
            let echo = Server::echo(&testbed, Side::Server, at, 1, congestion).await?;
            let place = Place { near: Side::Caller, far: Side::Server, at, forwarded: None };
            let carrier = Carrier::start(&testbed, &case.peer, place).await?;
            let socks = carrier.socks();
            reach(&testbed, &carrier, echo.places[0], socks).await?;

            let span = options.span(SPAN, QUICK_SPAN);
            let patience = Duration::from_secs_f64(span);
            let bulk = Request { from: web.places[0], path: None, bytes: BYTES, patience, socks };
            let fetched = fetch(&testbed, &bulk).await.map_err(|error| carrier.explain(error))?;
            let mut metrics = Metrics::default();
            metrics.set("mbits", fetched.bytes as f64 * 8.0 / fetched.seconds / 1e6);
            // What was on its way is over.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let pings = if options.quick { PINGS / 6 } else { PINGS };
            let loads = [Load::Ping { count: pings }, Load::Open { rate: OPENED, seconds: span / 2.0 }];
            let [mut failed, mut medians] = [Vec::new(), Vec::new()];
            for load in loads {
                let mut client = exchange(&testbed, &echo.places, socks, &load)?;
                let found = exchanged(&mut client, PATIENCE).await.map_err(|error| carrier.explain(error))?;
                failed.push(found.errors.values().sum::<u64>() as f64);
                medians.push(found.median_us / 1e3);
            }
            metrics.set("exchange_ms", medians[0]);
            metrics.set("opened_ms", medians[1]);
            metrics.set("failed", failed.iter().sum());
            Ok(metrics)
        })
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::higher("mbits", "bulk, Mbit/s", 2),
            Column::lower("exchange_ms", "exchange p50, ms", 1),
            Column::lower("opened_ms", "opened and answered p50, ms", 1),
            Column::lower("failed", "failed", 0),
        ]
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        let (.., loss) = LINKS.iter().find(|(name, ..)| *name == condition)?;
        match metric {
            "mbits" => Some(RATE * (1.0 - loss) * PAYLOAD_SHARE / 1e6),
            "exchange_ms" | "opened_ms" => Some(RTT_MS),
            _ => None,
        }
    }

    fn links(&self) -> Vec<(String, String)> {
        LINKS.map(|(name, words, _)| (name.to_owned(), words.to_owned())).to_vec()
    }

    fn plots(&self) -> Vec<Plot> {
        let conditions = || LINKS.map(|(name, ..)| name.to_owned()).to_vec();
        vec![
            Plot::bars("Bulk", "mbits", conditions()).axes("", "Mbit/s"),
            Plot::bars("A new connection and an exchange", "opened_ms", conditions()).axes("", "p50, ms"),
        ]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) * 1.5 + if options.quick { 2.5 } else { 8.0 }
    }

    fn prepare(&self) -> anyhow::Result<()> {
        programs::check("curl")
    }
}
