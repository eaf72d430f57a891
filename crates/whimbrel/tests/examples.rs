//! The examples run, and end well.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Those that need nobody else.
const ALONE: [&str; 14] = [
    "send",
    "receive",
    "track",
    "replace",
    "lifetime",
    "priority",
    "stream_copy",
    "events",
    "stats",
    "allow",
    "streams",
    "quality",
    "multihome",
    "handover",
];
/// Those that need each other.
const TOGETHER: [&str; 2] = ["listen", "connect"];

/// Where cargo puts an example: beside the folder of this test.
fn example(name: &str) -> Command {
    let mut path: PathBuf = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    path.push("examples");
    path.push(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not built: cargo build --examples -p whimbrel", path.display());
    Command::new(path)
}

fn run(name: &str, arguments: &[&str]) -> String {
    let output = example(name).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} failed: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Ends the process with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn examples_that_need_nobody_run() {
    for name in ALONE {
        assert!(!run(name, &[]).is_empty(), "{name} says nothing");
    }
}

#[test]
fn connect_talks_to_listen() {
    let mut listening = Guard(example("listen").stdout(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    // Held until the end: the example goes on printing.
    let mut output = BufReader::new(listening.0.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    let url = first.trim().strip_prefix("listening ").unwrap();
    assert_eq!(run("connect", &[url]).trim(), "hello");
}

#[test]
fn every_example_is_run() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut known = [&ALONE[..], &TOGETHER[..]].concat();
    known.sort_unstable();
    assert_eq!(found, known);
}
