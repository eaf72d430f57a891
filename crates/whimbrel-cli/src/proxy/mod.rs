//! `whimbrel proxy`: carries unmodified programs.

mod cleanup;
mod explain;
mod file;
mod flows;
mod permit;
mod run;
mod sources;
mod tcp;
mod train;
mod upgrade;

use clap::{Args, Subcommand};

use crate::output::print_line;
use crate::status::StatusCommand;
use cleanup::CleanupCommand;
use explain::ExplainCommand;
pub(crate) use flows::{Flow, More, describe};
use run::RunCommand;
use train::TrainCommand;

/// Carries TCP and UDP programs, unmodified, over one session that survives outages and changes of network.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example, on a server and on a laptop:
  whimbrel key new                                   # on the laptop: makes its key, and prints the public half
  whimbrel proxy run --listen '[::]:4433' --allow 'KEY=0.0.0.0/0:443'          # on the server: prints its URL
  whimbrel proxy run --socks 127.0.0.1:1080 --peer whimbrel://KEY@server:4433  # on the laptop, with that URL
  curl --proxy socks5h://127.0.0.1:1080 https://example.org/

`whimbrel key show` prints the public half of a key that is there already. In the URL, replace [::1] with a name or address of the
server. 0.0.0.0/0 is every IPv4 address that the server can reach, including its private networks: name networks where you can.")]
pub struct ProxyCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Clone, Debug)]
enum Verb {
    Run(Box<RunCommand>),
    Check(CheckCommand),
    Status(StatusCommand),
    Explain(ExplainCommand),
    Train(TrainCommand),
    Cleanup(CleanupCommand),
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
            Verb::Status(status) => status.run(),
            Verb::Explain(explain) => explain.run(),
            Verb::Train(train) => train.run(),
            Verb::Cleanup(cleanup) => cleanup.run(),
        }
    }
}

impl CheckCommand {
    fn run(self) -> anyhow::Result<()> {
        file::read(&self.file)?;
        print_line(format_args!("{} has no mistake", self.file.display()))
    }
}
