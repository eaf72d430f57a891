//! `cargo xtask bench …` runs measurements. No test depends on them.

use std::process::ExitCode;

use anyhow::Context;

use crate::process::cargo;

/// Measures throughput and latency, on loopback and over emulated links.
#[derive(clap::Subcommand)]
pub(crate) enum Bench {
    /// Measures Whimbrel and its alternatives on loopback: bare UDP, quinn, noq, kernel TCP.
    Peers {
        /// Arguments of the benchmark. `cargo xtask bench peers -- --help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Measures bulk, files and sparse messages over emulated links. Takes some minutes.
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
