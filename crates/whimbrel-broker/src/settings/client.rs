//! Clients in a file.

use serde::{Deserialize, Serialize};
use whimbrel::PublicKey;
use whimbrel_pubsub::topic::TopicFilter;

use super::quota::QuotaSection;
use super::texts::filters;
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
    /// The most that it may do. Default: as the limits say.
    #[serde(default, skip_serializing_if = "QuotaSection::is_none")]
    pub quota: QuotaSection,
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
    /// The most that each of them may do. Default: as the limits say.
    #[serde(skip_serializing_if = "QuotaSection::is_none")]
    pub quota: QuotaSection,
}

impl ClientSection {
    /// A client that may do everything.
    pub fn everything(key: PublicKey) -> Self {
        let Permissions { publish, subscribe, .. } = Permissions::everything();
        Self { key, name: None, publish, subscribe, quota: QuotaSection::default() }
    }

    pub(super) fn permissions(&self) -> Permissions {
        let (publish, subscribe) = (self.publish.clone(), self.subscribe.clone());
        Permissions { publish, subscribe, quota: self.quota.quota() }
    }
}

impl OtherClients {
    /// Lets all of them do everything.
    pub fn everything() -> Self {
        let Permissions { publish, subscribe, .. } = Permissions::everything();
        Self { publish, subscribe, quota: QuotaSection::default() }
    }

    pub(super) fn permissions(&self) -> Permissions {
        let (publish, subscribe) = (self.publish.clone(), self.subscribe.clone());
        Permissions { publish, subscribe, quota: self.quota.quota() }
    }
}
