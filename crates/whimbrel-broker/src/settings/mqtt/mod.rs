//! Clients of MQTT in a file.

mod tls;
mod user;
mod websocket;

use std::net::SocketAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};
use whimbrel::units::as_text;

pub use tls::TlsSection;
pub use user::UserSection;
pub use websocket::WebSocketSection;

use super::client::OtherClients;
use super::error::SettingsError;
use crate::gateway::mqtt::{Limits, Rules, TlsFiles, WebSocket};

/// The shortest limit for packets, bytes: longer topics than this are rare.
const LEAST_PACKET: u64 = 1 << 10;
/// The longest packet of the protocol, bytes.
const LONGEST_PACKET: u64 = (256 << 20) - 1;

/// The addresses for MQTT 3.1.1 and 5 clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MqttSection {
    /// The address and port, such as `127.0.0.1:1883`. Default: none, so that there is no MQTT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Everyone who reaches the address and names no user may do what `[other_clients]` lists. Default: no.
    pub anonymous: bool,
    /// The longest packet of a client. Default: 1 MiB.
    #[serde(with = "as_text::bytes")]
    pub max_packet: u64,
    /// Connections at a time. Default: 10,000.
    pub max_connections: usize,
    /// Connections at a time from one IPv4 address or 64 bits of IPv6. Default: 5,000.
    pub max_connections_per_address: usize,
    /// Attempts to connect a second from one IPv4 address or 64 bits of IPv6. Those of two seconds may come together. Default: 1,000.
    pub max_attempts_per_address: u32,
    /// Subscriptions of one client. Default: 1,000.
    pub max_subscriptions: usize,
    /// TLS. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSection>,
    /// WebSocket.
    pub websocket: WebSocketSection,
    /// The users.
    #[serde(rename = "user", skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserSection>,
}

/// The service for MQTT clients.
#[derive(Debug)]
pub struct MqttPlan {
    /// The addresses, in the order of the file.
    pub doors: Vec<MqttDoor>,
    /// The files for TLS.
    pub tls: Option<TlsFiles>,
    /// WebSocket, where a door has it.
    pub websocket: WebSocket,
    /// The rules for clients.
    pub rules: Rules,
    /// The limits.
    pub limits: Limits,
}

/// An address at which clients of MQTT come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MqttDoor {
    /// The address and port.
    pub address: SocketAddr,
    /// Whether it has TLS.
    pub has_tls: bool,
    /// Whether it has WebSocket.
    pub has_websocket: bool,
}

impl Default for MqttSection {
    fn default() -> Self {
        let Limits {
            max_packet,
            max_connections,
            max_connections_per_address,
            max_attempts_per_address,
            max_subscriptions,
        } = Limits::default();
        Self {
            address: None,
            anonymous: false,
            max_packet: max_packet as u64,
            max_connections,
            max_connections_per_address,
            max_attempts_per_address,
            max_subscriptions,
            tls: None,
            websocket: WebSocketSection::default(),
            users: Vec::new(),
        }
    }
}

impl MqttSection {
    /// Has relative paths begin at `folder`, the one of the file.
    pub fn relative_to(&mut self, folder: &Path) {
        if let Some(tls) = &mut self.tls {
            tls.relative_to(folder);
        }
    }

    /// Returns how clients are served; `None` if there is no MQTT.
    pub(super) fn plan(&self, others: Option<&OtherClients>) -> Result<Option<MqttPlan>, SettingsError> {
        let doors = self.doors()?;
        let Some(MqttDoor { address, .. }) = doors.first() else { return Ok(None) };
        if !self.anonymous && self.users.is_empty() {
            return Err(SettingsError::MqttNobody(*address));
        }
        let mut rules = Rules::default();
        if self.anonymous {
            rules.anonymous = Some(others.ok_or(SettingsError::MqttNothing)?.permissions());
        }
        for user in self.users.iter().cloned() {
            user.enter(&mut rules)?;
        }
        let tls = self.tls.as_ref().map(TlsSection::files).transpose()?;
        let has_authority = tls.as_ref().is_some_and(|files| files.client_ca.is_some());
        if !rules.certificates.is_empty() && !has_authority {
            return Err(SettingsError::MqttNoAuthority);
        }
        let (websocket, limits) = (self.websocket.websocket()?, self.limits()?);
        Ok(Some(MqttPlan { doors, tls, websocket, rules, limits }))
    }

    fn doors(&self) -> Result<Vec<MqttDoor>, SettingsError> {
        let WebSocketSection { address, tls_address, .. } = self.websocket;
        if self.tls.is_none() && tls_address.is_some() {
            return Err(SettingsError::MqttNoCertificate);
        }
        let tls = self.tls.as_ref().and_then(|tls| tls.address);
        if self.tls.is_some() && tls.is_none() && tls_address.is_none() {
            return Err(SettingsError::MqttNoTlsAddress);
        }
        let all = [
            (self.address, false, false),
            (tls, true, false),
            (address, false, true),
            (tls_address, true, true),
        ];
        let doors = all.into_iter().filter_map(|(address, has_tls, has_websocket)| {
            Some(MqttDoor { address: address?, has_tls, has_websocket })
        });
        Ok(doors.collect())
    }

    /// Returns the limits.
    ///
    /// # Errors
    /// A limit makes no sense.
    pub fn limits(&self) -> Result<Limits, SettingsError> {
        if !(LEAST_PACKET..=LONGEST_PACKET).contains(&self.max_packet) {
            return Err(SettingsError::MqttPacket(self.max_packet));
        }
        Ok(Limits {
            // What has more is refused when a message is made of it.
            max_packet: usize::try_from(self.max_packet).unwrap_or(usize::MAX),
            max_connections: self.max_connections,
            max_connections_per_address: self.max_connections_per_address,
            max_attempts_per_address: self.max_attempts_per_address,
            max_subscriptions: self.max_subscriptions,
        })
    }
}
