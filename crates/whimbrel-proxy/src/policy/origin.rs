//! The origin of a flow: its way in, its interface, and its DSCP. What a way in cannot know is
//! unknown, and no rule that asks for it matches.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::dscp::Dscp;

/// A way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WayIn {
    /// SOCKS5.
    Socks,
    /// HTTP CONNECT.
    Connect,
    /// A fixed forward.
    Forward,
    /// Interception by TPROXY.
    Tproxy,
    /// Interception by a TUN device.
    Tun,
}

/// Everything known about how a flow came in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The way in.
    pub by: Option<WayIn>,
    /// The interface that its packets arrive on; `lo` for programs of this host.
    pub interface: Option<Box<str>>,
    /// The DSCP of its packets (RFC 2474).
    pub dscp: Option<Dscp>,
}

/// A text that is no way in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a way in: write socks, connect, forward, tproxy or tun")]
pub struct InvalidWayIn(String);

/// Interfaces: one by its name, or all whose names begin so (`eth*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interfaces {
    name: String,
    any_end: bool,
}

/// A text that names no interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no interface: write for example `eth0`, or `wlan*` for all with that prefix")]
pub struct InvalidInterfaces(String);

/// The longest name of an interface, in Linux.
const LONGEST: usize = 15;

impl WayIn {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Socks, "socks"),
        (Self::Connect, "connect"),
        (Self::Forward, "forward"),
        (Self::Tproxy, "tproxy"),
        (Self::Tun, "tun"),
    ];

    /// Returns whether it knows on which interface packets arrive, and their DSCP.
    pub fn sees_packets(self) -> bool {
        matches!(self, Self::Tproxy | Self::Tun)
    }
}

impl fmt::Display for WayIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL.iter().find(|(way, _)| way == self).map_or("", |(_, name)| name))
    }
}

impl FromStr for WayIn {
    type Err = InvalidWayIn;

    fn from_str(text: &str) -> Result<Self, InvalidWayIn> {
        let known = Self::ALL.iter().find(|(_, name)| *name == text);
        known.map(|(way, _)| *way).ok_or_else(|| InvalidWayIn(text.chars().take(300).collect()))
    }
}

impl Origin {
    /// Creates a flow that came in by this way.
    pub fn by(way: WayIn) -> Self {
        Self { by: Some(way), ..Self::default() }
    }
}

impl Interfaces {
    /// Returns whether this interface is among them.
    pub fn contain(&self, interface: &str) -> bool {
        if self.any_end { interface.starts_with(&self.name) } else { interface == self.name }
    }

    /// Returns whether all of `other` are among them.
    pub fn cover(&self, other: &Self) -> bool {
        self.any_end && other.name.starts_with(&self.name) || self == other
    }
}

impl FromStr for Interfaces {
    type Err = InvalidInterfaces;

    fn from_str(text: &str) -> Result<Self, InvalidInterfaces> {
        let (name, any_end) = text.strip_suffix('*').map_or((text, false), |begin| (begin, true));
        let is_name = name.len() <= LONGEST
            && (any_end || !name.is_empty())
            && name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'*'));
        match is_name {
            true => Ok(Self { name: name.to_owned(), any_end }),
            false => Err(InvalidInterfaces(text.chars().take(300).collect())),
        }
    }
}

impl fmt::Display for Interfaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.any_end { "*" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_and_ways_in_are_read_as_they_are_shown() {
        for text in ["eth0", "wlan*", "*", "br-lan.7"] {
            assert_eq!(text.parse::<Interfaces>().unwrap().to_string(), text);
        }
        for wrong in ["", "a b", "eth*0", "a/b", "sixteen-letters-"] {
            assert!(wrong.parse::<Interfaces>().is_err(), "{wrong}");
        }
        for (way, name) in WayIn::ALL {
            assert_eq!((name.parse(), way.to_string().as_str()), (Ok(way), name));
        }
        assert!("http".parse::<WayIn>().is_err());
    }

    #[test]
    fn a_begin_covers_what_begins_so() {
        let of = |text: &str| text.parse::<Interfaces>().unwrap();
        assert!(of("eth*").contain("eth1") && !of("eth*").contain("wlan0") && !of("eth").contain("eth1"));
        assert!(of("*").cover(&of("eth*")) && of("eth*").cover(&of("eth0")) && of("eth0").cover(&of("eth0")));
        assert!(!of("eth0").cover(&of("eth*")) && !of("eth*").cover(&of("e*")));
    }
}
