//! `cargo xtask lab …` builds and runs the laboratory, which is a separate workspace.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::process::{cargo, root};
use crate::tools;

/// The manifest of the laboratory's workspace.
pub(crate) const MANIFEST: &str = "lab/Cargo.toml";

/// Runs experiments over emulated links, with other transports for comparison. `cargo xtask lab list` lists them.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Lab {
    /// Arguments of the laboratory. `cargo xtask lab --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// The experiments with proxies, for which programs are installed.
const PROXY: &[&str] = &[
    "acm-table1",
    "acm-table2",
    "acm-table3",
    "acm-table4",
    "proxy-rivals",
    "proxy-outage",
    "proxy-reload",
    "proxy-cost",
];

impl Lab {
    /// Builds the laboratory and replaces this process with it, so that Ctrl-C and the exit code are the laboratory's.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        for (package, reason) in tools::lab_packages() {
            eprintln!("{package} is missing: {reason}");
        }
        tools::sctp();
        if self.wants(&["frames"]) {
            tools::srt();
        }
        if self.wants(&["cross-check"]) {
            tools::rattan();
        }
        if self.wants(PROXY) {
            tools::proxy_programs();
            tools::sing_box();
        }
        if self.wants(&["fan-out", "semi-durable"]) {
            tools::brokers();
        }
        let build = ["build", "--release", "--quiet", "--manifest-path", MANIFEST];
        let built = cargo(&build).status().context("cannot run cargo")?.success();
        anyhow::ensure!(built, "the laboratory could not be built");
        let error =
            Command::new(root().join("target/release/lab")).current_dir(root()).args(&self.args).exec();
        Err(error).context("the laboratory cannot be run")
    }

    /// Returns whether one of these experiments is requested, for which another program is built. That takes minutes,
    /// so others do without.
    fn wants(&self, experiments: &[&str]) -> bool {
        let named = |name: &str| self.args.iter().any(|argument| argument == name);
        named("run") && (named("all") || experiments.iter().any(|name| named(name)))
    }
}

/// Returns the path of the laboratory that its tests have built. It is not optimised, which saves the checks build
/// time.
pub(crate) fn tested() -> PathBuf {
    root().join("target/debug/lab")
}

/// Returns the processes of a laboratory that still run. Its namespaces and links have no names, so they are gone once
/// the last process is.
pub(crate) fn traces(laboratory: &Path) -> anyhow::Result<Vec<String>> {
    let mut traces = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        // A process that cannot be read has ended meanwhile.
        let Ok(link) = std::fs::read_link(entry.path().join("exe")) else { continue };
        if link == laboratory {
            traces.push(format!("process {}", entry.file_name().display()));
        }
    }
    Ok(traces)
}
