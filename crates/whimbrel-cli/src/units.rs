//! Parses quantities on the command line.

use std::net::SocketAddr;
use std::time::Duration;

use whimbrel::units;

/// Parses a duration: `30`, `1.5s`, `200ms`. A bare number counts seconds.
///
/// # Errors
/// The text is invalid; the message shows a valid one.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    if let Some(time) = seconds {
        return Ok(time);
    }
    units::duration(text).map_err(|error| error.to_string())
}

/// Parses an address of this host and a port: `0.0.0.0:4433`, `[::]:0`.
///
/// # Errors
/// The text is invalid; the message shows a valid one.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is not an address and a port: write for example 0.0.0.0:4433 or [::]:0")
    })
}

/// Parses a time to wait: as [`time`], above 0 and up to a week.
///
/// # Errors
/// The text is invalid; the message shows a valid one.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    const WEEK: Duration = Duration::from_secs(7 * 86_400);
    let time = time(text)?;
    if time.is_zero() || time > WEEK {
        return Err(format!(
            "`{text}` is not a time above 0 and up to a week: write seconds, for example 30"
        ));
    }
    Ok(time)
}

/// Parses a duration: `500`, `500ms`, `2s`. A bare number counts milliseconds.
///
/// # Errors
/// The text is invalid; the message shows a valid one.
pub(crate) fn millis(text: &str) -> Result<Duration, String> {
    text.parse().map(Duration::from_millis).or_else(|_| time(text))
}

/// Parses a number of bytes: `1200`, `64k` (64,000), `64Ki` (65,536), `10M`, `1G`. A trailing B is ignored.
///
/// # Errors
/// The text is invalid; the message shows a valid one.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    units::bytes(text).map_err(|error| error.to_string())
}

/// Parses a tag, a number that fits into a variable-length integer.
///
/// # Errors
/// The text is invalid; the message gives the largest tag.
pub(crate) fn tag(text: &str) -> Result<u64, String> {
    const LARGEST: u64 = (1 << 62) - 1;
    let tag = text.parse().ok().filter(|tag| *tag <= LARGEST);
    tag.ok_or_else(|| {
        format!("`{text}` is not a tag: write a whole number from 0 to {LARGEST}, which is 2^62 - 1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        assert_eq!(time("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(millis("500"), Ok(Duration::from_millis(500)));
        assert_eq!(millis("2s"), Ok(Duration::from_secs(2)));
        assert_eq!((bytes("64Ki"), bytes("1.5MB"), bytes("7")), (Ok(65_536), Ok(1_500_000), Ok(7)));
    }

    #[test]
    fn mistakes_say_what_to_write() {
        assert!(time("soon").unwrap_err().contains("50ms"));
        assert!(bytes("many").unwrap_err().contains("64k"));
        assert!(["0", "1e18", "-1", "inf"].iter().all(|text| wait(text).is_err()));
        for wrong in ["4611686018427387904", "18446744073709551615", "-1", "seven"] {
            assert!(tag(wrong).unwrap_err().contains("to 4611686018427387903"), "{wrong}");
        }
        assert_eq!(tag("4611686018427387903"), Ok(4_611_686_018_427_387_903));
    }
}
