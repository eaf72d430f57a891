//! The `whimbrel` program: one subcommand a job. `whimbrel --help` says which.

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
#[cfg(unix)]
use whimbrel_cli::link::LinkCommand;

/// Keeps programs talking while the network moves under them.
#[derive(Parser)]
#[command(name = "whimbrel", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(unix)]
    Link(Box<LinkCommand>),
    Completions(Completions),
}

/// Prints the completions for a shell.
#[derive(clap::Args)]
#[command(
    after_help = "Example: whimbrel completions bash > ~/.local/share/bash-completion/completions/whimbrel"
)]
struct Completions {
    /// Which shell.
    shell: Shell,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        #[cfg(unix)]
        Command::Link(command) => command.run(),
        Command::Completions(command) => command.run(),
    }
}

impl Completions {
    fn run(&self) -> anyhow::Result<()> {
        clap_complete::generate(self.shell, &mut Cli::command(), "whimbrel", &mut io::stdout());
        Ok(())
    }
}
