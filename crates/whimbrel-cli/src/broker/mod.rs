//! `whimbrel broker`: publish/subscribe for subscribers that roam.

mod describe;
mod file;
mod mqtt;
mod plan;
mod preflight;
mod report;
mod run;
mod sources;
mod standing;
mod ticking;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use whimbrel_broker::gateway::mqtt::Password;

use crate::output::print_line;
use crate::process::Misused;
#[cfg(unix)]
use crate::status::StatusCommand;
pub(crate) use describe::describe;
use plan::PlanCommand;
use run::RunCommand;
use sources::{check_address, is_nobody_listed};
pub(crate) use standing::standing;

/// Runs a publish/subscribe broker. Subscribers that roam recover at any broker what they missed.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example, in three terminals:
  whimbrel broker run                                      # prints its URL
  whimbrel sub 'prices/#' --broker whimbrel://KEY@127.0.0.1:4433 --state prices.state
  whimbrel pub prices/fish --broker whimbrel://KEY@127.0.0.1:4433 --message 4.20")]
pub struct BrokerCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Clone, Debug)]
enum Verb {
    Run(Box<RunCommand>),
    Check(CheckCommand),
    Plan(PlanCommand),
    Password(PasswordCommand),
    #[cfg(unix)]
    Status(StatusCommand),
}

/// Checks a configuration file of the broker, and the key and the folders that it names.
///
/// Prints one sentence if the file has no mistake. Otherwise prints the mistake, where it is and what was expected, and ends with 2. Nothing
/// is made or changed. Check as the user that runs the broker.
#[derive(Args, Clone, Debug)]
struct CheckCommand {
    /// The configuration file. docs/broker.toml shows all settings.
    #[arg(required_unless_present = "config")]
    file: Option<PathBuf>,
    /// The same, written as for `whimbrel broker run`.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
}

/// Hashes a password of a user of MQTT.
///
/// Reads the password from standard input, one line, and prints its hash for `password` in [[mqtt.user]].
#[derive(Args, Clone, Debug)]
struct PasswordCommand {}

impl PasswordCommand {
    fn run(self) -> anyhow::Result<()> {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        let password = line.trim_end_matches(['\r', '\n']);
        if password.is_empty() {
            return Err(
                Misused("standard input is empty: write the password there, on one line".to_owned()).into()
            );
        }
        print_line(format_args!("{}", Password::hash(password.as_bytes())?.as_str()))
    }
}

impl BrokerCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The command line or the file has a mistake, or a socket cannot be used.
    pub fn run(self) -> anyhow::Result<()> {
        match self.verb {
            Verb::Run(run) => run.run(),
            Verb::Check(check) => check.run(),
            Verb::Plan(plan) => plan.run(),
            Verb::Password(password) => password.run(),
            #[cfg(unix)]
            Verb::Status(status) => status.run(),
        }
    }
}

impl CheckCommand {
    fn run(self) -> anyhow::Result<()> {
        // clap has one of them.
        let file = self.file.or(self.config).unwrap_or_default();
        let settings = file::read(&file)?;
        if let Some(listen) = settings.listen.address
            && is_nobody_listed(&settings)
        {
            check_address(listen)
                .map_err(|Misused(why)| file::refused(Some(&file), "listen.address", &why))?;
        }
        preflight::check(&file, &settings)?;
        print_line(format_args!("{} has no mistake", file.display()))
    }
}
