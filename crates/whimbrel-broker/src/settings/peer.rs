//! Other brokers in a file.

use serde::{Deserialize, Serialize};
use whimbrel::{PublicKey, Url};

use super::error::SettingsError;
use crate::backbone::Peer;
use crate::ids::channel_id;

/// Another broker of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerSection {
    /// The address at which it is dialled, with its key. At least one of two brokers has to dial the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    /// Its key, if it is not dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PublicKey>,
    /// The names of the channels that go to it. Default: all that both brokers have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<Vec<String>>,
}

impl PeerSection {
    /// Its key, if it has one.
    pub(super) fn key(&self) -> Option<PublicKey> {
        match &self.url {
            Some(url) => url.key,
            None => self.key,
        }
    }

    /// The broker. `names` are those of the channels here.
    pub(super) fn peer(&self, names: &[&str]) -> Result<Peer, SettingsError> {
        let of_url = self.url.as_ref().and_then(|url| url.key);
        let key = match (of_url, self.key) {
            (Some(key), Some(other)) if key != other => return Err(SettingsError::TwoKeys(other)),
            (Some(key), _) => key,
            (None, Some(key)) if self.url.is_none() => key,
            _ => return Err(SettingsError::NoKey),
        };
        let all = self.channels.iter().flatten();
        if let Some(name) = all.clone().find(|name| !names.contains(&name.as_str())) {
            return Err(SettingsError::NoSuchChannel(key, name.clone()));
        }
        let channels = self.channels.is_some().then(|| all.map(|name| channel_id(name)).collect());
        Ok(Peer { key, url: self.url.clone(), channels })
    }
}
