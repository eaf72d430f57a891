//! A bridge as it is configured.

use std::fmt;
use std::time::Duration;

use super::super::codec::Version;
use super::hops::Hop;
use super::rule::BridgeRule;
use crate::tls::{ClientTls, TlsError};

/// The version of MQTT that a bridge speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BridgeVersion {
    /// 5, or 3.1.1 if the other side knows no other.
    #[default]
    Newest,
    /// 3.1.1.
    V3,
}

/// A bridge to a broker of others.
#[derive(Clone)]
pub struct BridgePlan {
    /// Its name.
    pub name: String,
    /// The host of the other side.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The files for TLS. `None`: no TLS.
    pub tls: Option<ClientTls>,
    /// The user and the password that the other side is shown.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The client identifier.
    pub client: String,
    /// The version.
    pub version: BridgeVersion,
    /// The time without a packet after which the other side is pinged.
    pub keep_alive: Duration,
    /// How long the other side is to keep what it has for this one.
    pub session: Duration,
    /// The rules for messages to the other side.
    pub out: Vec<BridgeRule>,
    /// The rules for messages from it.
    pub from: Vec<BridgeRule>,
}

impl BridgePlan {
    /// Reads the files.
    ///
    /// # Errors
    /// One cannot be used. The error names the setting.
    pub fn check(&self) -> Result<(), TlsError> {
        self.tls.as_ref().map_or(Ok(()), |files| files.load().map(drop))
    }

    pub(super) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "mqtts" } else { "mqtt" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }

    /// The other side, as hops name it.
    pub(super) fn hop(&self) -> Hop {
        Hop::of(&format!("{}:{}", self.host, self.port))
    }

    pub(super) fn first_version(&self) -> Version {
        match self.version {
            BridgeVersion::Newest => Version::V5,
            BridgeVersion::V3 => Version::V3,
        }
    }
}

impl fmt::Debug for BridgePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BridgePlan")
            .field("name", &self.name)
            .field("url", &self.url())
            .finish_non_exhaustive()
    }
}
