//! ACM NetProxy's Table IV: XML documents over HTTP, as the paper has it.

use super::{About, Case, Column, Experiment, Options, Quoted, Trial, acm_xml, programs};
use crate::report::plot::Plot;

pub(crate) struct AcmTable4;

/// The paper's columns, with xz for its LZMA.
const PEERS: [&str; 9] = [
    "tcp-cubic",
    "over TCP plain",
    "over TCP zlib:1",
    "over TCP xz:1",
    "whimbrel plain",
    "whimbrel zlib:1",
    "whimbrel zlib:3",
    "whimbrel xz:1",
    "whimbrel xz:3",
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
    [2.06, 7.13, 6.80, 7.05, 34.33, 42.12, 40.94, 17.91, 7.51],
    [5.77, 17.89, 12.92, 14.15, 35.18, 42.96, 46.07, 32.81, 19.36],
    [4.14, 15.74, 15.20, 15.04, 48.23, 69.35, 73.54, 34.49, 14.34],
    [7.01, 18.47, 17.46, 14.78, 54.64, 71.03, 67.66, 39.27, 23.60],
    [9.43, 36.95, 31.82, 23.53, 58.98, 137.19, 167.63, 61.33, 26.47],
    [19.48, 47.80, 51.06, 56.17, 55.47, 208.39, 148.73, 99.41, 68.55],
    [16.88, 47.76, 90.09, 46.59, 49.85, 161.29, 130.47, 110.06, 75.98],
    [118.19, 90.98, 408.14, 314.86, 65.52, 466.92, 730.82, 549.44, 410.64],
    [94.03, 94.15, 212.27, 268.50, 79.61, 199.50, 222.03, 235.30, 174.02],
];

impl Experiment for AcmTable4 {
    fn name(&self) -> &'static str {
        "acm-table4"
    }

    fn about(&self) -> About {
        About {
            title: "ACM NetProxy, Table IV: compressed XML over a tactical network, as the paper has it",
            source: "ACM NetProxy (2012), section VI.B, Table IV (Linux)",
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
