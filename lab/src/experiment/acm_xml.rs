//! The scenario of ACM NetProxy's Tables III and IV: XML documents over HTTP, compressed on the way or not.

use std::time::Duration;

use anyhow::ensure;

use super::programs::{Request, Server, fetch, reach};
use super::{Case, Column, Cost, Options, Quoted};
use crate::carrier::{self, Carrier, Place, Wish};
use crate::condition;
use crate::sample::Metrics;
use crate::testbed::{Side, Testbed};

/// The only condition.
pub(super) const LINK: &str = "tactical-1mbit";
/// The documents of the paper, in bytes, with the names of their figures.
pub(super) const SIZES: [(usize, &str); 9] = [
    (1133, "kbs_1133"),
    (2268, "kbs_2268"),
    (2615, "kbs_2615"),
    (3111, "kbs_3111"),
    (5287, "kbs_5287"),
    (8765, "kbs_8765"),
    (9570, "kbs_9570"),
    (116_520, "kbs_116520"),
    (141_349, "kbs_141349"),
];
/// Requests of each document, and in a quick run.
const REQUESTS: usize = 4;
/// Longest time for one document.
const PATIENCE: Duration = Duration::from_secs(120);

/// Text about the scenario that both tables share.
pub(super) const MEASURED: &str = "curl asks for nine XML documents of the paper's sizes over HTTP, one after the other, each four times, each \
     over a connection of its own. The documents are made up: records like those of Cursor on Target, with places, times and names that \
     differ. The rate is the bytes of a document over the time that its requests took, connecting included. Pairs of proxies have their \
     session before the measurement, over Whimbrel or over one TCP connection with CUBIC. They compress by rule as the row says. \
     `dictionary` is one of 16 KB, trained on other documents. Without a proxy, curl connects to the server, whose TCP has CUBIC.";

/// One row for each peer.
pub(super) fn cases(options: &Options, peers: &[&'static str]) -> Vec<Case> {
    let peers = peers.iter().filter(|peer| !options.quick || **peer == "whimbrel zlib:1");
    peers.map(|peer| Case::new(LINK, *peer, Cost::Carries(1.0))).collect()
}

/// The columns: one for each document.
pub(super) fn columns() -> Vec<Column> {
    let titles = [
        "1,133 bytes, KB/s",
        "2,268 bytes",
        "2,615 bytes",
        "3,111 bytes",
        "5,287 bytes",
        "8,765 bytes",
        "9,570 bytes",
        "116,520 bytes",
        "141,349 bytes",
    ];
    SIZES.into_iter().zip(titles).map(|((_, metric), title)| Column::higher(metric, title, 1)).collect()
}

/// The figures of a table of the paper: for each document, in its order of columns.
pub(super) fn quoted(names: [&'static str; 9], rows: [[f64; 9]; 9]) -> Vec<Quoted> {
    let of_size = |((_, metric), row): ((usize, &'static str), [f64; 9])| {
        names.into_iter().zip(row).map(move |(peer, value)| Quoted { condition: LINK, peer, metric, value })
    };
    SIZES.into_iter().zip(rows).flat_map(of_size).collect()
}

/// Estimates the seconds of a trial.
pub(super) fn seconds(case: &Case, options: &Options) -> f64 {
    match case.peer.as_str() {
        _ if options.quick => 8.0,
        "tcp-cubic" => 60.0,
        _ => 35.0,
    }
}

/// Asks for all documents.
pub(super) async fn trial(case: &Case, options: &Options, seed: u64) -> anyhow::Result<Metrics> {
    let testbed = Testbed::new(&[condition::link(LINK)?], seed)?;
    let at = testbed.addresses(Side::Server)[0];
    let text = at.to_string();
    let mut web = vec!["web", "--at", &text];
    web.extend(carrier::congestion(&case.peer).iter().flat_map(|name| ["--congestion", name]));
    let web = Server::start(&testbed, Side::Server, &web).await?;
    let echo = Server::echo(&testbed, Side::Server, at, 1, None).await?;
    let place = Place { near: Side::Caller, far: Side::Server, at, forwarded: None };
    let carrier = match Wish::of(&case.peer) {
        Some(wish) => Carrier::start_ours(&testbed, &wish, place).await?,
        None => Carrier::start(&testbed, &case.peer, place).await?,
    };
    let socks = carrier.socks();
    reach(&testbed, &carrier, echo.places[0], socks).await?;
    let requests = if options.quick { 1 } else { REQUESTS };
    let mut metrics = Metrics::default();
    for (bytes, metric) in SIZES {
        let mut seconds = 0.0;
        for _ in 0..requests {
            let path = format!("cot/{bytes}");
            let request = Request {
                from: web.places[0],
                path: Some(&path),
                bytes: bytes as u64,
                patience: PATIENCE,
                socks,
            };
            let fetched = fetch(&testbed, &request).await.map_err(|error| carrier.explain(error))?;
            ensure!(fetched.complete, "a document of {bytes} bytes was not complete after {PATIENCE:?}");
            seconds += fetched.seconds;
        }
        metrics.set(metric, (bytes * requests) as f64 / seconds / 1e3);
    }
    Ok(metrics)
}
