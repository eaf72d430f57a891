//! Other brokers in a file.

use serde::{Deserialize, Serialize};
use whimbrel::{PublicKey, Url};

use super::SettingsError;
use crate::backbone::Peer;

/// Another broker of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerSection {
    /// Where it is dialled, with its key. At least one of two brokers has to dial the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    /// Its key, if it is not dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PublicKey>,
}

impl PeerSection {
    pub(super) fn peer(&self) -> Result<Peer, SettingsError> {
        let of_url = self.url.as_ref().and_then(|url| url.key);
        let key = match (of_url, self.key) {
            (Some(key), Some(other)) if key != other => return Err(SettingsError::TwoKeys(other)),
            (Some(key), _) => key,
            (None, Some(key)) if self.url.is_none() => key,
            _ => return Err(SettingsError::NoKey),
        };
        Ok(Peer { key, url: self.url.clone() })
    }
}
