//! The settings of multicast.

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use whimbrel::Url;
use whimbrel_pubsub::topic::Topic;

use crate::text::as_text;

/// The most groups, and the most interfaces. Each pair has a socket.
const MOST_GROUPS: usize = 64;
const MOST_INTERFACES: usize = 16;

/// Multicast: which groups are carried, and between which links and peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MulticastSettings {
    /// The interfaces on whose links groups are joined, and to which those of peers are sent on.
    pub interfaces: Vec<String>,
    /// The groups that are carried to peers, with their ports. Default: none; peers' are still sent on.
    #[serde(with = "as_text::groups")]
    pub groups: Vec<SocketAddr>,
    /// The names of the peers that get them. Default: all peers, or none if there is a broker.
    #[serde(with = "as_text::some")]
    pub peers: Vec<String>,
    /// The broker that groups go through. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<BrokerSettings>,
    /// The TTL, or hop limit, of what is sent on. Default 1: it stays on the link.
    pub ttl: u8,
}

/// The broker through which each datagram goes once, to all proxies that want its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BrokerSettings {
    /// The URLs of the brokers of one cluster, each with its key. The proxy stays with one until it is gone.
    #[serde(with = "urls")]
    pub urls: Vec<Url>,
    /// The topic under which groups are published: `TOPIC/GROUP/PORT`. Default: `multicast`.
    pub topic: String,
    /// The groups that are sent on to the interfaces. Default: those of `groups`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_on: Option<Vec<SocketAddr>>,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self { urls: Vec::new(), topic: "multicast".to_owned(), send_on: None }
    }
}

impl BrokerSettings {
    /// The groups that are sent on, by a proxy that carries `groups`.
    pub(super) fn send_on<'a>(&'a self, groups: &'a [SocketAddr]) -> &'a [SocketAddr] {
        self.send_on.as_deref().unwrap_or(groups)
    }

    fn check(&self) -> Result<(), MulticastMistake> {
        if self.urls.is_empty() {
            return Err(MulticastMistake::NoBroker);
        }
        if let Some(url) = self.urls.iter().find(|url| url.key.is_none()) {
            return Err(MulticastMistake::NoKey(url.to_string()));
        }
        Topic::parse(&self.topic)
            .map(drop)
            .map_err(|error| MulticastMistake::Topic(self.topic.clone(), error.to_string()))
    }
}

/// URLs are written as text.
mod urls {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use whimbrel::Url;

    pub(super) fn serialize<S: Serializer>(urls: &[Url], to: S) -> Result<S::Ok, S::Error> {
        urls.iter().map(Url::to_string).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Url>, D::Error> {
        let all = Vec::<String>::deserialize(from)?;
        all.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

/// A mistake in these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MulticastMistake {
    /// No interface is named.
    #[error("[multicast] names no interfaces: write for example interfaces = [\"lan0\"]")]
    NoInterface,
    /// Nobody can join it.
    #[error(
        "[multicast] groups: `{0}` is not a group with a port: write for example 239.1.2.3:5000 or [ff15::7]:5000"
    )]
    NoGroup(SocketAddr),
    /// It would reach nobody.
    #[error("[multicast] ttl: it must not be 0, or nothing leaves this host")]
    Ttl,
    /// There are too many.
    #[error("[multicast] has {0} groups on {1} interfaces: at most 64 groups on 16 interfaces are allowed")]
    TooMany(usize, usize),
    /// No broker is named.
    #[error("[multicast.broker] names no broker: write for example urls = [\"whimbrel://KEY@HOST:4433\"]")]
    NoBroker,
    /// A broker could be anyone.
    #[error(
        "[multicast.broker] urls: {0} names no key: write whimbrel://KEY@HOST:PORT, as the broker printed it"
    )]
    NoKey(String),
    /// Nothing can be published under it.
    #[error("[multicast.broker] topic: `{0}` is not a topic: {1}")]
    Topic(String, String),
    /// A peer does not exist.
    #[error("[multicast] names the peer `{0}`, but no [[peer]] has that `name`: correct it, or add the peer")]
    NoSuchPeer(String),
}

impl MulticastMistake {
    /// Returns the setting at fault.
    pub(crate) fn setting(&self) -> &'static str {
        match self {
            Self::NoInterface => "interfaces",
            Self::NoGroup(_) | Self::TooMany(..) => "groups",
            Self::Ttl => "ttl",
            Self::NoBroker | Self::NoKey(_) => "broker.urls",
            Self::Topic(..) => "broker.topic",
            Self::NoSuchPeer(_) => "peers",
        }
    }
}

