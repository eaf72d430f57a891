//! Reading TOML configuration files, with errors that show where a mistake is.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};

use crate::{config_probe, config_words};

/// An error from reading a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {path:?}: {error}; name a text file that you can read")]
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
    /// The name of the setting, if the mistake is that it is unknown where it stands.
    pub unknown: Option<String>,
    /// The text of the line.
    text: String,
    /// The number of characters at fault.
    length: usize,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, unknown: _, text, length } = self;
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
        let span = if config_words::lacks_quotes(error.message()) { word_around(text, span) } else { span };
        let said = config_probe::instead::<T>(text, &span, error.message());
        let said = said.as_deref().unwrap_or(error.message());
        ConfigError::Mistake(mistake(file, text, &span, said))
    })
}

/// Returns the error for a setting whose value is of the right kind but cannot be used. It shows where `text` has the
/// setting, which is named with its sections, such as `listen.address`, or `peer.0.name` in the first of a list. If the setting is
/// left out, the error shows the section in which it would be.
pub fn refuse_setting(file: &str, text: &str, setting: &str, message: &str) -> ConfigError {
    ConfigError::Mistake(mistake(file, text, &place(text, setting).unwrap_or(0..0), message))
}

/// Returns where a setting's value, or the nearest section around it, stands.
fn place(text: &str, setting: &str) -> Option<Range<usize>> {
    let whole = DeTable::parse(text).ok()?.into_inner();
    let mut names = setting.split('.');
    let mut value = whole.get(names.next()?)?;
    for name in names {
        let next = match value.get_ref() {
            DeValue::Table(section) => section.get(name),
            DeValue::Array(list) => name.parse().ok().and_then(|at: usize| list.get(at)),
            _ => None,
        };
        let Some(next) = next else { break };
        value = next;
    }
    Some(value.span())
}

fn mistake(file: &str, text: &str, span: &Range<usize>, message: &str) -> Mistake {
    let start = floor(text, span.start.min(text.len()));
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let end = floor(text, span.end.clamp(start, text.len()));
    let value = &text[start..end];
    let end = end.min(line_end);
    Mistake {
        file: file.to_owned(),
        line: text[..line_start].matches('\n').count() + 1,
        column: text[line_start..start].chars().count() + 1,
        message: config_words::explain(message, value),
        unknown: config_words::unknown(message).map(str::to_owned),
        // A tab counts as one column here but is up to eight wide on a terminal.
        text: text[line_start..line_end].trim_end_matches('\r').replace('\t', " "),
        length: text[start..end].chars().count(),
    }
}

/// Returns the place of the whole word around a part of it, such as that of `3.1.1` around `.1`.
fn word_around(text: &str, part: Range<usize>) -> Range<usize> {
    let ends = |letter: char| letter.is_whitespace() || "=,[]{}#".contains(letter);
    let (start, end) = (floor(text, part.start.min(text.len())), floor(text, part.end.min(text.len())));
    let begin = text[..start].rfind(ends).map_or(0, |before| before + 1);
    begin..end + text[end..].find(ends).unwrap_or(text.len() - end)
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
        assert!(broken.starts_with("x.toml:1:13: a value is missing"), "{broken}");
        assert!(says("").contains("scheduler"), "what is missing is named");
    }

    #[derive(serde::Deserialize, Default, Debug)]
    #[serde(deny_unknown_fields, default)]
    #[allow(dead_code, reason = "only read by serde")]
    struct Kinds {
        flag: bool,
        small: u8,
        large: u64,
        word: String,
        list: Vec<String>,
        file: PathBuf,
        section: Inner,
    }

    #[derive(serde::Deserialize, Default, Debug)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read by serde")]
    struct Inner {
        path: PathBuf,
    }

    #[test]
    fn what_people_write_wrong_is_explained() {
        for (text, wanted) in [
            ("flag = yes", "1:8: write true or false"),
            ("flag = True", "1:8: write true or false"),
            ("flag = 'true'", "1:8: `'true'` is not allowed here: write true or false"),
            ("flag = 1", "1:8: `1` is not allowed here: write true or false"),
            ("small = '3'", "1:9: `'3'` is not allowed here: write a whole number from 0 to 255"),
            ("small = 300", "1:9: `300` is not allowed here: write a whole number from 0 to 255"),
            ("large = -1", "1:9: `-1` is not allowed here: write a whole number, 0 or more"),
            ("large = 1e6", "1:9: `1e6` is not allowed here: write a whole number, 0 or more"),
            ("word = 5min", "1:8: text, durations and sizes need quotation marks: write \"5min\""),
            ("word = 3.1.1 # dots", "1:8: text, durations and sizes need quotation marks: write \"3.1.1\""),
            (
                "word = 127.0.0.1:80",
                "1:8: text, durations and sizes need quotation marks: write \"127.0.0.1:80\"",
            ),
            ("word = none", "1:8: text, durations and sizes need quotation marks: write \"none\""),
            ("word = ", "1:8: a value is missing after `=`"),
            ("word = 7", "1:8: `7` is not allowed here: write text in quotation marks"),
            (
                "list = 'one'",
                "1:8: `'one'` is not allowed here: write a list, for example [\"one\", \"two\"]",
            ),
            ("file = 5", "1:8: `5` is not allowed here: write a path in quotation marks"),
            ("section = 5", "1:11: `5` is not allowed here: write a section with settings of its own"),
            ("[section]", "1:1: `path` is missing: write it into this section"),
            ("word: 'x'", "1:7: write `=` between a setting and its value"),
            ("word = 'x'\nword = 'y'", "2:1: `word` appears twice: leave one out"),
            ("{\"word\": 1}", "1:1: write settings as `name = value`"),
            ("smal = 1", "1:1: unknown setting `smal`: write `small`, if you mean that"),
            ("other = 1", "1:1: unknown setting `other`: the settings here are `flag`, `small`, `large`, "),
        ] {
            let said = parse_config::<Kinds>("x.toml", text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("x.toml:{wanted}")), "{text}: {said}");
        }
    }

    #[test]
    fn a_refused_setting_is_shown_where_it_is() {
        let text = "# Notes.\n[listen]\nport = 1\n[listen.more]\nlimit = 7 # high\n";
        let says = |setting: &str| refuse_setting("x.toml", text, setting, "write less").to_string();
        assert_eq!(
            says("listen.more.limit"),
            "x.toml:5:9: write less\n  |\n5 | limit = 7 # high\n  |         ^"
        );
        assert!(says("listen.port").starts_with("x.toml:3:8: write less"), "{}", says("listen.port"));
        assert!(says("listen.other").starts_with("x.toml:2:1: write less"), "{}", says("listen.other"));
        assert!(says("other").starts_with("x.toml:1:1: write less"));
        let text = "[[peer]]\nname = 'a'\n\n[[peer]]\nname = 'b'\nto = [\n  'x', 'y']\n";
        let says = |setting: &str| refuse_setting("x.toml", text, setting, "write less").to_string();
        assert!(says("peer.1.name").starts_with("x.toml:5:8: "), "{}", says("peer.1.name"));
        assert!(says("peer.1.to.1").starts_with("x.toml:7:8: "), "{}", says("peer.1.to.1"));
        assert!(says("peer.1.key").starts_with("x.toml:4:1: "), "{}", says("peer.1.key"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read_config::<Settings>(Path::new("/nowhere/x.toml")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/x.toml"), "{error}");
    }
}
