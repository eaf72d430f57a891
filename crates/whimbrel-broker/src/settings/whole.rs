//! All settings of a broker.

use serde::{Deserialize, Serialize};
use whimbrel::{PublicKey, TransportConfig};
use whimbrel_service::{ListenSettings, ServiceSettings};

use super::backbone::BackboneSection;
use super::bridge::BridgeSection;
use super::channel::ChannelSection;
use super::client::{ClientSection, OtherClients};
use super::error::SettingsError;
use super::mqtt::{MqttPlan, MqttSection};
use super::peer::PeerSection;
use super::store::StoreSection;
use crate::backbone::{NatsPlan, Peer};
use crate::gateway::mqtt::BridgePlan;
use crate::hub::{BrokerName, ChannelRules};
use crate::ids::{broker_id, channel_id, cluster_id};
use crate::native::Permissions;

/// The settings of a broker. In a file, each field is a section, each channel a `[[channel]]` and each client a `[[client]]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The name and the cluster of the broker.
    pub broker: BrokerSection,
    /// The channels. A message belongs to the first that has its topic. Default: one for all topics.
    #[serde(rename = "channel")]
    pub channels: Vec<ChannelSection>,
    /// The other brokers of the cluster. Default: none.
    #[serde(rename = "peer")]
    pub peers: Vec<PeerSection>,
    /// The backbone of the cluster in place of peers.
    pub backbone: BackboneSection,
    /// The clients and what they may do.
    #[serde(rename = "client")]
    pub clients: Vec<ClientSection>,
    /// The permissions of clients that are not listed. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_clients: Option<OtherClients>,
    /// The store of durable channels and subscriptions.
    pub store: StoreSection,
    /// Where to listen.
    pub listen: ListenSettings,
    /// The addresses for MQTT clients.
    pub mqtt: MqttSection,
    /// Bridges to MQTT brokers of others. Default: none.
    #[serde(rename = "bridge")]
    pub bridges: Vec<BridgeSection>,
    /// The transport, with the settings of its sessions.
    pub transport: TransportConfig,
    /// Control socket, metrics and activity log.
    pub service: ServiceSettings,
}

/// The name and the cluster of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrokerSection {
    /// Its human-readable name. Default: the first letters of its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The cluster, which has a name of its own in the world: the states of subscriptions go by it. Default: the broker's key, for one that is
    /// alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
}

impl Settings {
    /// Returns the channels with their rules.
    ///
    /// # Errors
    /// They contradict each other, or one has a mistake.
    pub fn rules(&self) -> Result<Vec<ChannelRules>, SettingsError> {
        let most = whimbrel_pubsub::coverage::MOST_CHANNELS;
        if self.channels.len() > most {
            return Err(SettingsError::TooManyChannels(self.channels.len()));
        }
        for (at, channel) in self.channels.iter().enumerate() {
            if self.channels[..at].iter().any(|other| other.name == channel.name) {
                return Err(SettingsError::SameName(channel.name.clone()));
            }
        }
        let channels = self.channels.iter().map(|section| section.rules(channel_id(&section.name)));
        let mut channels = channels.collect::<Result<Vec<_>, _>>()?;
        if channels.is_empty() {
            channels.push(ChannelRules::all_topics());
        }
        let peers = self.peers()?;
        let has_nats = self.nats()?.is_some();
        for channel in &mut channels {
            let id = channel.settings.id;
            let carries =
                peers.iter().filter(|peer| peer.channels.as_ref().is_none_or(|all| all.contains(&id)));
            channel.settings.peers = carries.map(|peer| broker_id(&peer.key)).collect();
            channel.settings.takes_strangers = has_nats;
            let members = channel.settings.peers.len() + 1;
            if let Some(replicas) = channel.durable.replicas.filter(|replicas| *replicas > members) {
                let brokers = if members == 1 { "1 broker" } else { &format!("{members} brokers") };
                let why = if has_nats {
                    format!(
                        "`replicas = {replicas}`: over NATS only this broker's own disk counts. Leave `replicas` out, or link the brokers by \
                         [[peer]] sections in place of [backbone.nats]"
                    )
                } else {
                    format!(
                        "`replicas = {replicas}` is more than there are brokers: the channel has {brokers}, this one and the [[peer]]s that it goes to"
                    )
                };
                return Err(SettingsError::Channel {
                    channel: channel.name.clone(),
                    setting: "replicas".to_owned(),
                    why,
                });
            }
        }
        Ok(channels)
    }