/// Why groups cannot be joined. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum MulticastError {
    /// Another system.
    #[error("[multicast] works on Linux only: leave it out here")]
    NotLinux,
    /// There is no such interface.
    #[error("[multicast] there is no interface `{0}`, or it has no address: `ip address` lists them")]
    NoInterface(String),
    /// The system says no.
    #[error("[multicast] joining {group} on `{interface}` failed: {error}")]
    Join {
        /// The group.
        group: SocketAddr,
        /// The interface.
        interface: String,
        /// The system's error.
        error: io::Error,
    },
    /// The system says no.
    #[error("[multicast] cannot list the addresses of this host: {0}")]
    System(#[from] io::Error),
}

impl Default for MulticastSettings {
    fn default() -> Self {
        Self { interfaces: Vec::new(), groups: Vec::new(), peers: Vec::new(), broker: None, ttl: 1 }
    }
}

impl MulticastSettings {
    /// Whether groups are carried to peers.
    pub(crate) fn carries_to_peers(&self) -> bool {
        !self.groups.is_empty() && (self.broker.is_none() || !self.peers.is_empty())
    }

    /// Checks what no single line shows. `is_peer` says whether there is a peer of that name.
    ///
    /// # Errors
    /// See [`MulticastMistake`].
    pub fn check(&self, is_peer: impl Fn(&str) -> bool) -> Result<(), MulticastMistake> {
        let sent_on = self.broker.iter().flat_map(|broker| broker.send_on(&self.groups));
        let groups = self.groups.len().max(sent_on.clone().count());
        let interfaces = self.interfaces.len();
        if interfaces == 0 {
            return Err(MulticastMistake::NoInterface);
        }
        if groups > MOST_GROUPS || interfaces > MOST_INTERFACES {
            return Err(MulticastMistake::TooMany(groups, interfaces));
        }
        let is_group = |group: &&SocketAddr| group.ip().is_multicast() && group.port() > 0;
        if let Some(wrong) = self.groups.iter().chain(sent_on).find(|group| !is_group(group)) {
            return Err(MulticastMistake::NoGroup(*wrong));
        }
        if self.ttl == 0 {
            return Err(MulticastMistake::Ttl);
        }
        self.broker.as_ref().map_or(Ok(()), BrokerSettings::check)?;
        match self.peers.iter().find(|name| !is_peer(name)) {
            Some(name) => Err(MulticastMistake::NoSuchPeer(name.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let good = MulticastSettings {
            interfaces: vec!["lan0".into()],
            groups: vec!["239.1.2.3:5000".parse().unwrap(), "[ff02::fb]:5353".parse().unwrap()],
            ..Default::default()
        };
        let check = |settings: MulticastSettings| settings.check(|name| name == "far");
        check(good.clone()).unwrap();
        check(MulticastSettings { peers: vec!["far".into()], ..good.clone() }).unwrap();
        let groups = |text: &str| vec![text.parse().unwrap()];
        let urls = |text: &str| vec![text.parse::<Url>().unwrap()];
        let url = format!("whimbrel://{}@b:1", whimbrel::new_identity().public());
        let known = BrokerSettings { urls: urls(&url), ..Default::default() };
        let broker = |broker| MulticastSettings { broker: Some(broker), ..good.clone() };
        check(broker(known.clone())).unwrap();
        assert!(good.carries_to_peers() && !broker(known.clone()).carries_to_peers());
        for (wrong, part) in [
            (MulticastSettings::default(), "no interfaces"),
            (
                MulticastSettings { groups: groups("10.0.0.1:5000"), ..good.clone() },
                "`10.0.0.1:5000` is not a group",
            ),
            (MulticastSettings { groups: groups("239.1.2.3:0"), ..good.clone() }, "is not a group"),
            (MulticastSettings { ttl: 0, ..good.clone() }, "must not be 0"),
            (MulticastSettings { peers: vec!["x".into()], ..good.clone() }, "the peer `x`"),
            (MulticastSettings { groups: groups("239.1.2.3:1").repeat(65), ..good.clone() }, "65 groups"),
            (broker(BrokerSettings::default()), "names no broker"),
            (broker(BrokerSettings { urls: urls("whimbrel://b:1"), ..Default::default() }), "names no key"),
            (broker(BrokerSettings { topic: "a/#".into(), ..known.clone() }), "`a/#` is not a topic"),
            (broker(BrokerSettings { send_on: Some(groups("10.0.0.1:5")), ..known }), "is not a group"),
        ] {
            let error = check(wrong).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
