//! ACM NetProxy's Table II: datagrams beside images and videos over HTTP, under loss.

use super::{About, Case, Column, Experiment, Options, Quoted, Trial, acm, programs};
use crate::report::plot::Plot;

pub(crate) struct AcmTable2;

/// The paper's figures: condition, then rate of the video, and rate and share of CoT, without its proxy and with it.
const PAPER: [(&str, [f64; 3], [f64; 3]); 3] = [
    ("tactical-5", [30.4, 4.06, 58.03], [30.61, 4.08, 58.33]),
    ("tactical-10", [27.84, 3.7, 52.8], [28.36, 3.71, 52.99]),
    ("tactical-15", [28.81, 3.73, 53.35], [25.88, 3.24, 46.31]),
];
const METRICS: [&str; 3] = ["udp_kbs", "cot_kbs", "cot_share"];

impl Experiment for AcmTable2 {
    fn name(&self) -> &'static str {
        "acm-table2"
    }

    fn about(&self) -> About {
        About {
            title: "ACM NetProxy, Table II: unmodified programs on a tactical network, UDP",
            source: "ACM NetProxy (2012), section VI.A, Table II; the goals of the proxy's own issue",
            measured: acm::MEASURED,
            why: "Nobody here repeats datagrams or puts them in order, so what arrives is what the loss and the queue leave. A message of 4 KB needs three \
                  packets, each of which may be lost. The ages differ. CUBIC leaves the link idle, so datagrams find no queue, and the videos beside \
                  them are the slowest. BBR fills the queue up to its limit of 100 ms and loses some datagrams there. Our proxy's transport keeps \
                  the queue short, and shares its turns between the flows.",
        }
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        acm::cases(options)
    }

    fn trial<'a>(&'a self, case: &'a Case, options: &'a Options, seed: u64) -> Trial<'a> {
        Box::pin(acm::trial(case, options, seed))
    }

    fn columns(&self) -> Vec<Column> {
        vec![
            Column::higher("udp_share", "UDP video, arrived, %", 2),
            Column::neutral("udp_kbs", "UDP video, KB/s", 2),
            Column::lower("udp_p95_ms", "UDP video, age p95, ms", 0),
            Column::higher("cot_share", "CoT, arrived, %", 2),
            Column::neutral("cot_kbs", "CoT, KB/s", 2),
            Column::lower("cot_p95_ms", "CoT, age p95, ms", 0),
            Column::neutral("video_kbs", "3 MB videos beside, KB/s", 1),
            Column::lower("twice", "arrived twice", 0),
        ]
    }

    fn limit(&self, condition: &str, metric: &str) -> Option<f64> {
        acm::limit(condition, metric)
    }

    fn links(&self) -> Vec<(String, String)> {
        acm::links()
    }

    fn quoted(&self) -> Vec<Quoted> {
        let mut quoted = Vec::new();
        for (condition, legacy, proxy) in PAPER {
            for (peer, values) in [("the paper's UDP (2012)", legacy), ("the paper's NetProxy (2012)", proxy)]
            {
                let found = |(metric, value)| Quoted { condition, peer, metric, value };
                quoted.extend(METRICS.into_iter().zip(values).map(found));
            }
        }
        quoted
    }

    fn plots(&self) -> Vec<Plot> {
        vec![
            Plot::bars("UDP video that arrived", "udp_share", acm::conditions()).axes("", "%"),
            Plot::bars("Age of the UDP video", "udp_p95_ms", acm::conditions()).axes("", "p95, ms"),
        ]
    }

    fn seconds(&self, _: &Case, options: &Options) -> f64 {
        acm::seconds(options)
    }

    fn prepare(&self) -> anyhow::Result<()> {
        programs::check("curl")
    }
}
