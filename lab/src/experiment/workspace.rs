//! The programs of the `benches` workspace, for loads that need whole processors and no link.

use std::process::{Command, Stdio};

use anyhow::Context;

use crate::testbed::{MARK, mark};

const BINARIES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release");
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../benches/Cargo.toml");

/// Builds the programs if they are not up to date.
pub(crate) fn build() -> anyhow::Result<()> {
    can_be_alone()?;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "--bins", "--manifest-path", MANIFEST]);
    cargo.env_remove("CARGO_TARGET_DIR");
    let status = cargo.stdin(Stdio::null()).status().context("cannot run cargo")?;
    anyhow::ensure!(status.success(), "the benches workspace could not be built");
    Ok(())
}

/// Arguments of `setpriv` that run a program in a process namespace of its own, which ends with this process.
const ALONE: [&str; 8] =
    ["--pdeathsig", "KILL", "unshare", "--fork", "--pid", "--mount-proc", "--kill-child", "--"];

/// Checks that such a namespace can be made. Otherwise every trial would fail by itself.
fn can_be_alone() -> anyhow::Result<()> {
    let output = Command::new("setpriv").args(ALONE).arg("true").stdin(Stdio::null()).output();
    let output = output.context("cannot run setpriv, which is part of util-linux")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.lines().last().unwrap_or("no error was printed");
    anyhow::ensure!(output.status.success(), "cannot make a process namespace: {reason} (run it with sudo)");
    Ok(())
}

/// Script that lets a program open as many files as the system allows. A TCP connection takes one.
const MANY_FILES: &str = "ulimit -n $(ulimit -H -n); exec \"$@\"";

/// Runs a program and returns its output.
pub(crate) async fn run(binary: &str, arguments: &[String]) -> anyhow::Result<String> {
    let mut command = tokio::process::Command::new("setpriv");
    // Without a backtrace, the last line that a failed program prints is its reason.
    command.env("RUST_BACKTRACE", "0").env(MARK, mark()).args(ALONE).args([
        "sh",
        "-c",
        MANY_FILES,
        "sh",
        &format!("{BINARIES}/{binary}"),
    ]);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = command.output().await.context("cannot run setpriv, which is part of util-linux")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.lines().last().unwrap_or("no error was printed");
    anyhow::ensure!(output.status.success(), "{binary} failed: {reason}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the processor time of all processes that this one has waited for, and of those that they waited for, in
/// seconds.
pub(crate) fn cpu_of_children() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The second field is the program's name in parentheses. The 16th and 17th are the user and system time of
    // children, in ticks.
    let after = stat.rsplit_once(") ").context("no name in /proc/self/stat")?.1;
    let ticks: u64 = after.split(' ').skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / 100.0)
}
