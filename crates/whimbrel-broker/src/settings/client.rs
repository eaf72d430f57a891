//! Clients in a file.

use serde::{Deserialize, Serialize};
use whimbrel::PublicKey;
use whimbrel_pubsub::topic::TopicFilter;

use super::channel::filters;
use crate::native::Permissions;

/// A native client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSection {
    /// Its public key.
    pub key: PublicKey,
    /// Its human-readable name. Default: its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The topics that it may publish to. Default: none.
    #[serde(default, with = "filters")]
    pub publish: Vec<TopicFilter>,
    /// The filters that it may subscribe to, and narrower ones. Default: none.
    #[serde(default, with = "filters")]
    pub subscribe: Vec<TopicFilter>,
}

/// Clients that are not listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtherClients {
    /// The topics that they may publish to. Default: none.
    #[serde(with = "filters")]
    pub publish: Vec<TopicFilter>,
    /// The filters that they may subscribe to, and narrower ones. Default: none.
    #[serde(with = "filters")]
    pub subscribe: Vec<TopicFilter>,
}

impl ClientSection {
    /// A client that may do everything.
    pub fn everything(key: PublicKey) -> Self {
        let Permissions { publish, subscribe } = Permissions::everything();
        Self { key, name: None, publish, subscribe }
    }

    pub(super) fn permissions(&self) -> Permissions {
        Permissions { publish: self.publish.clone(), subscribe: self.subscribe.clone() }
    }
}

impl OtherClients {
    /// All of them may do everything.
    pub fn everything() -> Self {
        let Permissions { publish, subscribe } = Permissions::everything();
        Self { publish, subscribe }
    }

    pub(super) fn permissions(&self) -> Permissions {
        Permissions { publish: self.publish.clone(), subscribe: self.subscribe.clone() }
    }
}
