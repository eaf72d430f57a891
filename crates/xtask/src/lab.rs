//! `cargo xtask lab …`: the laboratory, a workspace of its own.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::process::{cargo, root};
use crate::tools;

/// Of its workspace.
pub(crate) const MANIFEST: &str = "lab/Cargo.toml";

/// Experiments over emulated links, beside peers: `cargo xtask lab list` says which.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Lab {
    /// Passed on: see `cargo xtask lab --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

impl Lab {
    /// Builds it and becomes it, so that Ctrl-C and the exit code are its own.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        for (package, reason) in tools::lab_packages() {
            eprintln!("{package} is missing: {reason}");
        }
        tools::sctp();
        if self.wants_rattan() {
            tools::rattan();
        }
        let build = ["build", "--release", "--quiet", "--manifest-path", MANIFEST];
        let built = cargo(&build).status().context("cannot run cargo")?.success();
        anyhow::ensure!(built, "the laboratory could not be built");
        let error =
            Command::new(root().join("lab/target/release/lab")).current_dir(root()).args(&self.args).exec();
        Err(error).context("the laboratory cannot be run")
    }

    /// Whether it is asked for by name, or everything is: it takes minutes to build.
    fn wants_rattan(&self) -> bool {
        let named = |name: &str| self.args.iter().any(|argument| argument == name);
        named("run") && (named("cross-check") || named("all"))
    }
}

/// The laboratory as its tests have built it: unoptimised, so that checking everything does not wait for an optimiser.
pub(crate) fn tested() -> PathBuf {
    root().join("lab/target/debug/lab")
}

/// The processes of a laboratory: with the last of them their namespaces and links are gone, for nothing names those.
pub(crate) fn traces(laboratory: &Path) -> anyhow::Result<Vec<String>> {
    let mut traces = Vec::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        // Processes come and go: one that cannot be read is gone.
        let Ok(link) = std::fs::read_link(entry.path().join("exe")) else { continue };
        if link == laboratory {
            traces.push(format!("process {}", entry.file_name().display()));
        }
    }
    Ok(traces)
}
