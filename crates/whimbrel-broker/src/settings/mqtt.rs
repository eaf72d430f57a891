//! Clients of MQTT in a file.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use whimbrel::units::as_text;

use whimbrel_pubsub::topic::TopicFilter;

use super::channel::filters;
use super::{OtherClients, SettingsError};
use crate::gateway::mqtt::{Limits, Password, Rules, User};
use crate::native::Permissions;

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
    /// Everyone who reaches the address and names no user may do what `[other_clients]` lists. Default: no.
    pub anonymous: bool,
    /// The longest packet of a client. Default: 1 MiB.
    #[serde(with = "as_text::bytes")]
    pub max_packet: u64,
    /// Connections at a time. Default: 10,000.
    pub max_connections: usize,
    /// Subscriptions of one client. Default: 1,000.
    pub max_subscriptions: usize,
    /// The users.
    #[serde(rename = "user", skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserSection>,
}

/// A user of MQTT.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSection {
    /// Its name.
    pub name: String,
    /// Its password as `whimbrel broker password` hashes it.
    #[serde(with = "hash")]
    pub password: Password,
    /// The topics that it may publish to. Default: none.
    #[serde(default, with = "filters")]
    pub publish: Vec<TopicFilter>,
    /// The filters that it may subscribe to, and narrower ones. Default: none.
    #[serde(default, with = "filters")]
    pub subscribe: Vec<TopicFilter>,
}

impl Default for MqttSection {
    fn default() -> Self {
        let Limits { max_packet, max_connections, max_subscriptions } = Limits::default();
        let (address, anonymous, max_packet, users) = (None, false, max_packet as u64, Vec::new());
        Self { address, anonymous, max_packet, max_connections, max_subscriptions, users }
    }
}

impl MqttSection {
    /// Returns the address for MQTT and the rules for its clients; `None` if there is no MQTT.
    pub(super) fn rules(
        &self,
        others: Option<&OtherClients>,
    ) -> Result<Option<(SocketAddr, Rules)>, SettingsError> {
        let Some(address) = self.address else { return Ok(None) };
        if !self.anonymous && self.users.is_empty() {
            return Err(SettingsError::MqttNobody(address));
        }
        self.limits()?;
        let mut rules = Rules::default();
        if self.anonymous {
            rules.anonymous = Some(others.ok_or(SettingsError::MqttNothing)?.permissions());
        }
        for UserSection { name, password, publish, subscribe } in self.users.iter().cloned() {
            let user = User { password, permissions: Permissions { publish, subscribe } };
            if rules.users.insert(name.clone(), user).is_some() {
                return Err(SettingsError::SameUser(name));
            }
        }
        Ok(Some((address, rules)))
    }

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

/// For `#[serde(with = …)]`: a hashed password as text.
mod hash {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::gateway::mqtt::Password;

    pub(super) fn serialize<S: Serializer>(password: &Password, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(password.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Password, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}
