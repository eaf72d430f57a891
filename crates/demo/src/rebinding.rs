//! The client's address changes during a file transfer, as when a NAT forgets it or it moves to another network.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::bad_link::BadLink;
use crate::cargo;
use crate::file::{missing, write};
use crate::findings::{Findings, Row, time};
use crate::report::Report;
use crate::screen::Unit;
use crate::stage::Stage;

/// The link has a round trip of 40 ms.
const LINK: &str = "rate=10mbit, delay=20ms, queue=100ms, loss=1%";
const LANE: &str = "rebinding";
/// The approximate rate of the link in bits per second, used to time the changes.
const RATE: f64 = 9e6;

/// Runs this part of the demo.
pub(crate) async fn play(stage: &Stage) -> anyhow::Result<Findings> {
    stage.screen.say("The client's address changes twice while a file is under way");
    let file = cargo::file(stage.scale.moving, stage.seed + 1);
    stage.screen.begin(LANE, "file, address changes", file.len() as u64, Unit::Bytes);
    let lane = BadLink::open(&stage.far, LINK, stage.seed).await?.connect(LANE).await?;
    let third = Duration::from_secs_f64(file.len() as f64 * 8.0 / RATE / 3.0);
    let moving = async {
        for _ in 0..2 {
            sleep(third).await;
            lane.link.rebind();
        }
        anyhow::Ok(())
    };
    tokio::try_join!(write(&lane.mocket, &file), moving)?;
    let report = lane.finish(&stage.far).await?;
    let findings = judge(&file, &report);
    stage.screen.end(LANE, &findings.rows[0].1);
    Ok(findings)
}

fn judge(file: &[u8], report: &Report) -> Findings {
    let missing = missing("the file under way while the address changed", file, report);
    let gap_s = report.longest_gap_ns as f64 / 1e9;
    let intact = if missing.is_empty() { "intact" } else { "BROKEN" };
    Findings {
        name: "rebinding",
        figures: json!({
            "bytes": report.bytes,
            "intact": missing.is_empty(),
            "rebinds": 2,
            "longest_gap_ms": gap_s * 1e3,
        }),
        rows: vec![Row::new(
            "file, address changes twice",
            format!("{intact}, longest gap {}", time(gap_s)),
            "40 ms there and back",
        )],
        missing,
    }
}
