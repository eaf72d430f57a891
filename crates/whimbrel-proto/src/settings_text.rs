//! Text forms of settings, for files and command lines. Each setting parses from the text it is displayed as.

use std::fmt;
use std::str::FromStr;

use crate::congestion::Congestion;
use crate::session::CreditPolicy;
use crate::units::{self, ParseError};
use crate::{CostPolicy, PrimaryRule, Quality, Repeats, Scheduling, Service, SuspendMode, Threshold};

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gauge => f.write_str("gauge"),
            Self::Cubic => f.write_str("cubic"),
            Self::Fixed { bytes_per_s } => {
                write!(f, "fixed:{}", units::rate_text(bytes_per_s.saturating_mul(8)))
            }
        }
    }
}

/// Parses `gauge`, `cubic`, or `fixed:RATE`, for example `fixed:2mbit`.
impl FromStr for Congestion {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once(':') {
            None if text == "gauge" => Ok(Self::Gauge),
            None if text == "cubic" => Ok(Self::Cubic),
            Some(("fixed", rate)) => {
                let bits = units::rate(rate)?;
                if bits < 8 {
                    return Err(ParseError::plain(format!(
                        "`{rate}` is less than a byte a second: write for example fixed:2mbit"
                    )));
                }
                Ok(Self::Fixed { bytes_per_s: bits / 8 })
            }
            _ => Err(ParseError::new(
                "congestion control",
                text,
                "gauge, cubic or fixed:RATE, for example fixed:2mbit",
            )),
        }
    }
}

impl fmt::Display for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive => f.write_str("auto"),
            Self::Fixed(times) => write!(f, "{times}"),
        }
    }
}

/// Parses `auto`, or a number from 0 to 255.
impl FromStr for Repeats {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text == "auto" {
            return Ok(Self::Adaptive);
        }
        text.parse()
            .map(Self::Fixed)
            .map_err(|_| ParseError::new("number of repeats", text, "auto, or 0 to 255"))
    }
}

impl fmt::Display for CostPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ignore => f.write_str("ignore"),
            Self::CheapFirst => f.write_str("cheap-first"),
            Self::NeverAbove(most) => write!(f, "never-above={most}"),
            Self::Ask => f.write_str("ask"),
        }
    }
}

/// Parses `ignore`, `cheap-first`, `never-above=N` or `ask`.
impl FromStr for CostPolicy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || {
            ParseError::new(
                "cost policy",
                text,
                "ignore, cheap-first, ask or never-above=N, N a whole number",
            )
        };
        match (text, text.strip_prefix("never-above=")) {
            ("ignore", _) => Ok(Self::Ignore),
            ("cheap-first", _) => Ok(Self::CheapFirst),
            ("ask", _) => Ok(Self::Ask),
            (_, Some(most)) => most.parse().map(Self::NeverAbove).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// Implements the text form of a setting that is one of several words, each of which may have a short form to read.
macro_rules! words {
    ($type:ident, $what:literal, $good:literal, { $($variant:ident = $word:literal $(or $short:literal)?),* $(,)? }) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),* })
            }
        }

        #[doc = $good]
        impl FromStr for $type {
            type Err = ParseError;

            fn from_str(text: &str) -> Result<Self, ParseError> {
                match text {
                    $($word $(| $short)? => Ok(Self::$variant),)*
                    _ => Err(ParseError::new($what, text, $good)),
                }
            }
        }
    };
}

words!(Scheduling, "scheduler", "primary, aggregate or redundant", {
    Primary = "primary",
    Aggregate = "aggregate",
    Redundant = "redundant",
});

words!(PrimaryRule, "rule for the primary path", "loss-and-rtt or most-received", {
    LossAndRtt = "loss-and-rtt",
    MostReceived = "most-received",
});

words!(Service, "service", "reliable-sequenced, reliable-unsequenced, unreliable-sequenced or unreliable-unsequenced; rs, ru, us or uu for short", {
    ReliableSequenced = "reliable-sequenced" or "rs",
    ReliableUnsequenced = "reliable-unsequenced" or "ru",
    UnreliableSequenced = "unreliable-sequenced" or "us",
    UnreliableUnsequenced = "unreliable-unsequenced" or "uu",
});

words!(SuspendMode, "way to suspend", "flush or snapshot", {
    Flush = "flush",
    Snapshot = "snapshot",
});

impl fmt::Display for CreditPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait => f.write_str("wait"),
            Self::Latest { unread } => write!(f, "latest:{unread}"),
        }
    }
}

/// Parses `wait`, or `latest:N` with the number of messages to keep.
impl FromStr for CreditPolicy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new("credit policy", text, "wait, or latest:N, N at least 1");
        match text.split_once(':') {
            None if text == "wait" => Ok(Self::Wait),
            Some(("latest", unread)) => {
                let unread = unread.parse().ok().filter(|unread| *unread > 0).ok_or_else(wrong)?;
                Ok(Self::Latest { unread })
            }
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rtt(rtt) => write!(f, "rtt:{}", units::duration_text(*rtt)),
            Self::Loss(thousandths) => {
                write!(f, "loss:{}", units::percent(f64::from(*thousandths) / 1000.0))
            }
            Self::Rate(bytes_per_s) => write!(f, "rate:{}", units::rate_text(bytes_per_s.saturating_mul(8))),
            Self::Queue(bytes) => write!(f, "queue:{}", units::bytes_text(*bytes)),
        }
    }
}

