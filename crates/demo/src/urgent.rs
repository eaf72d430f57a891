//! Urgent messages overtake bulk, while the same messages without priority wait in line.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, interval};
use whimbrel::{Mocket, Sender};

use crate::bad_link::BadLink;
use crate::cargo::{kind, stamped};
use crate::findings::{Findings, Row, quantile, size, time};
use crate::report::Report;
use crate::screen::Unit;
use crate::stage::Stage;

/// The link has a round trip of 40 ms.
const LINK: &str = "rate=10mbit, delay=20ms, queue=100ms, loss=1%";
const LANE: &str = "urgent";
const URGENT: u8 = 220;
const ORDINARY: u8 = 100;
const BULK_MESSAGE: usize = 30_000;
const SMALL_MESSAGE: usize = 100;
const EVERY: Duration = Duration::from_millis(100);

/// Runs this part of the demo.
pub(crate) async fn play(stage: &Stage) -> anyhow::Result<Findings> {
    stage.screen.say("Urgent messages beside bulk over 10 Mbit/s, 40 ms, 1 % loss");
    let bulk = (stage.scale.bulk / BULK_MESSAGE) as u64;
    stage.screen.begin(LANE, "bulk with urgent messages", bulk * BULK_MESSAGE as u64, Unit::Bytes);
    let lane = BadLink::open(&stage.far, LINK, stage.seed).await?.connect(LANE).await?;
    // All bulk is queued at once, so that later messages find it waiting.
    let sender = sender(&lane.mocket, kind::BULK, ORDINARY);
    for number in 0..bulk {
        sender.send(stamped(number, BULK_MESSAGE)).await?;
    }
    let small = send_small(&lane.mocket, stage.scale.urgent).await?;
    let report = lane.finish(&stage.far).await?;
    let findings = judge(&report, bulk, small);
    stage.screen.end(LANE, &format!("urgent ones {}", findings.rows[0].1));
    Ok(findings)
}

/// Senders that differ only in their priority.
fn sender(mocket: &Mocket, kind: u32, priority: u8) -> Sender {
    mocket.sender().unsequenced().ppid(kind).priority(priority).build()
}

/// Sends one message of each kind at a time. Returns how many times.
async fn send_small(mocket: &Mocket, lasting: Duration) -> anyhow::Result<u64> {
    let urgent = sender(mocket, kind::URGENT, URGENT);
    let ordinary = sender(mocket, kind::ORDINARY, ORDINARY);
    let (start, mut ticks, mut sent) = (Instant::now(), interval(EVERY), 0);
    while start.elapsed() < lasting {
        ticks.tick().await;
        urgent.send(stamped(sent, SMALL_MESSAGE)).await?;
        ordinary.send(stamped(sent, SMALL_MESSAGE)).await?;
        sent += 1;
    }
    Ok(sent)
}

/// The messages of one kind, and their ages.
struct Ages {
    sent: u64,
    ages: Vec<f64>,
}

impl Ages {
    fn of(report: &Report, kind: u32, sent: u64) -> Self {
        let arrivals = report.arrivals.iter().filter(|arrival| arrival.kind == kind);
        Self { sent, ages: arrivals.map(crate::report::Arrival::age_s).collect() }
    }

    fn figures(&self) -> Value {
        json!({
            "sent": self.sent,
            "arrived": self.ages.len(),
            "latency_ms": {
                "p50": quantile(&self.ages, 0.5) * 1e3,
                "max": quantile(&self.ages, 1.0) * 1e3,
            },
        })
    }

    fn describe(&self) -> String {
        let (median, worst) = (quantile(&self.ages, 0.5), quantile(&self.ages, 1.0));
        format!("{} of {}: median after {}, worst {}", self.ages.len(), self.sent, time(median), time(worst))
    }

    fn missing(&self, name: &str) -> Option<String> {
        let arrived = self.ages.len() as u64;
        (arrived != self.sent).then(|| format!("{name}: {arrived} of {} arrived", self.sent))
    }
}

fn judge(report: &Report, bulk: u64, small: u64) -> Findings {
    let urgent = Ages::of(report, kind::URGENT, small);
    let ordinary = Ages::of(report, kind::ORDINARY, small);
    let mut missing: Vec<String> =
        urgent.missing("urgent messages").into_iter().chain(ordinary.missing("ordinary messages")).collect();
    if report.bulk_messages != bulk {
        missing.push(format!("bulk: {} of {bulk} messages arrived", report.bulk_messages));
    }
    if report.duplicated > 0 {
        missing.push(format!("beside bulk: {} messages arrived twice", report.duplicated));
    }
    Findings {
        name: "urgent",
        figures: json!({
            "bulk_bytes": report.bytes,
            "bulk_messages": report.bulk_messages,
            "urgent": urgent.figures(),
            "same_priority": ordinary.figures(),
        }),
        rows: vec![
            Row::new(
                format!("urgent, beside {} of bulk", size(report.bytes as f64)),
                urgent.describe(),
                "20 ms one way",
            ),
            Row::new("  at the bulk's priority", ordinary.describe(), "waited behind the bulk"),
        ],
        missing,
    }
}
