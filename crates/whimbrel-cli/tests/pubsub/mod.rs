//! Subscribers as processes.

pub(crate) mod disk;

use std::process::Command;

use crate::common::{Home, Running, whimbrel};

/// A subscriber to `filter` at the broker `url`.
pub(crate) fn subscriber(home: &Home, url: &str, filter: &str, more: &[&str]) -> Command {
    let mut command = whimbrel(home);
    command.args(["sub", filter, "--broker", url]).args(more);
    command
}

/// Waits for the end of a subscriber. Returns what it printed.
pub(crate) fn lines(running: Running) -> Vec<String> {
    let (code, stdout, stderr) = running.end();
    assert_eq!(code, Some(0), "{stderr}");
    String::from_utf8(stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Numbers as lines.
pub(crate) fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}
