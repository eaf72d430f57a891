//! The loads of the `benches` workspace: those that need whole processors and no link.

use std::process::{Command, Stdio};

use anyhow::Context;

use crate::testbed::{MARK, mark};

const BINARIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/target/release");
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/Cargo.toml");

/// Builds them, where that was not done.
pub(crate) fn build() -> anyhow::Result<()> {
    can_be_alone()?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "--bins", "--manifest-path", MANIFEST]);
    cargo.env_remove("CARGO_TARGET_DIR");
    let status = cargo.stdin(Stdio::null()).status().context("cargo cannot be run")?;
    anyhow::ensure!(status.success(), "the benches workspace could not be built");
    Ok(())
}

/// In a process namespace of its own, which dies with this program.
const ALONE: [&str; 8] =
    ["--pdeathsig", "KILL", "unshare", "--fork", "--pid", "--mount-proc", "--kill-child", "--"];

/// Whether there can be one: else each trial would fail by itself.
fn can_be_alone() -> anyhow::Result<()> {
    let output = Command::new("setpriv").args(ALONE).arg("true").stdin(Stdio::null()).output();
    let output = output.context("setpriv of util-linux cannot be run")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.lines().last().unwrap_or("without a word");
    anyhow::ensure!(output.status.success(), "no process namespace of its own: {reason} (run it with sudo)");
    Ok(())
}

/// Lets a program have as many files as the system allows: a connection of TCP is one.
const MANY_FILES: &str = "ulimit -n $(ulimit -H -n); exec \"$@\"";

/// Runs one and takes what it prints.
pub(crate) async fn run(binary: &str, arguments: &[String]) -> anyhow::Result<String> {
    let mut command = tokio::process::Command::new("setpriv");
    // The last line of what a failed one says is to be the reason.
    command.env("RUST_BACKTRACE", "0").env(MARK, mark()).args(ALONE).args([
        "sh",
        "-c",
        MANY_FILES,
        "sh",
        &format!("{BINARIES}/{binary}"),
    ]);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = command.output().await.context("setpriv of util-linux cannot be run")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.lines().last().unwrap_or("without a word");
    anyhow::ensure!(output.status.success(), "{binary} failed: {reason}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Processor time of all processes that this one has waited for, and of those that they have, seconds.
pub(crate) fn cpu_of_children() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The second field is the program's name in parentheses; the 16th and 17th are children's user and system time in ticks.
    let after = stat.rsplit_once(") ").context("no name in /proc/self/stat")?.1;
    let ticks: u64 = after.split(' ').skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / 100.0)
}
