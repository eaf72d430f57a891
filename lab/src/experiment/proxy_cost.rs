//! The cost of a pair of proxies on one machine, without a link.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::measure::both_ways;
use super::programs::{self, Server, exchange, exchanged, reach};
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::carrier::{Carrier, HYSTERIA, OURS, OURS_TCP, Place, Wish};
use crate::program::Load;
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::testbed::{Side, Testbed};

pub(crate) struct ProxyCost;

const BULK: &str = "Bulk: iperf3, one connection";
const TRIP: &str = "Round trip: 64 bytes there and back";
const HELD: &str = "Held: 5,000 connections";
const OPENED: &str = "Opened: 2,000 connections a second";
const TPROXY: &str = "TPROXY: iperf3, one connection, between two hosts";
const EXCHANGE: &str = "Exchange: a new connection and 64 bytes there and back, round trip 50 ms";
const DIRECT: &str = "tcp-cubic";
const PEERS: [&str; 4] = [DIRECT, HYSTERIA, OURS_TCP, OURS];
/// Ways into our proxy, as peers: a forward lets its program in early, SOCKS5 has a reply, and an intercepted SYN waits.
const FORWARDED: &str = "whimbrel-proxy forward";
const SOCKS: &str = "whimbrel-proxy socks";
const INTERCEPTED: &str = "whimbrel-proxy tproxy";
const WAYS: [&str; 4] = [DIRECT, FORWARDED, SOCKS, INTERCEPTED];
const LINK: &str = "rate=100mbit, delay=25ms";
const RTT_US: f64 = 50_000.0;
/// New connections a second of an exchange.
const EXCHANGES: f64 = 10.0;
/// Seconds of bulk and of openings, and in a quick run.
const SPAN: f64 = 5.0;
const QUICK_SPAN: f64 = 1.0;
const PINGS: usize = 5000;
const MANY: usize = 5000;
const RATE: f64 = 2000.0;
/// Ports of the echo server, which take turns.
const PORTS: usize = 8;
/// Port of iperf3's server.
const IPERF: u16 = 5201;
const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Longest time that a load may take.
const PATIENCE: Duration = Duration::from_secs(60);