/// Parses a figure and its level: `rtt:250ms`, `loss:5%`, `rate:2mbit` or `queue:1MiB`.
impl FromStr for Quality {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once(':') {
            Some(("rtt", level)) => units::duration(level).map(Self::Rtt),
            Some(("loss", level)) => {
                units::probability(level).map(|loss| Self::Loss((loss * 1000.0).round() as u16))
            }
            Some(("rate", level)) => units::rate(level).map(|bits| Self::Rate(bits / 8)),
            Some(("queue", level)) => units::bytes(level).map(Self::Queue),
            _ => {
                Err(ParseError::new("figure to watch", text, "rtt:250ms, loss:5%, rate:2mbit or queue:1MiB"))
            }
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.quality)?;
        if self.hysteresis == Self::new(self.quality).hysteresis {
            return Ok(());
        }
        write!(f, ",hysteresis={}%", self.hysteresis)
    }
}

/// Parses a figure and its level, and a hysteresis if it is not the default one: `rtt:250ms`, `loss:5%,hysteresis=50%`.
impl FromStr for Threshold {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let Some((quality, option)) = text.split_once(',') else { return Ok(Self::new(text.parse()?)) };
        let percent =
            option.strip_prefix("hysteresis=").and_then(|share| share.strip_suffix('%')?.parse().ok());
        match percent.filter(|percent| *percent <= 100) {
            Some(hysteresis) => Ok(Self { quality: quality.parse()?, hysteresis }),
            None => Err(ParseError::new("hysteresis", option, "for example hysteresis=20%")),
        }
    }
}

/// Serializes settings as the text they are displayed as. A number or truth value is read as if it were text, in formats
/// that people write.
#[doc(hidden)]
#[macro_export]
macro_rules! serde_as_text {
    ($($type:ty),* $(,)?) => {
        $(
            #[cfg(feature = "serde")]
            impl serde::Serialize for $type {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_str(self)
                }
            }

            #[cfg(feature = "serde")]
            impl<'de> serde::Deserialize<'de> for $type {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    $crate::units::as_text::parsed(deserializer)
                }
            }
        )*
    };
}

serde_as_text!(
    Congestion,
    Repeats,
    CostPolicy,
    Scheduling,
    PrimaryRule,
    Service,
    SuspendMode,
    CreditPolicy,
    Quality,
    Threshold,
    crate::crypto::PublicKey,
    crate::Url
);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn comes_back<T: FromStr<Err = ParseError> + fmt::Display + PartialEq + fmt::Debug>(setting: T) {
        assert_eq!(setting.to_string().parse(), Ok(setting));
    }

    #[test]
    fn settings_come_back_from_their_text() {
        [Congestion::Gauge, Congestion::Cubic, Congestion::Fixed { bytes_per_s: 250_000 }]
            .into_iter()
            .for_each(comes_back);
        [Repeats::Adaptive, Repeats::Fixed(0), Repeats::Fixed(255)].into_iter().for_each(comes_back);
        [CostPolicy::Ignore, CostPolicy::CheapFirst, CostPolicy::NeverAbove(7), CostPolicy::Ask]
            .into_iter()
            .for_each(comes_back);
        [Scheduling::Primary, Scheduling::Aggregate, Scheduling::Redundant].into_iter().for_each(comes_back);
        [PrimaryRule::LossAndRtt, PrimaryRule::MostReceived].into_iter().for_each(comes_back);
        Service::ALL.into_iter().for_each(comes_back);
        assert_eq!(Service::ALL.map(|service| service.short().parse()), Service::ALL.map(Ok));
        [SuspendMode::Flush, SuspendMode::Snapshot].into_iter().for_each(comes_back);
        [CreditPolicy::Wait, CreditPolicy::Latest { unread: 7 }].into_iter().for_each(comes_back);
        let figures = [
            Quality::Rtt(Duration::from_micros(1_500)),
            Quality::Loss(25),
            Quality::Rate(250_000),
            Quality::Queue(1 << 20),
        ];
        figures.into_iter().for_each(comes_back);
        figures.map(Threshold::new).into_iter().for_each(comes_back);
        figures.map(|quality| Threshold { quality, hysteresis: 50 }).into_iter().for_each(comes_back);
        assert_eq!(Threshold::new(Quality::Loss(25)).to_string(), "loss:2.5%");
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let says = |error: ParseError, good: &str| assert!(error.to_string().contains(good), "{error}");
        says("reno".parse::<Congestion>().unwrap_err(), "cubic");
        says("fixed:fast".parse::<Congestion>().unwrap_err(), "4mbit");
        says("fixed:7bit".parse::<Congestion>().unwrap_err(), "fixed:2mbit");
        says("-1".parse::<Repeats>().unwrap_err(), "auto");
        says("never-above=much".parse::<CostPolicy>().unwrap_err(), "whole number");
        says("latest:0".parse::<CreditPolicy>().unwrap_err(), "latest:N");
        says("rtt".parse::<Quality>().unwrap_err(), "rtt:250ms");
        says("rtt:soon".parse::<Threshold>().unwrap_err(), "50ms");
        says("rtt:1s,hysteresis=101%".parse::<Threshold>().unwrap_err(), "hysteresis=20%");
        says("sr".parse::<Service>().unwrap_err(), "rs, ru, us or uu");
        says("fastest".parse::<Scheduling>().unwrap_err(), "aggregate");
    }
}
