//! The settings of a store's promises.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The settings of a store.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// The settings of each log.
    pub log: LogSettings,
    /// The interval at which coverage of durable subscriptions is written. Default: 1 s. Raised, a crash repeats more to subscribers without a state
    /// of their own.
    pub cursor_every: Duration,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self { log: LogSettings::default(), cursor_every: Duration::from_secs(1) }
    }
}

/// The settings of a log.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// The promise that an acknowledgement gives. Default: always.
    pub sync: Sync,
    /// The length at which a segment is full, bytes; 4 KiB to 1 GiB. Default: 64 MiB. Raised, space comes back later, and a start
    /// after a crash reads more.
    pub segment_bytes: u32,
    /// The most bytes that wait to be written; at most 32 MiB. Default: 8 MiB. Beyond, appends are refused as busy.
    pub most_queued: usize,
    /// The most bytes of all segments. Default: no bound. Beyond, the oldest full segments go even if a subscription wants them.
    pub max_bytes: Option<u64>,
    /// The longest time that a message is kept. Default: no bound. It goes with its segment.
    pub max_age: Option<Duration>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            sync: Sync::Always,
            segment_bytes: 64 << 20,
            most_queued: 8 << 20,
            max_bytes: None,
            max_age: None,
        }
    }
}

/// The moment at which an append counts as done. Default: always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// When it is on disk. A power failure loses nothing acknowledged.
    #[default]
    Always,
    /// When the operating system has it, which writes it to disk within this time. A power failure loses at most what was acknowledged in it; a crash
    /// of the broker loses nothing.
    Interval(Duration),
    /// When the operating system has it, which writes it when it likes. A full segment is synchronised all the same.
    Never,
}

/// Why a text says no [`Sync`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a way to synchronise; write \"always\", \"never\" or \"interval 100ms\"")]
pub struct ParseSyncError(String);

/// The shortest and the longest interval, milliseconds.
const INTERVALS: std::ops::RangeInclusive<u64> = 1..=60_000;

impl FromStr for Sync {
    type Err = ParseSyncError;

    /// Reads `always`, `never`, `interval 100ms` or `interval 2s`; 1 ms to 60 s.
    fn from_str(text: &str) -> Result<Self, ParseSyncError> {
        let words: Vec<_> = text.split_whitespace().collect();
        let interval = |text: &str| {
            let (number, factor) = match text.strip_suffix("ms") {
                Some(number) => (number, 1),
                None => (text.strip_suffix('s')?, 1_000),
            };
            let millis = number.parse::<u64>().ok()?.checked_mul(factor)?;
            INTERVALS.contains(&millis).then(|| Self::Interval(Duration::from_millis(millis)))
        };
        let found = match words[..] {
            ["always"] => Some(Self::Always),
            ["never"] => Some(Self::Never),
            ["interval", time] => interval(time),
            _ => None,
        };
        found.ok_or_else(|| ParseSyncError(text.chars().take(64).collect()))
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Interval(time) => write!(f, "interval {}ms", time.as_millis()),
            Self::Never => f.write_str("never"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_to_synchronise_is_read_and_written() {
        for text in ["always", "never", "interval 1ms", "interval 60000ms"] {
            assert_eq!(text.parse::<Sync>().unwrap().to_string(), text);
        }
        assert_eq!("interval 2s".parse(), Ok(Sync::Interval(Duration::from_secs(2))));
        for text in [
            "",
            "Always",
            "interval",
            "interval 0ms",
            "interval 61s",
            "interval 1",
            "interval -1s",
            "interval 99999999999999999999s",
        ] {
            let error = text.parse::<Sync>().unwrap_err().to_string();
            assert!(error.contains("interval 100ms") && error.starts_with('"'), "{error}");
        }
    }
}