impl Experiment for ProxyCost {
    fn name(&self) -> &'static str {
        "proxy-cost"
    }

    fn falls_short(&self) -> Option<&'static str> {
        Some(
            "Each proxy added 102 µs to the round trip, where 60 was the goal; 64 in an earlier run. Both proxies ran with a runtime of several threads. With `--runtime current` for both, the rate was \
             5.6 to 5.8 Gbit/s in a check by hand, and the round trip was no shorter. The median of the round trip \
             lies between 50 and 166 µs from trial to trial: where the processes run on the two cores decides. Other \
             programs were at work during this run, in the background.",
        )
    }

    fn about(&self) -> About {
        About {
            title: "The cost of a pair of proxies on one machine",
            source: "the proxy's own goals",
            measured: "Both proxies, the program and the server run on one host, over loopback, one trial at a time. \
                       Bulk: iperf3 sends for 5 s over one connection, through a forward. Processor time is that of \
                       both proxies for each gigabyte. Round trip: the median of 5,000 exchanges of 64 bytes, one after \
                       the other, over one connection. What a proxy adds is half of the difference to \
                       the same without proxies, measured right after. Held: 5,000 connections with an exchange each, at most 64 being \
                       opened at a time. The memory is the most that one of the two proxies has had. Opened: 2,000 new \
                       connections a second to eight ports for 5 s, each with an exchange. Without proxies, the program connects to the server. \
                       TPROXY: iperf3 and the near proxy on one host, the far one and the server on another, joined by the \
                       kernel; iperf3 goes through a forward, or is intercepted. Exchange: over a link with a round trip of 50 ms, \
                       the time from a connection's beginning to the reply to its first bytes, in round trips. A forward takes its program in early; \
                       SOCKS5 replies, and TPROXY answers the SYN, when the far end is connected.",
            why: "There is no link here, so figures show the cost in processor time. A byte goes through six sockets rather than two, and between the proxies it is \
                  sealed. The pair, iperf3 and its server share the cores.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let loads = [BULK, TRIP, HELD, OPENED].into_iter().filter(|load| !options.quick || *load == BULK);
        let peers = if options.quick { &PEERS[3..] } else { &PEERS[..] };
        let cases = loads.flat_map(|load| peers.iter().map(move |peer| Case::new(load, *peer, Cost::Heavy)));
        // A direct connection has no proxy whose memory could be told.
        let cases = cases.filter(|case| case.condition != HELD || case.peer != DIRECT);
        if options.quick {
            return cases.collect();
        }
        let ways = |load: &'static str, cost| WAYS.iter().map(move |way| Case::new(load, *way, cost));
        // iperf3 knows no SOCKS5.
        let bulk = ways(TPROXY, Cost::Heavy).filter(|case| case.peer != SOCKS);
        cases.chain(bulk).chain(ways(EXCHANGE, Cost::Sparse)).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            if [TPROXY, EXCHANGE].contains(&case.condition.as_str()) {
                return between_hosts(case, options, seed).await;
            }
            // A host has a loopback device, even without a link.
            let testbed = Testbed::new(&[], seed)?;
            let place = Place { near: Side::Caller, far: Side::Caller, at: LOCAL, forwarded: Some(IPERF) };
            let carrier = Carrier::start(&testbed, &case.peer, place).await?;
            let echo = Server::echo(&testbed, Side::Caller, LOCAL, PORTS, None).await?;
            let all = Rig {
                testbed: &testbed,
                carrier: &carrier,
                echo: &echo.places,
                server: Side::Caller,
                at: LOCAL,
            };
            reach(&testbed, &carrier, echo.places[0], carrier.socks()).await?;
            let seconds = options.span(SPAN, QUICK_SPAN);
            let measured = match case.condition.as_str() {
                BULK => all.bulk(seconds).await,
                TRIP => all.trip().await,
                HELD => all.held().await,
                _ => all.opened(seconds).await,
            };
            measured.map_err(|error| carrier.explain(error))
        })
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::higher("gbits", "Gbit/s", 2),
            Column::lower("cpu_per_gb", "processor time, s a GB", 2),
            Column::lower("rtt_us", "round trip p50, us", 1),
            Column::lower("added_us", "added by each proxy, us", 1),
            Column::lower("memory_mb", "memory of a proxy, MB", 1),
            Column::neutral("held", "connections held", 0),
            Column::lower("failed", "failed", 0),
            Column::lower("open_us", "opened and answered p50, us", 0),
            Column::higher("opened_s", "opened a second", 0),
            Column::lower("trips", "exchange p50, round trips", 2),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn links(&self) -> Vec<(String, String)> {
        vec![("exchange".to_owned(), LINK.to_owned())]
    }

    fn plots(&self) -> Vec<Plot> {
        vec![Plot::bars("Bulk through two proxies", "gbits", vec![BULK.to_owned()]).axes("", "Gbit/s")]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + if options.quick { 0.2 } else { 2.0 }
    }

    fn prepare(&self) -> anyhow::Result<()> {
        programs::check("iperf3")
    }
}

/// The programs of a trial.
struct Rig<'a> {
    testbed: &'a Testbed,
    carrier: &'a Carrier,
    echo: &'a [SocketAddr],
    /// Where iperf3's server runs, and its address.
    server: Side,
    at: IpAddr,
}

/// Measures with the server on another host.
async fn between_hosts(case: &Case, options: &Options, seed: u64) -> anyhow::Result<Metrics> {
    let is_bulk = case.condition == TPROXY;
    let links = if is_bulk { Vec::new() } else { vec![both_ways(LINK)?] };
    let testbed = Testbed::new(&links, seed)?;
    let (server, near) = (Side::Server, Side::Caller);
    let at = if is_bulk { testbed.veth()? } else { testbed.addresses(server)[0] };
    let echo = Server::echo(&testbed, server, at, 1, None).await?;
    let forwarded = if is_bulk { IPERF } else { echo.places[0].port() };
    let place = Place { near, far: server, at, forwarded: Some(forwarded) };
    let carrier = match case.peer.as_str() {
        DIRECT => Carrier::start(&testbed, DIRECT, place).await?,
        way => {
            let wish = Wish { tproxy: way == INTERCEPTED, ..Wish::default() };
            Carrier::start_ours(&testbed, &wish, place).await?
        }
    };
    reach(&testbed, &carrier, echo.places[0], carrier.socks()).await?;
    let span = options.span(SPAN, QUICK_SPAN);
    let to = |there: SocketAddr| match case.peer.as_str() {
        FORWARDED => carrier.forward(there),
        _ => Ok(there),
    };
    let measured = if is_bulk {
        let all = Rig { testbed: &testbed, carrier: &carrier, echo: &echo.places, server, at };
        all.bulk_to(to(SocketAddr::new(at, IPERF))?, span).await
    } else {
        let socks = carrier.socks().filter(|_| case.peer == SOCKS);
        let load = Load::Open { rate: EXCHANGES, seconds: span };
        let mut client = exchange(&testbed, &[to(echo.places[0])?], socks, &load)?;
        exchanged(&mut client, PATIENCE).await.map(|found| {
            let mut metrics = Metrics::default();
            metrics.set("failed", found.errors.values().sum::<u64>() as f64);
            metrics.set("trips", found.median_us / RTT_US);
            metrics
        })
    };
    measured.map_err(|error| carrier.explain(error))
}

