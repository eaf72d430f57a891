//! `whimbrel proxy`: carries unmodified programs.

mod explain;
mod permit;
mod run;
mod sources;

use clap::{Args, Subcommand};
use whimbrel_proxy::Settings;
use whimbrel_service::read_config;

use crate::output::print_line;
use crate::process::Misused;
use explain::ExplainCommand;
use run::RunCommand;

/// Carries TCP and UDP programs, unmodified, over one session that survives outages and changes of network.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example, on a server and on a laptop:
  whimbrel key show                                  # on the laptop: its public key, for the server
  whimbrel proxy run --listen '[::]:4433' --allow 'KEY=0.0.0.0/0:443'
  whimbrel proxy run --socks 127.0.0.1:1080 --peer whimbrel://KEY@server:4433
  curl --proxy socks5h://127.0.0.1:1080 https://example.org/")]
pub struct ProxyCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Clone, Debug)]
enum Verb {
    Run(Box<RunCommand>),
    Check(CheckCommand),
    Explain(ExplainCommand),
}

/// Checks a configuration file of the proxy.
///
/// Prints one sentence if the file has no mistake. Otherwise prints the mistake, where it is and what was expected, and ends with 2.
#[derive(Args, Clone, Debug)]
struct CheckCommand {
    /// The configuration file. docs/proxy.toml shows all settings.
    file: std::path::PathBuf,
}

impl ProxyCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The command line or the file has a mistake, or a socket cannot be used.
    pub fn run(self) -> anyhow::Result<()> {
        match self.verb {
            Verb::Run(run) => run.run(),
            Verb::Check(check) => check.run(),
            Verb::Explain(explain) => explain.run(),
        }
    }
}

impl CheckCommand {
    fn run(self) -> anyhow::Result<()> {
        read(&self.file)?;
        print_line(format_args!("{} has no mistake", self.file.display()))
    }
}

/// Reads a file. Options of the command line may complete it.
fn parse(file: &std::path::Path) -> Result<Settings, Misused> {
    read_config(file).map_err(|error| Misused(error.to_string()))
}

/// Reads a file and checks it.
fn read(file: &std::path::Path) -> Result<Settings, Misused> {
    let settings = parse(file)?;
    settings.check().map_err(|error| Misused(format!("{}: {error}", file.display())))?;
    Ok(settings)
}
