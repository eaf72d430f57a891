//! Reading TOML configuration files, with errors that show where a mistake is.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// An error from reading a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path:?}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file has a mistake.
    #[error("{0}")]
    Mistake(Mistake),
}

/// A mistake in a configuration: where it is, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The mistake, and the correct form.
    pub message: String,
    /// The text of the line.
    text: String,
    /// The number of characters at fault.
    length: usize,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, text, length } = self;
        let margin = line.to_string().len();
        writeln!(f, "{file}:{line}:{column}: {message}")?;
        writeln!(f, "{:margin$} |", "")?;
        writeln!(f, "{line} | {text}")?;
        write!(f, "{:margin$} | {:indent$}{}", "", "", "^".repeat((*length).max(1)), indent = column - 1)
    }
}

/// Reads a configuration file.
///
/// # Errors
/// The file cannot be read, or it has a mistake. The error shows the mistake with its line and column.
pub fn read_config<T: DeserializeOwned>(path: &Path) -> Result<T, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| ConfigError::Read { path: path.to_owned(), error })?;
    parse_config(&path.display().to_string(), &text)
}

/// Parses the text of a configuration. `file` names it in errors.
///
/// # Errors
/// The text has a mistake.
pub fn parse_config<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        ConfigError::Mistake(mistake(file, text, &span, error.message()))
    })
}

fn mistake(file: &str, text: &str, span: &Range<usize>, message: &str) -> Mistake {
    let start = floor(text, span.start.min(text.len()));
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let end = floor(text, span.end.clamp(start, line_end));
    Mistake {
        file: file.to_owned(),
        line: text[..line_start].matches('\n').count() + 1,
        column: text[line_start..start].chars().count() + 1,
        message: message.trim_end().replace('\n', "; "),
        // A tab counts as one column here but is up to eight wide on a terminal.
        text: text[line_start..line_end].trim_end_matches('\r').replace('\t', " "),
        length: text[start..end].chars().count(),
    }
}

/// Returns the nearest character boundary at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use whimbrel::{CostPolicy, Scheduling};

    use super::*;

    #[derive(serde::Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read by serde")]
    struct Settings {
        scheduler: Scheduling,
        #[serde(default)]
        cost: Option<CostPolicy>,
    }

    fn says(text: &str) -> String {
        parse_config::<Settings>("x.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn a_mistake_is_shown_where_it_is() {
        assert!(parse_config::<Settings>("x.toml", "scheduler = 'primary'\ncost = 'ignore'").is_ok());
        let wrong = says("# A comment with an ü.\nscheduler = 'fastest'\n");
        assert!(
            wrong.starts_with("x.toml:2:13: ") && wrong.contains("primary, aggregate or redundant"),
            "{wrong}"
        );
        assert!(wrong.ends_with("2 | scheduler = 'fastest'\n  |             ^^^^^^^^^"), "{wrong}");
        let unknown = says("scheduler = 'primary'\nspeed = 3\n");
        assert!(unknown.starts_with("x.toml:2:1: ") && unknown.contains("`scheduler`"), "{unknown}");
        let broken = says("scheduler = \n");
        assert!(broken.starts_with("x.toml:1:"), "{broken}");
        assert!(says("").contains("scheduler"), "what is missing is named");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read_config::<Settings>(Path::new("/nowhere/x.toml")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/x.toml"), "{error}");
    }
}
