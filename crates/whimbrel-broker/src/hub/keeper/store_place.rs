//! Where a broker keeps what is durable.

use std::path::PathBuf;

use crate::store::StoreSettings;

/// Where durable channels and subscriptions are kept.
#[derive(Clone, Debug)]
pub struct StorePlace {
    /// The folder, or why there is none.
    pub folder: Result<PathBuf, String>,
    /// The settings of the store.
    pub settings: StoreSettings,
}

impl StorePlace {
    /// Nothing is kept.
    pub fn nowhere() -> Self {
        let why = "this broker has no folder for durable subscriptions".to_owned();
        Self { folder: Err(why), settings: StoreSettings::default() }
    }
}
