//! `cargo xtask soak …` runs the simulator on random seeds by the million.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::process::{cargo, root};

/// Runs the simulator on random seeds by the million. `cargo xtask soak --help` lists the options.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Soak {
    /// Arguments of the soak test. `cargo xtask soak --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

impl Soak {
    /// Builds the soak test and replaces this process with it, so that Ctrl-C and the exit code are the soak test's.
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let mut build = cargo(&["build", "--profile", "checked", "--quiet", "--package", "whimbrel-soak"]);
        if self.args.iter().any(|arg| arg.starts_with("--mutant")) {
            build.args(["--features", "mutants"]);
        }
        let built = build.status().context("cannot run cargo")?.success();
        anyhow::ensure!(built, "the soak test could not be built");
        let error =
            Command::new(root().join("target/checked/soak")).current_dir(root()).args(&self.args).exec();
        Err(error).context("the soak test cannot be run")
    }
}
