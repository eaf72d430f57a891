//! Clients of MQTT in a file.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use whimbrel::units::as_text;

use super::SettingsError;
use crate::gateway::mqtt::Limits;

/// The shortest limit for packets, bytes: longer topics than this are rare.
const LEAST_PACKET: u64 = 1 << 10;
/// The longest packet of the protocol, bytes.
const LONGEST_PACKET: u64 = (256 << 20) - 1;

/// Where clients of MQTT 3.1.1 and 5 come in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MqttSection {
    /// The address and port, such as `127.0.0.1:1883`. Default: none, so that there is no MQTT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<SocketAddr>,
    /// Everyone who reaches the address may do what `[other_clients]` lists. Default: no.
    pub anonymous: bool,
    /// The longest packet of a client. Default: 1 MiB.
    #[serde(with = "as_text::bytes")]
    pub max_packet: u64,
    /// Connections at a time. Default: 10,000.
    pub max_connections: usize,
    /// Subscriptions of one client. Default: 1,000.
    pub max_subscriptions: usize,
}

impl Default for MqttSection {
    fn default() -> Self {
        let Limits { max_packet, max_connections, max_subscriptions } = Limits::default();
        let (address, anonymous, max_packet) = (None, false, max_packet as u64);
        Self { address, anonymous, max_packet, max_connections, max_subscriptions }
    }
}

impl MqttSection {
    /// The limits.
    ///
    /// # Errors
    /// A limit makes no sense.
    pub fn limits(&self) -> Result<Limits, SettingsError> {
        if !(LEAST_PACKET..=LONGEST_PACKET).contains(&self.max_packet) {
            return Err(SettingsError::MqttPacket(self.max_packet));
        }
        // What has more is refused when a message is made of it.
        let max_packet = usize::try_from(self.max_packet).unwrap_or(usize::MAX);
        let most = tokio::sync::Semaphore::MAX_PERMITS;
        let (max_connections, max_subscriptions) = (self.max_connections.min(most), self.max_subscriptions);
        Ok(Limits { max_packet, max_connections, max_subscriptions })
    }
}
