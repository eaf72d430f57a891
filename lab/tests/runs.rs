//! Tests of `lab run` as a person starts it: its messages, and that nothing outlives it.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A run that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Variable in the environment of every process of a run.
const MARK: &str = "WHIMBREL_LAB_RUN";
const NOBODY: u32 = 65534;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("whimbrel-lab-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn lab(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
        command.args(arguments.split(' ')).env("LAB_RESULTS", &self.0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn output(&self, arguments: &str) -> Output {
        self.lab(arguments).output().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn is_root() -> bool {
    // The effective user of a process owns its entry in /proc.
    std::os::unix::fs::MetadataExt::uid(&fs::metadata("/proc/self").unwrap()) == 0
}

/// Returns the processes that have this mark in their environment.
fn bearing(mark: &str) -> Vec<u32> {
    let bears = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|pair| pair.starts_with(mark.as_bytes()))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(bears).collect()
}

fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_interrupted_run_says_so_and_leaves_its_samples_alone() {
    let folder = Folder::new("interrupted");
    let run = folder.lab("run suspend --trials 1").spawn().unwrap();
    let (mark, part) = (format!("{MARK}={}:", run.id()), folder.0.join("part/suspend.jsonl.part"));
    until("no trial has begun", || bearing(&mark).into_iter().any(is_server) || run_is_over(run.id()));
    if run_is_over(run.id()) {
        let output = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("no links can be made here"), "{said}");
        whimbrel_testing::skipped(said.trim());
        return;
    }
    Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    let output = run.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("interrupted"), "{said}");
    assert!(said.contains("suspend.jsonl.part"), "where its samples are: {said}");
    until("processes outlive the run", || bearing(&mark).is_empty());
    assert!(part.exists());
    let clean = folder.output("clean");
    assert!(String::from_utf8_lossy(&clean.stdout).contains("suspend.jsonl.part is gone"));
    assert!(!part.exists());
}

/// Returns whether the process is a server of a trial.
fn is_server(process: u32) -> bool {
    let arguments = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).any(|argument| argument == b"serve")
}

/// Returns whether the process has ended, even if nothing has waited for it yet.
fn run_is_over(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with('Z'))
}

#[test]
fn what_a_killed_run_has_left_is_ended_and_what_a_live_one_has_is_not() {
    let folder = Folder::new("leftover");
    let sleep = |mark: &str| Command::new("sleep").arg("60").env(MARK, mark).spawn().unwrap();
    // No process has this number, since it is beyond Linux's limit.
    let mut orphan = sleep("4194305:1");
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let started = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap();
    let mut live = sleep(&format!("{}:{started}", std::process::id()));
    let cleaned = folder.output("clean");
    assert!(cleaned.status.success(), "{}", String::from_utf8_lossy(&cleaned.stderr));
    let killed = orphan.wait().unwrap().signal();
    let lives = live.try_wait().unwrap().is_none();
    live.kill().unwrap();
    live.wait().unwrap();
    assert_eq!((killed, lives), (Some(9), true));
}

#[test]
fn without_root_it_says_what_is_left_out_and_why() {
    let folder = Folder::new("rootless");
    // The other user may not be able to reach the folder that this program is in.
    let program = folder.0.join("lab");
    fs::copy(env!("CARGO_BIN_EXE_lab"), &program).unwrap();
    let mut run = Command::new(&program);
    run.args(["run", "mockets-table1", "suspend"]).env("LAB_RESULTS", &folder.0).stdin(Stdio::null());
    if is_root() {
        run.uid(NOBODY).gid(NOBODY);
    }
    let output = run.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    let words =
        ["hosts and links take root", "left out: mockets-table1, suspend", "nothing of this can be run here"];
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_report_of_nothing_says_what_to_do() {
    let folder = Folder::new("nothing");
    let output = folder.output("report --quick");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("`lab run` makes some"), "{said}");
}
