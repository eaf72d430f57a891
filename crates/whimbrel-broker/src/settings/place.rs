//! The place of a mistake in a file.

use super::error::SettingsError;
use super::whole::Settings;

impl SettingsError {
    /// Returns the setting that is at fault, with its sections, such as `mqtt.tls` or `channel.0.replicas`. A list counts from 0. Where a
    /// setting is missing, it is the section in which it would be.
    pub fn place(&self, settings: &Settings) -> String {
        // Of two that are alike, the second is at fault.
        let last = |list: &str, at: Option<usize>, setting: &str| match at {
            Some(at) if setting.is_empty() => format!("{list}.{at}"),
            Some(at) => format!("{list}.{at}.{setting}"),
            None => list.to_owned(),
        };
        let channel = |name: &str, setting: &str| {
            let at = settings.channels.iter().rposition(|channel| channel.name == *name);
            last("channel", at, setting)
        };
        let bridge = |name: &str, setting: &str| {
            last("bridge", settings.bridges.iter().rposition(|bridge| bridge.name == *name), setting)
        };
        let user = |has_it: &dyn Fn(&super::mqtt::UserSection) -> bool, setting: &str| {
            last("mqtt.user", settings.mqtt.users.iter().rposition(has_it), setting)
        };
        let peers = &settings.peers;
        match self {
            Self::SameName(name) => channel(name, "name"),
            Self::TooManyChannels(_) => "channel".to_owned(),
            Self::Channel { channel: name, setting, .. } => channel(name, setting),
            Self::NoKey => last("peer", peers.iter().position(|peer| peer.key().is_none()), ""),
            Self::TwoKeys(key) => last("peer", peers.iter().position(|peer| peer.key == Some(*key)), "key"),
            Self::SamePeer(key) | Self::OwnPeer(key) => {
                let at = peers.iter().rposition(|peer| peer.key() == Some(*key));
                let has_url = at.is_some_and(|at| peers[at].url.is_some());
                last("peer", at, if has_url { "url" } else { "key" })
            }
            Self::NoSuchChannel(key, name) => {
                let at = peers.iter().position(|peer| peer.key() == Some(*key));
                let names = at.and_then(|at| peers[at].channels.as_ref());
                let nth = names.and_then(|names| names.iter().position(|other| other == name));
                last("peer", at, &nth.map_or_else(|| "channels".to_owned(), |nth| format!("channels.{nth}")))
            }
            // Without the section, the first that needs the name.
            Self::NoCluster if settings.broker.name.is_some() => "broker".to_owned(),
            Self::NoCluster if peers.is_empty() => "backbone.nats".to_owned(),
            Self::NoCluster => "peer.0".to_owned(),
            Self::NatsAndPeers | Self::NatsAccess => "backbone.nats".to_owned(),
            Self::NatsNoServers => "backbone.nats.servers".to_owned(),
            Self::HalfCertificate(section) => {
                let is_bridge = |name: &str| *section == super::bridge::called(name);
                let at = settings.bridges.iter().position(|bridge| is_bridge(&bridge.name));
                at.map_or_else(|| "backbone.nats".to_owned(), |at| format!("bridge.{at}"))
            }
            Self::Bridge { bridge: name, setting, .. } => bridge(name, setting),
            Self::SameBridge(name) => bridge(name, "name"),
            Self::SameKey(key) => {
                last("client", settings.clients.iter().rposition(|client| client.key == *key), "key")
            }
            Self::MqttNobody(_) | Self::MqttNothing => "mqtt".to_owned(),
            Self::SameUser(name) => user(&|user| user.name == *name, "name"),
            Self::MqttNoProof(name) => user(&|user| user.name == *name, ""),
            Self::MqttSameCertificate(name) => {
                user(&|user| user.certificate.as_ref() == Some(name), "certificate")
            }
            Self::MqttNoAuthority | Self::MqttNoTlsAddress => "mqtt.tls".to_owned(),
            Self::MqttNoCertificate => "mqtt.websocket.tls_address".to_owned(),
            Self::MqttPath(_) => "mqtt.websocket.path".to_owned(),
            Self::MqttPacket(_) => "mqtt.max_packet".to_owned(),
        }
    }
}
