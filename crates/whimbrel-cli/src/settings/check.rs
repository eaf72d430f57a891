//! `whimbrel check`: checks a configuration file.

use std::path::PathBuf;

use clap::Args;

use super::file::Settings;
use crate::output::print_line;

/// Checks a configuration file of `perf serve` or `cat listen`.
///
/// Prints one sentence if the file has no mistake. Otherwise prints the mistake, where it is and what was expected, and ends with 2.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:
  whimbrel check /etc/whimbrel/perf.toml && systemctl reload whimbrel-perf")]
pub struct CheckCommand {
    /// The configuration file. docs/whimbrel.toml shows all settings.
    file: PathBuf,
}

impl CheckCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The file cannot be read, or has a mistake.
    pub fn run(self) -> anyhow::Result<()> {
        Settings::read(&self.file)?;
        print_line(format_args!("{} has no mistake", self.file.display()))
    }
}