impl Rig<'_> {
    async fn bulk(&self, seconds: f64) -> anyhow::Result<Metrics> {
        self.bulk_to(self.carrier.forward(SocketAddr::new(self.at, IPERF))?, seconds).await
    }

    async fn bulk_to(&self, to: SocketAddr, seconds: f64) -> anyhow::Result<Metrics> {
        let server = ["-s", "-1", "-p", &IPERF.to_string(), "-B", &self.at.to_string()].map(str::to_owned);
        let _server = self.testbed.spawn(self.server, "iperf3", &server, Stdio::null())?;
        let before = self.carrier.processor_time()?;
        let report = self.iperf(to, seconds).await?;
        let cpu = self.carrier.processor_time()? - before;
        let figure =
            |name: &str| report["end"]["sum_received"][name].as_f64().context("iperf3 says no figure");
        let (bits, bytes) = (figure("bits_per_second")?, figure("bytes")?);
        let mut metrics = Metrics::default();
        metrics.set("gbits", bits / 1e9);
        if self.carrier.socks().is_some() {
            metrics.set("cpu_per_gb", cpu / (bytes / 1e9));
        }
        Ok(metrics)
    }

    /// Runs iperf3 for whole seconds, since it reads a part of one as for ever. Its server may not listen yet, so several
    /// tries are made.
    async fn iperf(&self, to: SocketAddr, seconds: f64) -> anyhow::Result<Value> {
        let (host, port, time) = (to.ip().to_string(), to.port().to_string(), seconds.ceil().to_string());
        let client = ["-c", &host, "-p", &port, "-t", &time, "-J"].map(str::to_owned);
        let mut error = String::new();
        for _ in 0..20 {
            let child = self.testbed.spawn(Side::Caller, "iperf3", &client, Stdio::piped())?;
            let output = child.wait_with_output().await?;
            let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            match report["error"].as_str() {
                None if output.status.success() => return Ok(report),
                said => error = said.unwrap_or("it failed").to_owned(),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("iperf3: {error}")
    }

    async fn trip(&self) -> anyhow::Result<Metrics> {
        let load = Load::Ping { count: PINGS };
        let found = self.exchange(&load).await?;
        let mut metrics = Metrics::default();
        metrics.set("rtt_us", found.median_us);
        if self.carrier.socks().is_some() {
            // The same without the proxies, right after.
            let mut client = exchange(self.testbed, self.echo, None, &load)?;
            let direct = exchanged(&mut client, PATIENCE).await?;
            metrics.set("added_us", (found.median_us - direct.median_us) / 2.0);
        }
        Ok(metrics)
    }

    async fn held(&self) -> anyhow::Result<Metrics> {
        let load = Load::Hold { connections: MANY };
        let mut client = exchange(self.testbed, self.echo, self.carrier.socks(), &load)?;
        let held: f64 = client.next_within("held", PATIENCE).await?.parse()?;
        let mut metrics = Metrics::default();
        metrics.set("held", held);
        metrics.set("failed", MANY as f64 - held);
        metrics.set("memory_mb", self.carrier.peak_memory()? as f64 / 1e6);
        Ok(metrics)
    }

    async fn opened(&self, seconds: f64) -> anyhow::Result<Metrics> {
        let found = self.exchange(&Load::Open { rate: RATE, seconds }).await?;
        ensure!(found.done > 0, "{}", found.failures().unwrap_or_default());
        let mut metrics = Metrics::default();
        metrics.set("failed", found.errors.values().sum::<u64>() as f64);
        metrics.set("open_us", found.median_us);
        metrics.set("opened_s", found.done as f64 / found.seconds);
        Ok(metrics)
    }

    async fn exchange(&self, load: &Load) -> anyhow::Result<crate::program::Exchanged> {
        let mut client = exchange(self.testbed, self.echo, self.carrier.socks(), load)?;
        exchanged(&mut client, PATIENCE).await
    }
}
