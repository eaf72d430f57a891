//! The address of the dashboard, and who may see it.

use std::fmt;
use std::net::SocketAddr;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::with_port::{WithPort, required};

/// The address of the dashboard, and the names under which browsers may ask for it.
///
/// In a configuration file, these are a section, or the address alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DashboardOptions {
    /// The address. Anyone who can reach it sees the dashboard.
    pub address: SocketAddr,
    /// The names by which browsers may ask for it, besides `localhost` and IP addresses. Default: none. A page of another site that has its
    /// own name point here is refused.
    pub hosts: Vec<String>,
}

impl DashboardOptions {
    /// Serves it on this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, hosts: Vec::new() }
    }

    /// Sets [`hosts`](field@DashboardOptions::hosts).
    #[must_use]
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = String>) -> Self {
        self.hosts = hosts.into_iter().collect();
        self
    }
}

impl<'de> Deserialize<'de> for DashboardOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AddressOrSection)
    }
}

struct AddressOrSection;

impl<'de> Visitor<'de> for AddressOrSection {
    type Value = DashboardOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address with a port in quotation marks, or a section with an `address`")
    }

    fn visit_str<E: Error>(self, address: &str) -> Result<DashboardOptions, E> {
        let WithPort(address) = address.parse().map_err(E::custom)?;
        Ok(DashboardOptions::new(address))
    }

    fn visit_map<A: MapAccess<'de>>(self, section: A) -> Result<DashboardOptions, A::Error> {
        let Section { address, hosts } = Section::deserialize(MapAccessDeserializer::new(section))?;
        Ok(DashboardOptions { address, hosts })
    }
}

/// The options as a section of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    #[serde(deserialize_with = "required")]
    address: SocketAddr,
    #[serde(default)]
    hosts: Vec<String>,
}
