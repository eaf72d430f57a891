//! Parses and formats quantities as people write them. Every error shows a valid example.

#[cfg(feature = "serde")]
pub mod as_text;

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A setting that is invalid, described in one sentence with an example of a valid one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError(String);

impl ParseError {
    /// Creates an error that says that `text` is not a `what`, with `good` as an example of a valid one.
    pub fn new(what: &str, text: &str, good: &str) -> Self {
        let article = if what.starts_with(['a', 'e', 'i', 'o', 'I']) { "an" } else { "a" };
        Self(format!("`{}` is not {article} {what}: write {good}", text.trim()))
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

/// Splits text into the digits of a number and its unit, in lower case.
fn split(text: &str) -> (&str, String) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim().to_ascii_lowercase())
}

/// Multiplies a decimal number such as `1.5` with `scale`, exactly but for the last rounding. None: it is not a
/// number, or far too large.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    /// More digits after the point than any quantity has.
    const DIGITS: usize = 18;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.get(..DIGITS).unwrap_or(fraction);
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(fraction) {
        return None;
    }
    let parse = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok() };
    let denominator = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = (u128::from(parse(fraction)?) * u128::from(scale) + denominator / 2) / denominator;
    let sum = u128::from(parse(whole)?) * u128::from(scale) + part;
    u64::try_from(sum).ok()
}

/// Parses bits per second: `4mbit`, `500 kbit/s`, `9600bit`.
///
/// # Errors
/// The text is not a rate; the message shows a valid one.
pub fn rate(text: &str) -> Result<u64, ParseError> {
    let wrong = || ParseError::new("rate", text, "bits per second, for example 4mbit, 500kbit, 1gbit");
    let (number, unit) = split(text);
    let scale = match unit.strip_suffix("/s").unwrap_or(&unit) {
        "bit" => 1,
        "kbit" => 1_000,
        "mbit" => 1_000_000,
        "gbit" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    scaled(number, scale).filter(|rate| (1..=1_000_000_000_000).contains(rate)).ok_or_else(wrong)
}

/// The units of a duration with their nanoseconds, the longest first.
const DURATIONS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses a duration: `50ms`, `1.5s`, `250us`, `2min`; `0` needs no unit.
///
/// # Errors
/// The text is not a duration; the message shows a valid one.
pub fn duration(text: &str) -> Result<Duration, ParseError> {
    /// A century: more is a typing error.
    const LONGEST_NS: u64 = 3_200_000_000_000_000_000;
    let wrong =
        || ParseError::new("duration", text, "a number and a unit, for example 50ms, 1.5s, 250us, 2min");
    let (number, unit) = split(text);
    let scale = match unit.as_str() {
        "µs" => 1_000,
        "" if scaled(number, 1_000) == Some(0) => 0,
        unit => DURATIONS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
    };
    let nanos = scaled(number, scale).filter(|nanos| *nanos <= LONGEST_NS).ok_or_else(wrong)?;
    Ok(Duration::from_nanos(nanos))
}

/// Formats a duration as [`duration`] reads it, in the longest unit of which it is a whole number.
pub fn duration_text(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let fits = |(_, scale): &&(&str, u64)| nanos > 0 && nanos.is_multiple_of(u128::from(*scale));
    match DURATIONS.iter().find(fits) {
        Some((unit, scale)) => format!("{}{unit}", nanos / u128::from(*scale)),
        None => "0s".to_owned(),
    }
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

/// The units of a size with their bytes, the ones that are preferred when writing first.
const SIZES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Parses bytes: `64kB` or `64k` is 64,000, `64KiB` or `64Ki` is 65,536, and a bare number counts bytes. Case does not
/// matter.
///
/// # Errors
/// The text is not a size; the message shows a valid one.
pub fn bytes(text: &str) -> Result<u64, ParseError> {
    const MOST: u64 = 1_000_000_000_000_000_000;
    let wrong = || {
        ParseError::new("number of bytes", text, "for example 1500, 64k (64,000), 64Ki (65,536), 10M or 1G")
    };
    let (number, unit) = split(text);
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let named = |(name, _): &&(&str, u64)| name.trim_end_matches('B').eq_ignore_ascii_case(unit);
    let (_, scale) = SIZES.iter().find(named).ok_or_else(wrong)?;
    scaled(number, *scale).filter(|bytes| *bytes <= MOST).ok_or_else(wrong)
}

/// Parses bytes that fit into memory, as [`bytes()`] does.
///
/// # Errors
/// The text is not a size; the message shows a valid one.
pub fn size(text: &str) -> Result<usize, ParseError> {
    const MOST: u64 = 1_000_000_000_000;
    let fitting = bytes(text)?;
    usize::try_from(fitting).ok().filter(|_| fitting <= MOST).ok_or_else(|| {
        ParseError::new("size", text, "less, for example 1500, 64k (64,000), 64Ki (65,536) or 1M")
    })
}

/// Formats bytes as [`bytes()`] reads them, in the largest unit of which they are a whole number; binary units first.
pub fn bytes_text(bytes: u64) -> String {
    let fits = |(_, scale): &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(*scale);
    match SIZES.iter().find(fits) {
        Some((unit, scale)) => format!("{} {unit}", bytes / scale),
        None => "0 B".to_owned(),
    }
}

/// Parses a probability from 0 to 1: `5%` or `0.05`.
///
/// # Errors
/// The text is not a probability; the message shows a valid one.
pub fn probability(text: &str) -> Result<f64, ParseError> {
    let wrong = || ParseError::new("probability", text, "0% to 100%, for example 5% or 0.05");
    let (number, unit) = split(text);
    let number = number.parse::<f64>().map_err(|_| wrong())?;
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
        for nanos in [0, 1, 999, 1_500, 25_000_000, 86_400_000_000_000, 3_199_999_999_999_999_999] {
            let exact = Duration::from_nanos(nanos);
            assert_eq!(duration(&duration_text(exact)), Ok(exact), "{nanos}");
        }
        let texts = [90, 3_600, 86_400].map(|seconds| duration_text(Duration::from_secs(seconds)));
        assert_eq!(texts, ["90s", "1h", "24h"]);
    }

    #[test]
    fn sizes() {
        assert_eq!((size("64kb"), size("64KiB"), size("1500")), (Ok(64_000), Ok(65_536), Ok(1500)));
        assert_eq!((bytes("64Ki"), bytes("64k"), bytes("1.5MB")), (Ok(65_536), Ok(64_000), Ok(1_500_000)));
        assert_eq!(
            (bytes("4 MiB"), bytes("1G"), bytes("2t")),
            (Ok(4 << 20), Ok(1_000_000_000), Ok(2_000_000_000_000))
        );
        assert_eq!((bytes("1.5"), bytes(".5kB"), bytes("5.")), (Ok(2), Ok(500), Ok(5)));
        for bad in
            ["", ".", "B", "64 packets", "-1", "1e3", "1.2.3", "64bb", "99999999999999999999", "2000000T"]
        {
            assert!(bytes(bad).unwrap_err().to_string().contains("64Ki"), "{bad}");
        }
        assert!(size("2T").unwrap_err().to_string().contains("write less"));
        for exact in
            [0, 1, 1_472, 64_000, 65_536, 1 << 20, 10_000_000, (1 << 40) + 1, 999_999_999_999_999_999]
        {
            assert_eq!(bytes(&bytes_text(exact)), Ok(exact), "{}", bytes_text(exact));
        }
        assert_eq!([256, 65_536, 32 << 20, 64_000].map(bytes_text), ["256 B", "64 KiB", "32 MiB", "64 kB"]);
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
