//! The identity of a broker, and how people hear of it.

use base64ct::{Base64UrlUnpadded, Encoding};
use whimbrel_pubsub::coverage::ClusterId;
use whimbrel_pubsub::message::BrokerId;

/// The identity of a broker.
#[derive(Clone, Debug)]
pub struct BrokerName {
    /// The cluster.
    pub cluster: ClusterId,
    /// The broker.
    pub broker: BrokerId,
    /// Its human-readable name.
    pub name: String,
}

/// A broker, as people hear of it.
pub fn broker_text(broker: BrokerId) -> String {
    let key = Base64UrlUnpadded::encode_string(&broker.0.to_le_bytes());
    format!("the broker whose key begins with {}", &key[..10])
}
