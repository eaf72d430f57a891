//! The commands of contributors and CI. `cargo xtask --help` lists them.

mod bench;
mod counts;
mod fuzz;
mod lab;
mod link_bench;
mod mixed;
mod packages;
mod process;
mod selectors;
mod soak;
mod test;
mod times;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Runs what contributors and CI need: tests, fuzzing, measurements.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Test(test::Test),
    Fuzz(fuzz::Fuzz),
    #[command(subcommand)]
    Bench(bench::Bench),
    Lab(lab::Lab),
    Soak(soak::Soak),
    Mixed(mixed::Mixed),
    Selectors(selectors::Selectors),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Test(command) => command.run(),
        Command::Fuzz(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Lab(command) => command.run(),
        Command::Soak(command) => command.run(),
        Command::Mixed(command) => command.run(),
        Command::Selectors(command) => command.run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
