//! Parses quantities as people write them. Every error shows a valid example.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A setting that is invalid, described in one sentence with an example of a valid one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl ParseError {
    /// Creates an error that says that `text` is not a `what`, with `good` as an example of a valid one.
    pub fn new(what: &str, text: &str, good: &str) -> Self {
        Self(format!("`{}` is not a {what}: write {good}", text.trim()))
    }

    /// Creates an error with this message.
    pub fn plain(message: String) -> Self {
        Self(message)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ParseError {}

/// Splits text into a number and its unit, in lower case.
fn split(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    Some((number, text[end..].trim().to_ascii_lowercase()))
}

/// Parses bits per second: `4mbit`, `500 kbit/s`, `9600bit`.
///
/// # Errors
/// The text is not a rate; the message shows a valid one.
pub fn rate(text: &str) -> Result<u64, ParseError> {
    let wrong = || ParseError::new("rate", text, "bits per second, for example 4mbit, 500kbit, 1gbit");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let scale = match unit.strip_suffix("/s").unwrap_or(&unit) {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(wrong()),
    };
    let rate = number * scale;
    if (1.0..=1e12).contains(&rate) { Ok(rate.round() as u64) } else { Err(wrong()) }
}

/// Parses a duration: `50ms`, `1.5s`, `250us`, `2min`; `0` needs no unit.
///
/// # Errors
/// The text is not a duration; the message shows a valid one.
pub fn duration(text: &str) -> Result<Duration, ParseError> {
    let wrong =
        || ParseError::new("duration", text, "a number and a unit, for example 50ms, 1.5s, 250us, 2min");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let scale = match unit.as_str() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "" if number == 0.0 => 0.0,
        _ => return Err(wrong()),
    };
    let nanos = number * scale * 1e9;
    // The limit is a century: more is a typing error.
    if nanos <= 3.2e18 { Ok(Duration::from_nanos(nanos.round() as u64)) } else { Err(wrong()) }
}

/// Parses a duration above zero.
///
/// # Errors
/// The text is not a duration above zero; the message shows a valid one.
pub fn positive_duration(text: &str) -> Result<Duration, ParseError> {
    match duration(text)? {
        Duration::ZERO => Err(ParseError::new("duration above zero", text, "for example 50ms")),
        duration => Ok(duration),
    }
}

/// Parses bytes: `64kb` is 64,000, `64kib` is 65,536, and a bare number counts bytes.
///
/// # Errors
/// The text is not a size; the message shows a valid one.
pub fn size(text: &str) -> Result<usize, ParseError> {
    let wrong =
        || ParseError::new("size", text, "bytes, for example 1500, 64kb (64,000), 64kib (65,536), 1mb");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let scale = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let size = number * scale;
    if size <= 1e12 { Ok(size.round() as usize) } else { Err(wrong()) }
}

/// Parses a probability from 0 to 1: `5%` or `0.05`.
///
/// # Errors
/// The text is not a probability; the message shows a valid one.
pub fn probability(text: &str) -> Result<f64, ParseError> {
    let wrong = || ParseError::new("probability", text, "0% to 100%, for example 5% or 0.05");
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let probability = match unit.as_str() {
        "%" => number / 100.0,
        "" => number,
        _ => return Err(wrong()),
    };
    if (0.0..=1.0).contains(&probability) { Ok(probability) } else { Err(wrong()) }
}

/// Formats a probability as [`probability`] reads it.
pub fn percent(probability: f64) -> String {
    // These digits round-trip any value that a person would write, and 0.07 does not become 7.000000000000001 %.
    format!("{}%", (probability * 1e14).round() / 1e12)
}

/// Formats a rate as [`rate`] reads it.
pub fn rate_text(rate: u64) -> String {
    let (scale, unit) = match rate {
        0..1_000 => (1, "bit"),
        1_000..1_000_000 => (1_000, "kbit"),
        1_000_000..1_000_000_000 => (1_000_000, "mbit"),
        _ => (1_000_000_000, "gbit"),
    };
    format!("{}{unit}", rate as f64 / f64::from(scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("4mbit"), Ok(4_000_000));
        assert_eq!(rate(" 2.5 Mbit/s "), Ok(2_500_000));
        assert_eq!(rate("9600bit"), Ok(9600));
        for bad in ["", "4", "4mb", "mbit", "-4mbit", "0mbit", "4.5.6mbit", "9e9gbit", "2000gbit"] {
            let error = rate(bad).unwrap_err().to_string();
            assert!(error.contains("4mbit, 500kbit") && error.contains(bad), "{error}");
        }
        for exact in [1, 9_600, 1_544_000, 4_000_000, 1_234_567_891] {
            assert_eq!(rate(&rate_text(exact)), Ok(exact));
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bad in ["", "50", "ms", "50 parsecs", "-1s", "999999999h"] {
            assert!(duration(bad).unwrap_err().to_string().contains("for example 50ms"), "{bad}");
        }
        assert!(positive_duration("0s").is_err());
    }

    #[test]
    fn sizes() {
        assert_eq!((size("64kb"), size("64KiB"), size("1500")), (Ok(64_000), Ok(65_536), Ok(1500)));
        assert!(size("64 packets").is_err());
    }

    #[test]
    fn probabilities() {
        assert_eq!(
            (probability("5%"), probability("0.05"), probability("100%")),
            (Ok(0.05), Ok(0.05), Ok(1.0))
        );
        for bad in ["101%", "5", "five", "-1%"] {
            assert!(probability(bad).is_err(), "{bad}");
        }
        for text in ["5%", "0.1%", "7%", "33.3%", "100%"] {
            assert_eq!(percent(probability(text).unwrap()), text);
        }
    }
}
