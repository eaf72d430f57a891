//! Ranges of ports.

use std::fmt;
use std::str::FromStr;

/// A port, a range of ports (`8000-8080`), any (`*`), or none, for ICMP (`icmp`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// All ports.
    pub const ANY: Self = Self { first: 1, last: u16::MAX };

    /// No port: ICMP has none, and counts as port 0.
    pub const ICMP: Self = Self { first: 0, last: 0 };

    /// Returns whether this port is among them.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Returns the port, if it is only one.
    pub(super) fn single(self) -> Option<u16> {
        (self.first == self.last).then_some(self.first)
    }

    /// Returns whether all of `other` are among them.
    pub fn covers(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl FromStr for Ports {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "*" {
            return Ok(Self::ANY);
        }
        if text == "icmp" {
            return Ok(Self::ICMP);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0).ok_or(());
        let (first, last) = (port(first)?, port(last)?);
        if first <= last { Ok(Self { first, last }) } else { Err(()) }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ANY => f.write_str("*"),
            Self::ICMP => f.write_str("icmp"),
            Self { first, last } if first == last => write!(f, "{first}"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}
