//! The store of durable channels and subscriptions, in a file.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use whimbrel::PublicKey;
use whimbrel::units::as_text;
use whimbrel_service::key::default_state_folder;

use crate::hub::StorePlace;
use crate::store::StoreSettings;

/// The folder for durable channels and subscriptions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreSection {
    /// The folder. Default: `~/.local/state/whimbrel/broker-KEY`, with the broker's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// The interval at which acknowledgements of durable subscriptions are written. Default: 1 s.
    #[serde(with = "as_text::duration")]
    pub cursor_every: Duration,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self { folder: None, cursor_every: StoreSettings::default().cursor_every }
    }
}

impl StoreSection {
    /// Returns the place for the broker with this key.
    pub fn place(&self, key: &PublicKey) -> StorePlace {
        let folder = match &self.folder {
            Some(folder) if folder.as_os_str().is_empty() => {
                Err("the folder has no name: name one, or leave `folder` out for the default".to_owned())
            }
            Some(folder) => Ok(folder.clone()),
            None => {
                default_state_folder().map(|state| state.join(format!("broker-{key}"))).map_err(|error| {
                    format!("{error}, with `folder = \"…\"` under [store] in the broker's file")
                })
            }
        };
        let settings = StoreSettings { cursor_every: self.cursor_every, ..StoreSettings::default() };
        StorePlace { folder, settings }
    }
}
