//! The examples run and exit successfully.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Examples that run alone, with a part of their output.
const ALONE: [(&str, &str); 14] = [
    ("send", "ReliableSequenced"),
    ("receive", "more; then: "),
    ("track", "Delivered"),
    ("replace", "the newest among them"),
    ("lifetime", " delivered, "),
    ("priority", "urgent: "),
    ("stream_copy", "bytes"),
    ("events", "closed"),
    ("stats", "round trip "),
    ("allow", "kept out: "),
    ("streams", "older ones made room"),
    ("quality", " Rtt"),
    ("multihome", "127.0.0."),
    ("handover", "the new network works"),
];
/// Examples that need each other.
const TOGETHER: [&str; 4] = ["listen", "connect", "suspend", "resume"];

/// Returns the command for an example, which cargo puts beside the folder of this test.
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

/// Kills the process when the test ends.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // The process may have ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn examples_that_need_nobody_run() {
    for (name, said) in ALONE {
        let output = run(name, &[]);
        assert!(output.contains(said), "{name} says nothing of {said:?}: {output}");
    }
}

/// Starts the `listen` example. Returns it, its output (which must be held, since it goes on printing), and its URL.
fn listening() -> (Guard, BufReader<ChildStdout>, String) {
    let mut listening = Guard(example("listen").stdout(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    let mut output = BufReader::new(listening.0.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    let url = first.trim().strip_prefix("listening ").unwrap().to_owned();
    (listening, output, url)
}

#[test]
fn connect_talks_to_listen() {
    let (_guard, _output, url) = listening();
    assert_eq!(run("connect", &[&url]).trim(), "hello");
}

#[test]
fn resume_goes_on_where_suspend_left_off() {
    let (_guard, _output, url) = listening();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("session-{}", std::process::id()));
    let name = file.to_string_lossy();
    assert!(run("suspend", &[&url, &name]).starts_with("suspended"));
    assert_eq!(run("resume", &[&name]).trim(), "sent by one process");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn every_example_is_run() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut found: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    let mut known = [&ALONE.map(|(name, _)| name)[..], &TOGETHER[..]].concat();
    known.sort_unstable();
    assert_eq!(found, known);
}
