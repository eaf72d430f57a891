//! A program's options for a client, and for what it publishes and subscribes to.

use std::time::Duration;

use bytes::Bytes;
use whimbrel::{Config, TransportConfig, Url};

use crate::coverage::SubscriptionState;
use crate::frame::{PROTOCOL, Recover, Slow};
use crate::message::{Draft, Index, Message, MessageError, Publication, PublisherId};
use crate::property::Properties;
use crate::topic::Subscribed;

/// The way in which a client reaches its brokers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The brokers, each with its key. The client stays with one until it is gone, and then goes to the next.
    pub brokers: Vec<Url>,
    /// The client's name, for the brokers' status and logs. Default: empty.
    pub name: String,
    /// The time within which a broker must answer before the next is tried. Default: 5 s.
    pub patience: Duration,
    /// After how long without any broker the client gives up. Default: never.
    pub give_up_after: Option<Duration>,
}

impl ClientOptions {
    /// Returns the defaults with these brokers.
    pub fn new(brokers: impl IntoIterator<Item = Url>) -> Self {
        Self {
            brokers: brokers.into_iter().collect(),
            name: String::new(),
            patience: Duration::from_secs(5),
            give_up_after: None,
        }
    }
}

/// How often an idle client probes its broker.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// The silence after which a broker counts as gone.
const SILENCE: Duration = Duration::from_secs(15);

/// The largest UDP payload that is tried, bytes: a jumbo frame over IPv6. Many small messages cost less in few packets, where the path carries
/// them, as in data centres and between programs of one host.
pub const LARGEST_PACKET: u16 = 8_952;

/// Lets packets be as large as [`LARGEST_PACKET`], unless another limit than the transport's default was set.
pub fn allow_large_packets(transport: &mut TransportConfig) {
    if transport.max_udp_payload == TransportConfig::default().max_udp_payload {
        transport.max_udp_payload = LARGEST_PACKET;
    }
}

/// Sets what the endpoint of a client needs: the application protocol, and that a broker which is silent for 15 s is given up, so that another one
/// is tried. The client probes an idle broker every 5 s. Change these two in [`Config::transport`] afterwards if you like.
/// Packets may be [`LARGEST_PACKET`], unless another limit than the transport's default was set.
#[must_use]
pub fn endpoint_config(config: Config) -> Config {
    let mut transport = config.transport.clone();
    allow_large_packets(&mut transport);
    (transport.keep_alive, transport.idle_timeout, transport.reattach) = (Some(KEEP_ALIVE), SILENCE, None);
    config.protocol(PROTOCOL.into()).transport(transport)
}

/// A message to publish.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Publish {
    /// The topic.
    pub topic: String,
    /// The payload.
    pub payload: Bytes,
    /// The properties, which selectors read. Default: none.
    pub properties: Properties,
    /// The key. A newer message of the same topic and key may replace this one. Default: none.
    pub key: Option<Bytes>,
    /// The importance. Default: 5.
    pub index: Index,
    /// The time after which nobody wants the message any more. Default: none.
    pub lifetime: Option<Duration>,
    /// Whether brokers keep it as the last value of its topic. Default: no.
    pub retain: bool,
}

impl Publish {
    /// Creates a message with the defaults otherwise.
    pub fn new(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self { topic: topic.into(), payload: payload.into(), ..Self::default() }
    }

    /// Checks that it can be published.
    ///
    /// # Errors
    /// The topic, or another part, is not allowed.
    pub fn check(&self) -> Result<(), MessageError> {
        self.message(Publication { publisher: PublisherId(0), number: 1 }).map(drop)
    }

    pub(super) fn message(&self, publication: Publication) -> Result<Message, MessageError> {
        Draft {
            topic: &self.topic,
            properties: self.properties.as_bytes(),
            key: self.key.as_deref(),
            index: self.index,
            lifetime: self.lifetime,
            retain: self.retain,
            possibly_repeated: false,
            publication: Some(publication),
            payload: &self.payload,
        }
        .finish()
    }
}

/// The state that is kept for a subscription.
#[derive(Clone, Debug)]
pub enum Durability {
    /// Nothing: it begins live at each broker.
    Nondurable,
    /// Its coverage, so that it recovers at each broker what it missed. The program passes a state it kept, or the subscription starts
    /// over. Default: it starts over.
    SemiDurable(Option<SubscriptionState>),
    /// The broker keeps on disk what was not [acknowledged](super::Subscription::acknowledge), whoever is away.
    Durable {
        /// The subscription's name, 1 to 200 bytes. It belongs to the client's key.
        name: String,
        /// A state of the program's own, which removes what a crash repeats. Default: none.
        state: Option<SubscriptionState>,
    },
}

impl Default for Durability {
    fn default() -> Self {
        Self::SemiDurable(None)
    }
}

/// A subscription to ask for: its filter, its selector and its options.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Subscribing {
    /// The topic filter; or `$share/GROUP/FILTER`, of whose messages each goes to one member of the group.
    pub filter: String,
    /// The selector. Default: none.
    pub selector: Option<String>,
    /// The state that is kept for it. Default: its coverage, for its own life. A member of a group is nondurable.
    pub durability: Durability,
    /// Whether a subscription whose state covers nothing yet begins with all that is held. Default: no, it begins live.
    pub from_held: bool,
    /// The way in which it recovers missed messages. Default: first.
    pub recover: Recover,
    /// Its treatment if it is too slow. Default: it waits.
    pub slow: Slow,
    /// The most events that are kept for a program that does not take them. Beyond, the broker waits. Default: 1,024.
    pub queue: usize,
}

impl Subscribing {
    /// Returns the defaults with this filter.
    pub fn new(filter: impl Into<String>) -> Self {
        let filter = filter.into();
        let is_shared = Subscribed::parse(&filter).is_ok_and(|subscribed| subscribed.group.is_some());
        Self {
            filter,
            selector: None,
            durability: if is_shared { Durability::Nondurable } else { Durability::default() },
            from_held: false,
            recover: Recover::First,
            slow: Slow::Wait,
            queue: 1_024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_a_group_is_nondurable() {
        let durability = |filter: &str| Subscribing::new(filter).durability;
        assert!(matches!(durability("$share/g/a/#"), Durability::Nondurable));
        assert!(matches!(durability("a/#"), Durability::SemiDurable(None)));
        assert!(matches!(durability("$share"), Durability::SemiDurable(None)), "the broker refuses it");
    }
}
