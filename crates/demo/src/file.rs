//! A file crosses a lossy link; its rate is compared with what the link can carry.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use whimbrel::Mocket;

use crate::bad_link::{BadLink, limit_bps};
use crate::cargo;
use crate::findings::{Findings, Row, rate, size, time};
use crate::report::Report;
use crate::screen::Unit;
use crate::stage::Stage;

/// The link has a round trip of 40 ms.
const LINK: &str = "rate=10mbit, delay=20ms, queue=100ms, loss=5%";
const LANE: &str = "file";

/// Runs this part of the demo.
pub(crate) async fn play(stage: &Stage) -> anyhow::Result<Findings> {
    stage.screen.say("A file crosses 10 Mbit/s, 40 ms, 5 % loss each way");
    let file = cargo::file(stage.scale.file, stage.seed);
    stage.screen.begin(LANE, "file", file.len() as u64, Unit::Bytes);
    let lane = BadLink::open(&stage.far, LINK, stage.seed).await?.connect(LANE).await?;
    let start_ns = lane.start_ns;
    write(&lane.mocket, &file).await?;
    let report = lane.finish(&stage.far).await?;
    let findings = judge(&file, &report, start_ns);
    stage.screen.end(LANE, &findings.rows[0].1);
    Ok(findings)
}

/// Sends a file through a byte stream of its own.
pub(crate) async fn write(mocket: &Mocket, file: &[u8]) -> anyhow::Result<()> {
    let mut stream = mocket.open_stream().await?;
    stream.write_all(file).await?;
    stream.shutdown().await?;
    Ok(())
}

/// Compares the file that arrived with the one sent. Returns a sentence if something is missing or wrong.
pub(crate) fn missing(name: &str, file: &[u8], report: &Report) -> Vec<String> {
    let arrived = report.bytes;
    match (arrived == file.len() as u64, report.sha256 == cargo::sha256(file)) {
        (true, true) => Vec::new(),
        (true, false) => vec![format!("{name}: all bytes arrived, but not the ones sent")],
        (false, _) => vec![format!("{name}: {arrived} of {} bytes arrived", file.len())],
    }
}

fn judge(file: &[u8], report: &Report, start_ns: u64) -> Findings {
    let missing = missing("the file", file, report);
    let seconds = report.last_ns.saturating_sub(start_ns) as f64 / 1e9;
    let goodput_bps = report.bytes as f64 * 8.0 / seconds.max(1e-9);
    let limit_bps = limit_bps(10e6, 0.05);
    let share = goodput_bps / limit_bps * 100.0;
    let intact = if missing.is_empty() { "intact" } else { "BROKEN" };
    let became = format!("{intact} in {}: {}, {share:.0} % of the limit", time(seconds), rate(goodput_bps));
    Findings {
        name: "file",
        figures: json!({
            "bytes": report.bytes,
            "seconds": seconds,
            "goodput_bps": goodput_bps,
            "limit_bps": limit_bps,
            "limit_percent": share,
            "intact": missing.is_empty(),
        }),
        rows: vec![Row::new(
            format!("file of {} at 5 % loss", size(file.len() as f64)),
            became,
            format!("limit {}", rate(limit_bps)),
        )],
        missing,
    }
}
