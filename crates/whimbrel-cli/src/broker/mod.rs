//! `whimbrel broker`: publish/subscribe for subscribers that roam.

mod describe;
mod mqtt;
mod plan;
mod report;
mod run;
mod sources;
mod ticking;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use whimbrel_broker::gateway::mqtt::{Password, Tls, TlsError, TlsFiles};
use whimbrel_broker::settings::Settings;
use whimbrel_service::{ConfigError, read_config, refuse_setting};

use crate::output::print_line;
use crate::process::Misused;
#[cfg(unix)]
use crate::status::StatusCommand;
pub(crate) use describe::describe;
use plan::PlanCommand;
use run::RunCommand;
use sources::{check_address, is_nobody_listed};

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

/// Checks a configuration file of the broker.
///
/// Prints one sentence if the file has no mistake. Otherwise prints the mistake, where it is and what was expected, and ends with 2.
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
            return Err(Misused("standard input has no password: write it there, one line".to_owned()).into());
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
        let settings = read(&file)?;
        if let Some(listen) = settings.listen.address
            && is_nobody_listed(&settings)
        {
            check_address(listen).map_err(|Misused(why)| Misused(format!("{}: {why}", file.display())))?;
        }
        print_line(format_args!("{} has no mistake", file.display()))
    }
}

/// Reads a file, and refuses what cannot be.
fn read(file: &Path) -> Result<Settings, Misused> {
    let mut settings: Settings =
        read_config(file).map_err(|error: ConfigError| Misused(error.to_string()))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    settings.mqtt.relative_to(folder);
    settings.backbone.relative_to(folder);
    settings.bridges.iter_mut().for_each(|bridge| bridge.relative_to(folder));
    let whole = settings.rules().map(drop).and_then(|()| settings.permissions().map(drop));
    // The peers are among the rules.
    let plan = whole.and_then(|()| settings.mqtt());
    let plan = plan.map_err(|error| Misused(format!("{}: {error}", file.display())))?;
    plan.and_then(|plan| plan.tls).map(|files| load(&files, Some(file))).transpose()?;
    let nats = settings.nats().map_err(|error| Misused(format!("{}: {error}", file.display())))?;
    if let Some(Err(error)) = nats.map(|nats| nats.check()) {
        return Err(refused("backbone.nats", &error, Some(file)));
    }
    let bridges = settings.bridges().map_err(|error| Misused(format!("{}: {error}", file.display())))?;
    for (at, bridge) in bridges.iter().enumerate() {
        bridge.check().map_err(|error| refused(&format!("bridge.{at}"), &error, Some(file)))?;
    }
    Ok(settings)
}

/// Reads the files for TLS. `file` is the configuration that names them.
fn load(files: &TlsFiles, file: Option<&Path>) -> Result<Tls, Misused> {
    Tls::load(files).map_err(|error| refused("mqtt.tls", &error, file))
}

/// A file that a section names cannot be used. `file` is the configuration.
fn refused(section: &str, TlsError { setting, why }: &TlsError, file: Option<&Path>) -> Misused {
    let Some(file) = file else { return Misused(why.clone()) };
    // The file was read a moment ago.
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let place = format!("{section}.{setting}");
    Misused(refuse_setting(&file.display().to_string(), &text, &place, why).to_string())
}
