//! Text forms of settings, for files and command lines. Each setting parses from the text it is displayed as.

use std::fmt;
use std::str::FromStr;

use crate::congestion::Congestion;
use crate::units::{self, ParseError};
use crate::{CostPolicy, PrimaryRule, Repeats, Scheduling, Service};

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

/// Implements the text form of a setting that is one of several words.
macro_rules! words {
    ($type:ident, $what:literal, $good:literal, { $($variant:ident = $word:literal),* $(,)? }) => {
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
                    $($word => Ok(Self::$variant),)*
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

words!(Service, "service", "reliable-sequenced, reliable-unsequenced, unreliable-sequenced or unreliable-unsequenced", {
    ReliableSequenced = "reliable-sequenced",
    ReliableUnsequenced = "reliable-unsequenced",
    UnreliableSequenced = "unreliable-sequenced",
    UnreliableUnsequenced = "unreliable-unsequenced",
});

/// Serializes settings as the text they are displayed as.
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
                    let text: std::borrow::Cow<'de, str> = serde::Deserialize::deserialize(deserializer)?;
                    text.parse().map_err(serde::de::Error::custom)
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
    crate::crypto::PublicKey,
    crate::Url
);

#[cfg(test)]
mod tests {
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
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let says = |error: ParseError, good: &str| assert!(error.to_string().contains(good), "{error}");
        says("reno".parse::<Congestion>().unwrap_err(), "cubic");
        says("fixed:fast".parse::<Congestion>().unwrap_err(), "4mbit");
        says("fixed:7bit".parse::<Congestion>().unwrap_err(), "fixed:2mbit");
        says("-1".parse::<Repeats>().unwrap_err(), "auto");
        says("never-above=much".parse::<CostPolicy>().unwrap_err(), "whole number");
        says("fastest".parse::<Scheduling>().unwrap_err(), "aggregate");
    }
}
