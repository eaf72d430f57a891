//! The `whimbrel` program, with one subcommand for each job; `whimbrel --help` lists them.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use whimbrel_cli::broker::BrokerCommand;
use whimbrel_cli::cat::CatCommand;
use whimbrel_cli::closed::sentence;
use whimbrel_cli::key::KeyCommand;
#[cfg(unix)]
use whimbrel_cli::link::LinkCommand;
use whimbrel_cli::log::LogOptions;
use whimbrel_cli::output::{OutputClosed, note, output_error};
#[cfg(unix)]
use whimbrel_cli::perf::PerfCommand;
use whimbrel_cli::process::{Interrupted, Misused};
#[cfg(unix)]
use whimbrel_cli::proxy::ProxyCommand;
use whimbrel_cli::pubsub::{PubCommand, SubCommand};
use whimbrel_cli::settings::CheckCommand;
use whimbrel_cli::status::{ReloadCommand, StatusCommand, StopCommand};
#[cfg(unix)]
use whimbrel_cli::top::TopCommand;

/// Keeps programs talking while the network moves under them.
#[derive(Parser)]
#[command(name = "whimbrel", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogOptions,
}

#[derive(Subcommand)]
enum Command {
    Key(KeyCommand),
    Cat(Box<CatCommand>),
    #[cfg(unix)]
    Perf(Box<PerfCommand>),
    Proxy(Box<ProxyCommand>),
    Broker(Box<BrokerCommand>),
    Pub(Box<PubCommand>),
    Sub(Box<SubCommand>),
    #[cfg(unix)]
    Link(Box<LinkCommand>),
    #[cfg(unix)]
    Top(TopCommand),
    #[cfg(unix)]
    Status(StatusCommand),
    #[cfg(unix)]
    Reload(ReloadCommand),
    #[cfg(unix)]
    Stop(StopCommand),
    Check(CheckCommand),
    Completions(Completions),
}

/// Prints shell completions.
#[derive(clap::Args)]
#[command(
    after_help = "Example: whimbrel completions bash > ~/.local/share/bash-completion/completions/whimbrel"
)]
struct Completions {
    /// The shell to print them for.
    shell: Shell,
}

fn main() -> ExitCode {
    let Cli { command, log } = Cli::parse();
    match log.begin().and_then(|()| run(command)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed our output on purpose, so this is no error.
        Err(error) if error.is::<OutputClosed>() => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<Interrupted>() {
            Some(signal) => ExitCode::from(signal.exit_code()),
            None => {
                note(format_args!("error: {}", sentence(&error)));
                // The exit code is the one that clap uses for a wrong command line.
                if error.is::<Misused>() { ExitCode::from(2) } else { ExitCode::FAILURE }
            }
        },
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Key(command) => command.run(),
        Command::Cat(command) => command.run(),
        Command::Proxy(command) => command.run(),
        Command::Broker(command) => command.run(),
        Command::Pub(command) => command.run(),
        Command::Sub(command) => command.run(),
        #[cfg(unix)]
        Command::Perf(command) => command.run(),
        #[cfg(unix)]
        Command::Link(command) => command.run(),
        #[cfg(unix)]
        Command::Top(command) => command.run(),
        #[cfg(unix)]
        Command::Status(command) => command.run(),
        #[cfg(unix)]
        Command::Reload(command) => command.run(),
        #[cfg(unix)]
        Command::Stop(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Completions(command) => command.run(),
    }
}

impl Completions {
    fn run(&self) -> anyhow::Result<()> {
        // The script is written to memory first: clap would panic on a closed pipe.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "whimbrel", &mut script);
        io::stdout().write_all(&script).map_err(output_error)
    }
}
