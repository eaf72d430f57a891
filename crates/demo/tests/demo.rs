//! Tests the demo at a small scale, as people and programs run it. The assertions hold on a machine of any speed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn demo() -> Command {
    Command::new(env!("CARGO_BIN_EXE_whimbrel-demo"))
}

#[test]
fn everything_arrives_that_should() {
    let output = demo().args(["--quick", "--json"]).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{complaints}{document:#}");
    assert_eq!(complaints, "");
    assert_eq!((&document["passed"], &document["missing"]), (&true.into(), &serde_json::json!([])));
    assert_eq!(document["file"]["bytes"], 1_000_000);
    assert_eq!((&document["file"]["intact"], &document["rebinding"]["intact"]), (&true.into(), &true.into()));
    let positions = &document["positions"];
    assert_eq!(positions["queue"]["arrived"], positions["queue"]["sent"]);
    // The link is down for a second: messages queued then arrive that late, and replaced ones do not arrive at all.
    assert!(positions["queue"]["oldest_ms"].as_f64().unwrap() > 1000.0, "{positions:#}");
    assert!(positions["replace"]["arrived"].as_u64() < positions["replace"]["sent"].as_u64());
    let urgent = &document["urgent"];
    let median = |kind: &str| urgent[kind]["latency_ms"]["p50"].as_f64().unwrap();
    assert!(median("urgent") < median("same_priority"), "{urgent:#}");
}

#[test]
fn interrupted_it_ends_both_processes() {
    let mut child = demo().arg("--quick").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    // The first heading appears once both processes run.
    let mut heading = String::new();
    assert!(told.read_line(&mut heading).unwrap() > 0, "it ended by itself");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let start = Instant::now();
    // Its output ends only when the far end, which inherits standard error, has ended too.
    told.read_to_string(&mut heading).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
