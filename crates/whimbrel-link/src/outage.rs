//! Times at which the link is down.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use whimbrel_proto::Time;

use super::exponential;
use crate::units::{self, ParseError};

const EXAMPLES: &str = "`5s on 2s off` (or 5s/2s), `exp:60s/5s`, `at 10s for 5s`, or several joined by `+`: \
                        `at 10s for 5s + at 30s for 1s`";

/// When the link is down, counted from the start of its clock.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Outage {
    /// The link is never down.
    #[default]
    Never,
    /// Up for `on`, then down for `off`, repeatedly. Written `5s on 2s off` or `5s/2s`.
    Periodic {
        /// How long it stays up. It starts up.
        on: Duration,
        /// How long it stays down.
        off: Duration,
    },
    /// Up and down for exponentially distributed times with these means. Written `exp:60s/5s`.
    Exponential {
        /// The mean time up. It starts up.
        on: Duration,
        /// The mean time down.
        off: Duration,
    },
    /// Down in these windows. Written `at 10s for 5s`, several joined by `+`.
    Scheduled(Vec<Window>),
}

/// One outage of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// When it begins, from the start of the link's clock.
    pub at: Duration,
    /// How long it lasts.
    pub length: Duration,
}

impl Window {
    fn covers(self, now: Time) -> bool {
        let now = now.since(Time::ZERO);
        self.at <= now && now < self.at.saturating_add(self.length)
    }
}

impl FromStr for Outage {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let text = text.trim();
        let wrong = || ParseError::new("outage", text, EXAMPLES);
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self::Never);
        }
        if let Some(means) = text.strip_prefix("exp:") {
            let (on, off) = on_off(means).ok_or_else(wrong)?;
            return Ok(Self::Exponential { on, off });
        }
        if text.starts_with("at") {
            return text.split('+').map(window).collect::<Option<_>>().map(Self::Scheduled).ok_or_else(wrong);
        }
        let (on, off) = on_off(text).ok_or_else(wrong)?;
        Ok(Self::Periodic { on, off })
    }
}

fn on_off(text: &str) -> Option<(Duration, Duration)> {
    let text = text.trim();
    let (on, off) = text.split_once('/').or_else(|| text.strip_suffix("off")?.split_once("on"))?;
    Some((units::positive_duration(on).ok()?, units::positive_duration(off).ok()?))
}

fn window(text: &str) -> Option<Window> {
    let (at, length) = text.trim().strip_prefix("at")?.split_once("for")?;
    Some(Window { at: units::duration(at).ok()?, length: units::positive_duration(length).ok()? })
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("none"),
            Self::Periodic { on, off } => write!(f, "{on:?} on {off:?} off"),
            Self::Exponential { on, off } => write!(f, "exp:{on:?}/{off:?}"),
            Self::Scheduled(windows) => {
                let windows: Vec<_> = windows
                    .iter()
                    .map(|window| format!("at {:?} for {:?}", window.at, window.length))
                    .collect();
                f.write_str(&windows.join(" + "))
            }
        }
    }
}

/// The state of an exponential outage; the other kinds need none.
#[derive(Debug)]
pub(crate) struct OutageState {
    dice: ChaCha8Rng,
    down: bool,
    until: Option<Time>,
}

impl OutageState {
    pub(crate) fn new(dice: ChaCha8Rng) -> Self {
        Self { dice, down: false, until: None }
    }

    /// Returns whether the link is down at `now`, which must not run backwards.
    pub(crate) fn is_down(&mut self, outage: &Outage, now: Time) -> bool {
        match outage {
            Outage::Never => false,
            Outage::Periodic { on, off } => {
                let period = on.as_nanos() + off.as_nanos();
                period > 0 && u128::from(now.as_nanos()) % period >= on.as_nanos()
            }
            Outage::Exponential { on, off } => self.advance(*on, *off, now),
            Outage::Scheduled(windows) => windows.iter().any(|window| window.covers(now)),
        }
    }

    fn advance(&mut self, on: Duration, off: Duration, now: Time) -> bool {
        let mut until = self.until.unwrap_or_else(|| Time::ZERO + exponential(&mut self.dice, on));
        while until <= now {
            self.down = !self.down;
            // With two times of zero, this would never end.
            until +=
                exponential(&mut self.dice, if self.down { off } else { on }).max(Duration::from_nanos(1));
        }
        self.until = Some(until);
        self.down
    }
}