    /// Returns the other brokers of the cluster.
    ///
    /// # Errors
    /// One has no key, two have the same, or the cluster has no name.
    pub fn peers(&self) -> Result<Vec<Peer>, SettingsError> {
        if !self.peers.is_empty() && self.broker.cluster.is_none() {
            return Err(SettingsError::NoCluster);
        }
        let names: Vec<_> = self.channels.iter().map(|channel| &*channel.name).collect();
        let peers = self.peers.iter().map(|peer| peer.peer(&names)).collect::<Result<Vec<_>, _>>()?;
        // Each would count as a replica.
        for (at, peer) in peers.iter().enumerate() {
            if peers[..at].iter().any(|other| other.key == peer.key) {
                return Err(SettingsError::SamePeer(peer.key));
            }
        }
        Ok(peers)
    }

    /// Checks that the settings are for the broker with this key, and not for another of the cluster.
    ///
    /// # Errors
    /// The broker is among its own peers. It would link with itself, and count its own disk twice.
    pub fn check_owner(&self, own: &PublicKey) -> Result<(), SettingsError> {
        let mut peers = self.peers()?.into_iter();
        peers.find(|peer| peer.key == *own).map_or(Ok(()), |peer| Err(SettingsError::OwnPeer(peer.key)))
    }

    /// Returns how the servers of NATS are reached that join the cluster; `None` if there are none.
    ///
    /// # Errors
    /// There are peers, too, the cluster has no name, or settings contradict each other.
    pub fn nats(&self) -> Result<Option<NatsPlan>, SettingsError> {
        let plan = self.backbone.nats()?;
        if plan.is_some() && !self.peers.is_empty() {
            return Err(SettingsError::NatsAndPeers);
        }
        if plan.is_some() && self.broker.cluster.is_none() {
            return Err(SettingsError::NoCluster);
        }
        Ok(plan)
    }

    /// Returns the permissions of each listed client, and those of all others.
    ///
    /// # Errors
    /// A client is listed twice.
    pub fn permissions(
        &self,
    ) -> Result<(std::collections::BTreeMap<PublicKey, Permissions>, Permissions), SettingsError> {
        let mut clients = std::collections::BTreeMap::new();
        for client in &self.clients {
            if clients.insert(client.key, client.permissions()).is_some() {
                return Err(SettingsError::SameKey(client.key));
            }
        }
        let others = self.other_clients.as_ref().map(OtherClients::permissions).unwrap_or_default();
        Ok((clients, others))
    }

    /// Returns how clients of MQTT are served; `None` if there is no MQTT.
    ///
    /// # Errors
    /// Nobody may connect, those who do may do nothing, or settings contradict each other.
    pub fn mqtt(&self) -> Result<Option<MqttPlan>, SettingsError> {
        self.mqtt.plan(self.other_clients.as_ref())
    }

    /// Returns the bridges to MQTT brokers of others.
    ///
    /// # Errors
    /// One has a mistake, two have one name, or one carries topics that no channel has.
    pub fn bridges(&self) -> Result<Vec<BridgePlan>, SettingsError> {
        for (at, bridge) in self.bridges.iter().enumerate() {
            if self.bridges[..at].iter().any(|other| other.name == bridge.name) {
                return Err(SettingsError::SameBridge(bridge.name.clone()));
            }
        }
        let rules = self.channels.iter().map(|section| section.rules(channel_id(&section.name)));
        let mut channels = rules.collect::<Result<Vec<_>, _>>()?;
        if channels.is_empty() {
            channels.push(ChannelRules::all_topics());
        }
        self.bridges.iter().map(|bridge| bridge.plan(&channels)).collect()
    }

