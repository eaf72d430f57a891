//! Tests of both sides of every peer on loopback: what they print, and that they end when told to.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const PEERS: &[&str] = &[
    "whimbrel",
    "whimbrel-cubic",
    "tcp-cubic",
    "tcp-bbr",
    "tls-cubic",
    "tls-bbr",
    "quinn-cubic",
    "quinn-bbr",
    "noq",
    "noq-bbr",
    "mptcp-cubic",
    "mptcp-bbr",
    "sctp",
];
/// A side that takes longer than this to end hangs.
const PATIENCE: Duration = Duration::from_secs(20);

struct Side {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Side {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
        let command = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads the next line, which must begin with `word`, and returns the rest of it.
    fn says(&mut self, word: &str) -> String {
        let line = self.lines.next().unwrap().unwrap();
        line.strip_prefix(word).unwrap_or_else(|| panic!("{line} instead of {word}")).trim().to_owned()
    }

    fn end(&mut self) {
        drop(self.child.stdin.take());
    }

    fn has_ended(mut self) {
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the side hangs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns whether a side said that its peer is missing here.
fn is_missing(said: &str) -> bool {
    ["install", "kernel has no", "only root may"].iter().any(|word| said.contains(word))
}

/// Runs a job and returns the figures, or `None` if the peer is missing here. Bulk data is ended at once.
fn run(peer: &str, job: &str) -> Option<serde_json::Value> {
    run_for(peer, job, Duration::ZERO)
}

/// Like [`run`], but bulk data is ended after `time`.
fn run_for(peer: &str, job: &str, time: Duration) -> Option<serde_json::Value> {
    let serve = ["serve", "--peer", peer, "--job", job, "--at", "127.0.0.1"];
    let mut server = Side::start(&serve);
    let first = server.lines.next().unwrap().unwrap();
    let Some(word) = first.strip_prefix("ready ") else {
        assert!(is_missing(&first), "{peer}: {first}");
        whimbrel_testing::skipped(&format!("{peer}: {first}"));
        return None;
    };
    let mut caller = Side::start(&["call", "--peer", peer, "--job", job, "--from", "127.0.0.1", word]);
    caller.says("started").parse::<u64>().unwrap();
    if job.contains("bulk") {
        std::thread::sleep(time);
        server.end();
    }
    let figures = serde_json::from_str(&server.says("figures")).unwrap();
    caller.end();
    serde_json::from_str::<serde_json::Value>(&caller.says("sent")).unwrap();
    server.has_ended();
    caller.has_ended();
    Some(figures)
}

fn everyone(jobs: &[&str], check: impl Fn(&str, &str, &serde_json::Value)) {
    for peer in PEERS {
        for job in jobs {
            if let Some(figures) = run(peer, job) {
                check(peer, job, &figures);
            }
        }
    }
}

fn numbers(figures: &serde_json::Value) -> Vec<u64> {
    figures["messages"].as_array().unwrap().iter().map(|message| message[0].as_u64().unwrap()).collect()
}

#[test]
fn transfers_arrive_whole() {
    let jobs = [r#"{"load":"transfer","bytes":1}"#, r#"{"load":"transfer","bytes":300000}"#];
    everyone(&jobs, |peer, job, figures| {
        let bytes = figures["bytes"].to_string();
        assert!(job.contains(&format!(":{bytes}}}")), "{peer} {job}: {bytes}");
    });
}

#[test]
fn messages_arrive_as_they_are_wanted() {
    let wants = [r#""ordered""#, r#""each""#, r#""newest""#];
    let jobs =
        wants.map(|want| format!(r#"{{"load":"messages","size":100,"rate":500,"count":50,"want":{want}}}"#));
    everyone(&jobs.each_ref().map(String::as_str), |peer, job, figures| {
        let mut numbers = numbers(figures);
        if job.contains("newest") {
            assert!(numbers.contains(&49), "{peer}: the last is missing");
            return;
        }
        if job.contains("each") {
            numbers.sort_unstable();
        }
        assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "{peer} {job}");
        for message in figures["messages"].as_array().unwrap() {
            assert!(message[1].as_u64() <= message[2].as_u64(), "{peer}: arrived before it was sent");
        }
    });
}

#[test]
fn ours_with_another_setting_carry_messages() {
    let job = r#"{"load":"messages","size":100,"rate":500,"count":50,"want":"each"}"#;
    for copies in ["once", "deadline", "urgent", "redundant"] {
        let peer = format!("whimbrel-{copies}");
        let mut numbers = numbers(&run(&peer, job).unwrap());
        numbers.sort_unstable();
        assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "{peer}");
    }
}

#[test]
fn what_has_a_lifetime_ends_although_some_may_be_lost() {
    let job = r#"{"load":"messages","size":100,"rate":500,"count":50,"want":{"within":500}}"#;
    everyone(&[job], |peer, _, figures| assert!(!numbers(figures).is_empty(), "{peer}"));
    assert!(!numbers(&run("udp", job).unwrap()).is_empty());
}

#[test]
fn a_session_goes_on_in_another_process() {
    let job = r#"{"load":"messages","size":100,"rate":500,"count":100,"want":"ordered"}"#;
    let mut server = Side::start(&["serve", "--peer", "whimbrel", "--job", job, "--at", "127.0.0.1"]);
    let word = server.says("ready");
    let mut first = Side::start(&["leave", "--job", job, "--from", "127.0.0.1", "--messages", "40", &word]);
    first.says("started");
    let left: serde_json::Value = serde_json::from_str(&first.says("left")).unwrap();
    first.has_ended();
    let mut second = Side::start(&["arrive", "--job", job, "--from", "127.0.0.2", "--messages", "40"]);
    writeln!(second.child.stdin.as_mut().unwrap(), "{}", left["state"].as_str().unwrap()).unwrap();
    second.says("started");
    let figures = serde_json::from_str(&server.says("figures")).unwrap();
    assert_eq!(numbers(&figures), (0..100).collect::<Vec<_>>());
    second.end();
    second.says("sent");
    second.has_ended();
    server.has_ended();
}

#[test]
fn a_list_that_nobody_reads_to_its_end_is_no_failure() {
    let mut list =
        Command::new(env!("CARGO_BIN_EXE_lab")).arg("list").stdout(Stdio::piped()).spawn().unwrap();
    drop(list.stdout.take());
    assert!(list.wait().unwrap().success());
}

#[test]
fn bulk_goes_on_until_it_is_ended() {
    for peer in PEERS {
        // A busy machine may take long to read the first byte.
        let times = [250, 1000, 4000, 16_000].map(Duration::from_millis);
        let mut runs =
            times.into_iter().map_while(|time| run_for(peer, r#"{"load":"bulk"}"#, time)).peekable();
        if runs.peek().is_some() {
            assert!(runs.any(|figures| figures["bytes"].as_u64() > Some(0)), "{peer}");
        }
    }
}

#[test]
fn a_side_that_nobody_talks_to_ends_when_it_is_told_to() {
    for peer in PEERS.iter().chain(&["udp"]) {
        let job = r#"{"load":"messages","size":100,"rate":500,"count":50,"want":"each"}"#;
        let mut server = Side::start(&["serve", "--peer", peer, "--job", job, "--at", "127.0.0.1"]);
        let first = server.lines.next().unwrap().unwrap();
        if is_missing(&first) {
            continue;
        }
        server.end();
        assert!(server.says("figures").contains(r#""bytes":0"#), "{peer}");
        server.has_ended();
    }
}
