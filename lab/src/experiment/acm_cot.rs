//! Records of Cursor on Target, as a stream and as datagrams: what is left of them on the link.

use std::time::Duration;

use anyhow::ensure;

use super::measure::both_ways;
use super::programs::{self, Server, reach};
use super::{About, Case, Column, Cost, Experiment, Options, Trial};
use crate::carrier::{Carrier, Place, Wish};
use crate::program::cot::{Kind, Told};
use crate::report::plot::Plot;
use crate::sample::Metrics;
use crate::testbed::{Side, Testbed};

pub(crate) struct AcmCot;

const STREAM: &str = "Stream: records over one connection";
const DATAGRAMS: &str = "Datagrams: a record each";
/// Without loss, so that a share of bytes is not one of luck.
const LINK: &str = "rate=1mbit, delay=25ms";
const PEERS: [&str; 8] = [
    "tcp-cubic",
    "whimbrel plain",
    "whimbrel zstd:3",
    "whimbrel zstd:3 dictionary",
    "whimbrel zstd:3 gathered",
    "whimbrel zstd:3 dictionary gathered",
    "over TCP zstd:3",
    "over TCP zstd:3 dictionary",
];
/// Seconds, and in a quick run.
const SPAN: f64 = 20.0;
const QUICK_SPAN: f64 = 3.0;
/// Records a second.
const RATE: f64 = 50.0;

impl Experiment for AcmCot {
    fn name(&self) -> &'static str {
        "acm-cot"
    }

    fn about(&self) -> About {
        About {
            title: "Cursor on Target: what is left of XML records on the link",
            source: "ACM NetProxy (2012), whose CoT messages these are; the goal of the proxy's own issue: at most 20 % of their bytes on the \
                     link, our headers included",
            measured: "A program sends 50 XML records a second, each of some 490 bytes, for 20 s over a link of 1 Mbit/s without loss: over one \
                       connection, or as datagrams. The share is the bytes of all packets in both directions, with the heads of IP and \
                       acknowledgements, over the bytes of the records that arrived. With proxies, it counts from the first record to the last one's \
                       arrival, and the session stands before. `dictionary` is one of 16 KB, trained on other records. `gathered`: records wait up to 250 ms for others (`gather`).",
            why: "A compressed record has 60 to 100 bytes, less than what surrounds a packet of its own and its acknowledgement. With `gather`, a dozen \
                  records share both, and a stream's share a block of the compressor. Datagrams are compressed one by one, so they need the \
                  dictionary. TCP has smaller headers, and what goes over it is one stream.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let peers = PEERS.iter().filter(|peer| !options.quick || **peer == "whimbrel zstd:3 dictionary");
        let peers: Vec<_> = peers.collect();
        let cases =
            [STREAM, DATAGRAMS].into_iter().flat_map(|kind| peers.iter().map(move |peer| (kind, **peer)));
        cases.map(|(kind, peer)| Case::new(kind, peer, Cost::Sparse)).collect()
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(async move {
            let kind = if case.condition == STREAM { Kind::Stream } else { Kind::Datagrams };
            let testbed = Testbed::new(&[both_ways(LINK)?], seed)?;
            let at = testbed.addresses(Side::Server)[0];
            let echo = Server::echo(&testbed, Side::Server, at, 1, None).await?;
            let place = Place { near: Side::Caller, far: Side::Server, at, forwarded: None };
            let carrier = match Wish::of(&case.peer) {
                Some(wish) => Carrier::start_ours(&testbed, &wish, place).await?,
                None => Carrier::start(&testbed, &case.peer, place).await?,
            };
            let socks = carrier.socks();
            reach(&testbed, &carrier, echo.places[0], socks).await?;
            let sent = send(&testbed, kind, options, socks).await;
            let (told, received, link) = sent.map_err(|error| carrier.explain(error))?;
            ensure!(received.records > 0, "no record arrived");
            let mut metrics = Metrics::default();
            metrics.set("link_share", 100.0 * link as f64 / received.bytes as f64);
            metrics.set("arrived", 100.0 * received.records as f64 / told.records as f64);
            metrics.set("record_bytes", told.bytes as f64 / told.records as f64);
            metrics.set("link_bytes", link as f64 / received.records as f64);
            Ok(metrics)
        })
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::lower("link_share", "bytes on the link, % of the records'", 1),
            Column::higher("arrived", "records that arrived, %", 1),
            Column::neutral("record_bytes", "bytes of a record", 0),
            Column::lower("link_bytes", "of it on the link", 0),
        ]
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn links(&self) -> Vec<(String, String)> {
        vec![("both".to_owned(), LINK.to_owned())]
    }

    fn plots(&self) -> Vec<Plot> {
        let conditions = vec![STREAM.to_owned(), DATAGRAMS.to_owned()];
        vec![Plot::bars("Bytes on the link", "link_share", conditions).axes("", "% of the records'")]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        options.span(SPAN, QUICK_SPAN) + 6.0
    }
}

/// Sends records, and counts the bytes on the link meanwhile.
async fn send(
    testbed: &Testbed,
    kind: Kind,
    options: &Options,
    socks: Option<&str>,
) -> anyhow::Result<(Told, Told, u64)> {
    let span = options.span(SPAN, QUICK_SPAN);
    let at = testbed.addresses(Side::Server)[0].to_string();
    let word = if kind == Kind::Stream { "stream" } else { "datagrams" };
    let mut sink = programs::run(testbed, Side::Server, &["cot-sink", "--at", &at, "--kind", word])?;
    let to = sink.next_within("ready", programs::START).await?;
    let on_link = || {
        let report = testbed.report(0);
        report.up.offered_bytes + report.down.offered_bytes
    };
    let before = on_link();
    let (rate, count) = (RATE.to_string(), ((span * RATE) as u64).to_string());
    let mut words = vec!["cot", "--to", &to, "--kind", word, "--rate", &rate, "--count", &count];
    words.extend(socks.iter().flat_map(|socks| ["--socks", socks]));
    let mut cot = programs::run(testbed, Side::Caller, &words)?;
    let patience = Duration::from_secs_f64(span) + programs::START;
    let told = serde_json::from_str(&cot.next_within("sent", patience).await?)?;
    // Datagrams that have a queue in front of them, and what is acknowledged later.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let link = on_link() - before;
    let received = serde_json::from_str(&sink.next_within("received", programs::START).await?)?;
    Ok((told, received, link))
}