    /// Returns the identity of the broker with this key.
    pub fn name(&self, key: &PublicKey) -> BrokerName {
        let cluster = cluster_id(self.broker.cluster.as_deref(), key);
        let name = self.broker.name.clone().unwrap_or_else(|| key.to_string().chars().take(8).collect());
        BrokerName { cluster, broker: broker_id(key), name }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_service::parse_config;

    use super::*;

    const KEY: &str = "9I1nPhqj7OBn3w4Jx5JzKRqXy8DxvbSCG5PInZRN7i0";

    fn parse(text: &str) -> Settings {
        parse_config("broker.toml", text).unwrap()
    }

    #[test]
    fn channels_and_clients_come_out_of_a_file() {
        let settings = parse(&format!(
            "[broker]\nname = 'harbour'\ncluster = 'example.org fish'\n\
             [[channel]]\nname = 'prices'\ntopics = ['prices/#']\nunknown_after = '3s'\n\
             [[channel.partition]]\ntopics = 'prices/fish/#'\nkey = 'price'\nfrom = 10\nto = 20.5\nmessages = 500\npolicy = 'pwp'\n\
             [[channel.partition]]\nbytes = '1 MiB'\nage = '10min'\n\
             [[channel]]\nname = 'rest'\n\
             [[client]]\nkey = '{KEY}'\npublish = 'prices/#'\nsubscribe = ['#']\n"
        ));
        let rules = settings.rules().unwrap();
        assert_eq!(rules.len(), 2);
        assert_eq!(rules[0].settings.unknown_after, std::time::Duration::from_secs(3));
        assert_eq!(rules[0].partitions.len(), 2);
        let size = rules[0].settings.partitions[0].size;
        assert_eq!((size.messages, size.bytes), (500, 64 << 20));
        assert_ne!(rules[0].settings.id, rules[1].settings.id);
        let (clients, others) = settings.permissions().unwrap();
        let client = &clients[&KEY.parse().unwrap()];
        assert!(client.may_publish("prices/fish") && !client.may_publish("weather"));
        assert!(!others.may_publish("prices/fish"), "strangers may nothing");
        let name = settings.name(&KEY.parse().unwrap());
        assert_eq!(name.name, "harbour");
        assert_ne!(name.cluster, Settings::default().name(&KEY.parse().unwrap()).cluster);
    }

    #[test]
    fn mqtt_is_for_those_whom_the_file_lets_in() {
        assert!(Settings::default().mqtt().unwrap().is_none());
        let says = |text: &str| parse(text).mqtt().unwrap_err().to_string();
        let address = "[mqtt]\naddress='127.0.0.1:1883'\n";
        assert!(says(address).contains("`anonymous = true`"), "{}", says(address));
        let anonymous = format!("{address}anonymous=true\n");
        assert!(says(&anonymous).contains("[other_clients]"));
        let whole = format!("{anonymous}max_packet='2 KiB'\n[other_clients]\nsubscribe='prices/#'\n");
        let plan = parse(&whole).mqtt().unwrap().unwrap();
        let permissions = plan.rules.anonymous.unwrap();
        assert!(permissions.may_subscribe(&"prices/fish".parse().unwrap()));
        assert!(!permissions.may_publish("prices/fish"));
        assert_eq!(plan.limits.max_packet, 2_048);
        assert!(says(&whole.replace("2 KiB", "2 B")).contains("1 KiB"));
        let hash = crate::gateway::mqtt::Password::hash(b"cod").unwrap();
        let user = format!("[[mqtt.user]]\nname='fisher'\npassword='{}'\npublish='fish/#'\n", hash.as_str());
        let rules = parse(&format!("{address}{user}")).mqtt().unwrap().unwrap().rules;
        assert!(rules.anonymous.is_none() && rules.users["fisher"].permissions.may_publish("fish/cod"));
        assert!(says(&format!("{address}{user}{user}")).contains("`fisher`"));
        let plain = "[[mqtt.user]]\nname='fisher'\npassword='cod'\n";
        let wrong = parse_config::<Settings>("b.toml", plain).unwrap_err().to_string();
        assert!(wrong.starts_with("b.toml:3:10: ") && wrong.contains("whimbrel broker password"), "{wrong}");
    }

    #[test]
    fn the_doors_of_mqtt_are_those_that_have_addresses() {
        let tls = "[mqtt.tls]\naddress='127.0.0.1:1'\ncertificate='a/c.pem'\nkey='/k.pem'\n";
        let user = "[[mqtt.user]]\nname='fisher'\ncertificate='boat.example'\n";
        let says = |text: &str| parse(text).mqtt().unwrap_err().to_string();
        assert!(says(&format!("{tls}{user}")).contains("`client_ca`"));
        assert!(says(&format!("{tls}require_certificate=true\n{user}")).contains("`client_ca`"));
        let tls = format!("{tls}client_ca='ca.pem'\n");
        assert!(
            says(&format!("{tls}{user}{}", user.replace("'fisher'", "'other'"))).contains("`boat.example`")
        );
        assert!(says(&format!("{tls}[[mqtt.user]]\nname='fisher'\n")).contains("`password`"));
        assert!(says(&format!("{}{user}", tls.replace("address='127.0.0.1:1'\n", ""))).contains("address"));
        let websocket = "[mqtt.websocket]\naddress='127.0.0.1:2'\ntls_address='127.0.0.1:3'\n";
        assert!(says(&format!("{websocket}{user}")).contains("[mqtt.tls]"));
        assert!(says(&format!("{tls}{websocket}path='mqtt'\n{user}")).contains("`mqtt`"));
        let mut settings = parse(&format!("{tls}{websocket}{user}"));
        settings.mqtt.relative_to("/etc/whimbrel".as_ref());
        let plan = settings.mqtt().unwrap().unwrap();
        let doors: Vec<_> = plan.doors.iter().map(|door| (door.has_tls, door.has_websocket)).collect();
        assert_eq!(doors, [(true, false), (false, true), (true, true)]);
        let files = plan.tls.unwrap();
        let paths = [&files.certificate, &files.key, files.client_ca.as_ref().unwrap()];
        assert_eq!(
            paths.map(|path| path.to_str().unwrap()),
            ["/etc/whimbrel/a/c.pem", "/k.pem", "/etc/whimbrel/ca.pem"]
        );
        assert_eq!(plan.rules.certificates["boat.example"], "fisher");
    }

    /// Either would be counted as another disk that has a message.
    #[test]
    fn a_broker_is_no_peer_of_its_own_and_no_peer_counts_twice() {
        let peer = format!("[[peer]]\nkey='{KEY}'\n");
        let cluster = "[broker]\ncluster='c'\n[[channel]]\nname='a'\ndurable=true\n";
        let settings = parse(&format!("{cluster}{peer}"));
        let own = KEY.parse().unwrap();
        assert!(settings.check_owner(&own).unwrap_err().to_string().contains("this broker itself"));
        let other = "-5vQjq2tYcsOYdTUo_WmTh4HCvnkIvkNR2TXxD1vr3Y".parse().unwrap();
        assert_eq!(settings.check_owner(&other), Ok(()));
        let twice = parse(&format!("{cluster}{peer}{peer}")).rules().unwrap_err().to_string();
        assert!(twice.contains("remove one"), "{twice}");
        let replicas = "[broker]\ncluster='c'\n[[channel]]\nname='a'\ndurable=true\nreplicas=2\n";
        let nats = parse(&format!("{replicas}[backbone.nats]\nservers=['nats://127.0.0.1:4222']\n"));
        let says = nats.rules().unwrap_err().to_string();
        assert!(says.contains("over NATS"), "{says}");
    }

    #[test]
    fn mistakes_are_shown() {
        let says = |text: &str| parse(text).rules().unwrap_err().to_string();
        assert!(
            says("[[channel]]\nname='a'\n[[channel]]\nname='a'\n").contains("two channels are called `a`")
        );
        let no_key = says("[[channel]]\nname='a'\n[[channel.partition]]\nfrom=1\n");
        assert!(no_key.contains("`key`"), "{no_key}");
        let reserved = says("[[channel]]\nname='a'\n[[channel.partition]]\nkey='JMSx'\n");
        assert!(reserved.contains("reserved"), "{reserved}");
        let wrong =
            parse_config::<Settings>("b.toml", "[[channel]]\nname='a'\ntopics='a/#/b'\n").unwrap_err();
        assert!(wrong.to_string().starts_with("b.toml:3:8: "), "{wrong}");
        let unknown = parse_config::<Settings>("b.toml", "[brokers]\n").unwrap_err().to_string();
        assert!(unknown.contains("write `broker`"), "{unknown}");
    }
}
