//! Tests the demo at a small scale, as people and programs run it. The assertions hold on a machine of any speed.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
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

/// Without a path there is no curl either, and a client of the demo takes its place.
#[test]
fn programs_go_through_the_proxies_and_an_outage() {
    for (path, client) in [(std::env::var("PATH").ok(), "curl"), (None, "our own client")] {
        let output = demo()
            .args(["proxy", "--quick", "--json"])
            .env("PATH", path.as_deref().unwrap_or_default())
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&output.stderr);
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success(), "{complaints}{document:#}");
        assert_eq!((complaints.as_ref(), &document["passed"]), ("", &true.into()));
        let found = &document["proxy"];
        let shown = found["client"].as_str().unwrap();
        let curl_is_here = Command::new("curl").arg("--version").output().is_ok();
        assert!(shown.starts_with(client) || !curl_is_here, "{shown}");
        assert_eq!((&found["file"]["bytes"], &found["file"]["intact"]), (&1_000_000.into(), &true.into()));
        // The link is down for a second in the middle of the file, whose first byte came before that.
        assert!(found["file"]["longest_gap_ms"].as_f64().unwrap() > 1000.0, "{found:#}");
        let video = &found["video"]["through_proxies"];
        assert!(video["share"].as_f64() >= found["video"]["least_share"].as_f64(), "{found:#}");
        assert!(video["of"].as_u64() > Some(100) && video["twice"] == 0, "{found:#}");
    }
}

#[test]
fn interrupted_it_ends_both_processes() {
    let mut child = demo().arg("--quick").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    // The first heading appears once both processes run.
    let mut heading = String::new();
    assert!(told.read_line(&mut heading).unwrap() > 0, "it ended by itself");
    interrupt(&mut child, &mut told);
}

/// Sends Ctrl-C, and waits until its output ends: only when the far end, which inherits standard error, has ended too.
fn interrupt(child: &mut Child, told: &mut impl Read) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let start = Instant::now();
    told.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[cfg(target_os = "linux")]
#[test]
fn interrupted_the_proxies_end_too() {
    let mut child =
        demo().args(["proxy", "--quick"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    // The second line appears once something has arrived through both proxies.
    for _ in 0..2 {
        assert!(told.read_line(&mut String::new()).unwrap() > 0, "it ended by itself");
    }
    let folder = format!("whimbrel-demo-{}", child.id());
    assert_eq!(proxies_in(&folder), 2);
    interrupt(&mut child, &mut told);
    let start = Instant::now();
    while proxies_in(&folder) > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "a proxy outlives the demo");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!std::env::temp_dir().join(&folder).exists());
}

/// Counts the processes whose arguments name this folder, which holds the proxies' keys.
#[cfg(target_os = "linux")]
fn proxies_in(folder: &str) -> usize {
    let named = |entry: std::fs::DirEntry| {
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(folder)
    };
    std::fs::read_dir("/proc").unwrap().flatten().map(named).filter(|named| *named).count()
}

#[test]
fn subscribers_roam_and_miss_nothing() {
    let output = demo().args(["broker", "--quick", "--json"]).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{complaints}{document:#}");
    assert_eq!((complaints.as_ref(), &document["passed"]), ("", &true.into()));
    let found = &document["broker"];
    let subscribers = found["subscribers"].as_array().unwrap();
    assert_eq!((found["messages"].as_u64(), subscribers.len()), (Some(800), 5));
    for subscriber in &subscribers[..4] {
        assert_eq!((&subscriber["lost"], &subscriber["twice"]), (&0.into(), &0.into()), "{found:#}");
        assert!(
            subscriber["recovered"].as_u64() > Some(0) && subscriber["moves"].as_u64() > Some(0),
            "{found:#}"
        );
    }
    // One that keeps nothing misses what was published while it was away.
    assert_eq!(subscribers[4]["kind"], "nondurable");
    assert!(subscribers[4]["lost"].as_u64() > Some(0), "{found:#}");
}
