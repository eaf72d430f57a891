//! The differentiated services code point of packets (RFC 2474).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A DSCP, 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Dscp(u8);

/// A text that is no DSCP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a DSCP: write a number from 0 to 63, or cs0 to cs7, af11 to af43, ef, va or le")]
pub struct InvalidDscp(String);

impl Dscp {
    /// Returns the DSCP in a traffic class, the byte that IPv4 calls type of service.
    pub fn of_traffic_class(byte: u8) -> Self {
        Self(byte >> 2)
    }
}

impl FromStr for Dscp {
    type Err = InvalidDscp;

    fn from_str(text: &str) -> Result<Self, InvalidDscp> {
        named(&text.to_ascii_lowercase())
            .or_else(|| text.parse().ok())
            .filter(|value| *value < 64)
            .map(Self)
            .ok_or_else(|| InvalidDscp(text.chars().take(300).collect()))
    }
}

/// The names of RFC 2474, 2597, 3246, 5865 and 8622.
fn named(name: &str) -> Option<u8> {
    match (name, name.as_bytes()) {
        ("ef", _) => Some(46),
        ("va", _) => Some(44),
        ("le", _) => Some(1),
        (_, [b'c', b's', class @ b'0'..=b'7']) => Some((class - b'0') * 8),
        (_, [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3']) => {
            Some((class - b'0') * 8 + (drop - b'0') * 2)
        }
        _ => None,
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_read() {
        for (text, value) in
            [("0", 0), ("63", 63), ("ef", 46), ("EF", 46), ("cs6", 48), ("af41", 34), ("af13", 14), ("le", 1)]
        {
            assert_eq!(text.parse(), Ok(Dscp(value)), "{text}");
        }
        for wrong in ["64", "-1", "af44", "af51", "cs8", "", "best effort"] {
            assert!(wrong.parse::<Dscp>().is_err(), "{wrong}");
        }
        assert_eq!(Dscp::of_traffic_class(0xb8 | 3), Dscp(46));
    }
}
