//! The program's log: what its endpoints and connections do, on standard error.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::process::Misused;

/// The variable that stands in for `--log`.
const VARIABLE: &str = "WHIMBREL_LOG";
/// The target that all events of Whimbrel begin with.
const WHIMBREL: &str = "whimbrel";

/// The options of the log, which every command has.
#[derive(Args, Clone, Debug)]
pub struct LogOptions {
    /// Writes what happens to standard error: a level (error, warn, info, debug, trace), or a list such as
    /// `info,whimbrel::path=debug` [default: $WHIMBREL_LOG, otherwise nothing].
    #[arg(long, global = true, value_name = "LEVEL|FILTER", help_heading = "Log")]
    pub log: Option<String>,
    /// The format of the log.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text, help_heading = "Log")]
    pub log_format: Format,
}

/// A format of the log.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line of text an event; in colour on a terminal.
    Text,
    /// A JSON object an event, each on a line.
    Json,
}

impl LogOptions {
    /// Begins the log, if one is wanted.
    ///
    /// # Errors
    /// The filter makes no sense.
    pub fn begin(&self) -> anyhow::Result<()> {
        let (name, filter) = match (&self.log, std::env::var_os(VARIABLE)) {
            (Some(filter), _) => ("--log", filter.clone()),
            (None, Some(set)) if !set.is_empty() => (VARIABLE, text(set)?),
            (None, _) => return Ok(()),
        };
        let filter = read(&filter).map_err(|why| Misused(format!("{name}: {why}")))?;
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            // A reader of standard error that goes away must not end the program.
            .log_internal_errors(false);
        match self.log_format {
            Format::Text => log.init(),
            Format::Json => log.json().flatten_event(true).with_span_list(false).init(),
        }
        Ok(())
    }
}

fn text(set: OsString) -> anyhow::Result<String> {
    set.into_string().map_err(|_| {
        Misused(format!("{VARIABLE}: it is not text; unset it, or set it to a level such as info")).into()
    })
}

/// Reads a filter. A level alone is for everything that Whimbrel says. The spans that tell which connection an event
/// belongs to are always there.
fn read(filter: &str) -> Result<EnvFilter, String> {
    let mut whole = format!("{WHIMBREL}=error");
    for part in filter.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        whole.push(',');
        if LevelFilter::from_str(part).is_ok() {
            whole.push_str(WHIMBREL);
            whole.push('=');
        } else if !part.contains(['=', '[']) {
            return Err(format!(
                "`{part}` is not a level; use error, warn, info, debug, trace, or TARGET=LEVEL"
            ));
        }
        whole.push_str(part);
    }
    EnvFilter::try_new(whole).map_err(|error| format!("`{filter}`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_for_all_of_whimbrel_and_a_list_adds_to_it() {
        let shown = |filter: &str| {
            let mut parts: Vec<String> =
                read(filter).unwrap().to_string().split(',').map(str::to_owned).collect();
            parts.sort();
            parts
        };
        assert_eq!(shown("debug"), ["whimbrel=debug"]);
        assert_eq!(shown("OFF"), ["whimbrel=off"]);
        assert_eq!(shown("whimbrel::path=debug"), ["whimbrel::path=debug", "whimbrel=error"]);
        assert_eq!(shown("info, whimbrel::path=trace"), ["whimbrel::path=trace", "whimbrel=info"]);
        for bad in ["debgu", "whimbrel=loud", "info,nonsense"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
