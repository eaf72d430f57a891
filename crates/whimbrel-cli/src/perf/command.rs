//! The command line of `whimbrel perf`.

use clap::{Args, Subcommand};

use super::run::RunCommand;
use super::serve::ServeCommand;

const EXAMPLES: &str = "\
Examples:
  At one end:
    whimbrel perf serve --listen 0.0.0.0:4433
  At the other, with the URL that the first has printed:
    whimbrel perf run whimbrel://KEY@host:4433 --mode bulk --time 20
  Across a bad link on one machine (the link's address in place of the server's):
    whimbrel link --listen 127.0.0.1:7000 --to 127.0.0.1:4433 --rate 4mbit --delay 25ms --loss 5%
    whimbrel perf run whimbrel://KEY@127.0.0.1:7000 --mode bulk --time 20";

/// Measures a path: throughput, messages a second, latency, gaps, loss.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PerfCommand {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand, Debug)]
enum Part {
    Serve(Box<ServeCommand>),
    Run(Box<RunCommand>),
}

impl PerfCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The key, the port or the peer failed, or the measurement ended early.
    pub fn run(self) -> anyhow::Result<()> {
        match self.part {
            Part::Serve(command) => command.run(),
            Part::Run(command) => command.run(),
        }
    }
}
