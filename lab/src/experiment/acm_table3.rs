//! ACM NetProxy's Table III: XML documents over HTTP, with more ways to compress.

use super::{About, Case, Column, Experiment, Options, Quoted, Trial, acm_xml, programs};
use crate::report::plot::Plot;

pub(crate) struct AcmTable3;

const PEERS: [&str; 15] = [
    "tcp-cubic",
    "over TCP plain",
    "over TCP zlib:1",
    "over TCP zlib:3",
    "over TCP xz:1",
    "over TCP xz:3",
    "over TCP zstd:3",
    "over TCP zstd:3 dictionary",
    "whimbrel plain",
    "whimbrel zlib:1",
    "whimbrel zlib:3",
    "whimbrel xz:1",
    "whimbrel xz:3",
    "whimbrel zstd:3",
    "whimbrel zstd:3 dictionary",
];
/// The paper's columns and figures.
const NAMES: [&str; 9] = [
    "the paper's TCP (2012)",
    "its NetProxy (TCP) plain",
    "its NetProxy (TCP) zlib:1",
    "its NetProxy (TCP) lzma:1",
    "its NetProxy (Mockets) plain",
    "its NetProxy (Mockets) zlib:1",
    "its NetProxy (Mockets) zlib:3",
    "its NetProxy (Mockets) lzma:1",
    "its NetProxy (Mockets) lzma:3",
];
const PAPER: [[f64; 9]; 9] = [
    [1.22, 1.64, 2.12, 1.71, 37.08, 43.99, 29.38, 21.44, 13.76],
    [1.98, 4.83, 4.64, 3.56, 49.22, 66.22, 51.48, 32.66, 26.44],
    [3.08, 5.71, 7.33, 3.67, 52.14, 85.27, 46.91, 44.18, 30.74],
    [3.44, 6.58, 5.18, 5.14, 51.75, 79.21, 44.35, 44.66, 35.58],
    [5.47, 15.16, 14.08, 9.02, 47.09, 78.05, 48.46, 70.31, 49.20],
    [7.33, 13.35, 23.20, 12.28, 41.08, 127.28, 85.01, 86.90, 78.91],
    [5.75, 16.19, 25.18, 12.64, 46.66, 126.55, 93.17, 107.27, 81.59],
    [18.57, 24.79, 173.40, 145.42, 60.34, 171.21, 178.29, 245.93, 265.96],
    [25.05, 24.18, 75.66, 103.19, 74.72, 113.27, 135.61, 168.64, 159.96],
];

impl Experiment for AcmTable3 {
    fn name(&self) -> &'static str {
        "acm-table3"
    }

    fn about(&self) -> About {
        About {
            title: "ACM NetProxy, Table III: compressed XML over a tactical network, with today's methods too",
            source: "ACM NetProxy (2012), section VI.B, Table III (Windows); the proxy's own issue adds zstd and dictionaries",
            measured: acm_xml::MEASURED,
            why: "A document that is compressed to a tenth needs a tenth of the packets. So the largest gain four to five times; small ones are a \
                  round trip, whatever their size. Over TCP, a lost packet of the session holds back all flows, and CUBIC takes it for congestion.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        acm_xml::cases(options, &PEERS)
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(acm_xml::trial(case, options, seed))
    }

    fn columns(&self) -> Vec<Column> {
        acm_xml::columns()
    }

    fn limit(&self, _: &str, _: &str) -> Option<f64> {
        None
    }

    fn untimed(&self) -> Option<&'static str> {
        Some("each document is asked for a number of times")
    }

    fn quoted(&self) -> Vec<Quoted> {
        acm_xml::quoted(NAMES, PAPER)
    }

    fn plots(&self) -> Vec<Plot> {
        let bars = |title, metric| Plot::bars(title, metric, vec![acm_xml::LINK.to_owned()]).axes("", "KB/s");
        vec![bars("A document of 1,133 bytes", "kbs_1133"), bars("One of 116,520 bytes", "kbs_116520")]
    }

    fn seconds(&self, case: &Case, options: &Options) -> f64 {
        acm_xml::seconds(case, options)
    }

    fn prepare(&self) -> anyhow::Result<()> {
        programs::check("curl")
    }
}
