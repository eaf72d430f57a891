//! `cargo xtask bench …`: measurements, which no test depends on.

use std::process::ExitCode;

use anyhow::Context;

use crate::process::cargo;

/// Measurements.
#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Loopback figures of what one would use instead: bare UDP, quinn, noq, kernel TCP.
    Peers {
        /// Passed on: see `cargo xtask bench peers -- --help`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// What crosses emulated links: bulk, files, sparse messages. Takes some minutes.
    Link(crate::link_bench::LinkBench),
}

impl Bench {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let args = match self {
            Self::Peers { args } => args,
            Self::Link(bench) => return bench.run().map(|()| ExitCode::SUCCESS),
        };
        let mut command = cargo(&[
            "run",
            "--release",
            "--quiet",
            "--manifest-path",
            "benches/Cargo.toml",
            "--bin",
            "peers",
            "--",
        ]);
        let status = command.args(args).status().context("cannot run cargo")?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
