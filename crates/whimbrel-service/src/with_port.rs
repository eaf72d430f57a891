//! An address with a port in a configuration file.

use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use whimbrel::units::{ParseError, as_text};

/// An address with a port, whose error shows how to write one.
pub(crate) struct WithPort(pub(crate) SocketAddr);

impl FromStr for WithPort {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let good = "for example 192.0.2.7:4433 or [::]:4433, in quotation marks";
        text.parse().map(Self).map_err(|_| ParseError::new("address with a port", text, good))
    }
}

impl<'de> Deserialize<'de> for WithPort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        as_text::parsed(deserializer)
    }
}

/// Reads the address of a setting that may be left out.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    WithPort::deserialize(deserializer).map(|WithPort(address)| Some(address))
}

/// Reads the address of a setting that has to be there.
pub(crate) fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    WithPort::deserialize(deserializer).map(|WithPort(address)| address)
}
